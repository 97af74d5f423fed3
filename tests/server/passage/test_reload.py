"""A reload calls the upstream otherwise while something is passed on to it, or drops it."""

import pytest

from tests.server.passing import BOTH, HERE, PassStage, line
from tests.server.renaming import OTHER, dropped, renamed
from tests.server.stage import Wire, play, settle

BODY = b'{"prompt":"x"}'


async def half_sent(stage: PassStage) -> Wire:
    wire = stage.connect()
    wire.send(line("POST", HERE + "/completion", BODY)[:-5])
    await settle()
    return wire


def test_one_whose_body_is_still_coming_goes_on_under_the_new_name() -> None:
    async def main() -> None:
        stage = PassStage()
        wire = await half_sent(stage)
        with renamed(stage.services):
            wire.send(BODY[-5:])
            await settle()
            await stage.begin(stage.calls[0])
            stage.calls[0].end(b"{}")
            await settle()
        assert stage.bodies == [BODY]
        assert (wire.answer.status, wire.answer.body, wire.answer.headers["llmgate-upstream"]) == (200, b"{}", OTHER)
        stage.check_over()

    play(main())


def test_where_it_was_dropped_it_is_refused() -> None:
    async def main() -> None:
        stage = PassStage()
        wire = await half_sent(stage)
        with dropped(stage.services):
            wire.send(BODY[-5:])
            await settle()
        assert (wire.answer.status, wire.answer.headers["llmgate-code"]) == (503, "REFUSED")
        assert stage.calls == []
        stage.check_over()

    play(main())


@BOTH
@pytest.mark.parametrize("gone", [False, True])
def test_a_redirect_leads_to_where_the_server_is_found_now(method: str, gone: bool) -> None:
    async def main() -> None:
        stage = PassStage()
        wire = stage.pass_on(method)
        await settle()
        with dropped(stage.services) if gone else renamed(stage.services):
            await stage.begin(stage.calls[0], [(b"location", b"/there"), (b"content-length", b"0")], 307)
            stage.calls[0].end()
            await settle()
        location = None if gone else HERE.rpartition("/")[0] + f"/{OTHER}/there"
        assert (wire.answer.status, wire.answer.headers.get("location")) == (307, location)
        stage.check_over()

    play(main())


@BOTH
def test_a_server_that_is_not_there_is_down_under_its_new_name(method: str) -> None:
    async def main() -> None:
        stage = PassStage()
        wire = stage.pass_on(method)
        await settle()
        with renamed(stage.services):
            stage.calls[0].refuse()
            await settle()
            (endpoint,) = stage.services.admission.gate(OTHER).endpoints().values()
            assert not endpoint.up
        assert wire.answer.status == 503
        stage.check_over()

    play(main())
