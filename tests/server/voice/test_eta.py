"""The estimate in a queue frame: there unless the settings say otherwise."""

import asyncio

import pytest
from anthropic_check import read_events

from llmgate.core.eta import ENOUGH
from tests.server.booth import Booth
from tests.server.stage import play


@pytest.mark.parametrize("eta", [True, False])
def test_the_settings_say_whether_it_is_told(eta: bool) -> None:
    async def main() -> None:
        booth = Booth(waiting={"eta": eta})
        for _ in range(ENOUGH):
            (place,) = await booth.occupy()
            await asyncio.sleep(10)
            place.leave("completed")
        await booth.occupy()
        telling = await booth.come()
        ((_, told),) = read_events(booth.body)
        assert told.get("eta_ms") == (10_000 if eta else None)
        assert "eta_ms" in told or not eta
        telling.cancel()
        booth.close()

    play(main())
