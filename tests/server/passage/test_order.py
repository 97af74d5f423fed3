"""Who waits for whom, and to which server each one goes."""

from unittest.mock import patch

import pytest

from tests.server.passing import GATED, HERE, LAST, PATH, UNGATED, PassStage, finish_first, waiting
from tests.server.stage import Wire, play, settle


class TestOrder:
    def test_the_next_one_is_dispatched_before_the_last_bytes_go_out(self) -> None:
        async def main() -> None:
            stage = PassStage()
            first = await stage.occupy()
            stage.pass_on()
            await settle()
            seen: list[int] = []
            write = type(first).write

            def watched(wire: Wire, data: bytes) -> None:
                if LAST in data and wire is first:
                    seen.append(len(stage.calls))
                write(wire, data)

            with patch.object(type(first), "write", watched):
                stage.calls[0].end(LAST)
                await settle()
            assert seen == [2]
            assert first.answer.is_whole
            await stage.begin(stage.calls[1])
            stage.calls[1].end(LAST)
            await settle()
            stage.check_over()

        play(main())

    def test_what_only_asks_passes_by_those_who_wait(self) -> None:
        async def main() -> None:
            stage = PassStage()
            await waiting(stage, GATED)
            asked = [("GET", "/slots"), ("HEAD", "/"), ("OPTIONS", PATH), ("DELETE", "/x"), ("POST", "/tokenize")]
            for number, (method, path) in enumerate(asked):
                wire = stage.pass_on(method, path)
                await settle()
                assert stage.noting.asked[1 + number] == (method.encode(), path.encode())
                await stage.begin(stage.calls[1 + number])
                stage.calls[1 + number].end(LAST)
                await settle()
                assert wire.answer.status == 200
            assert (stage.taken, len(stage.outcomes)) == ((1, 1, 0), 0)
            for wire in stage.wires[1:]:
                wire.leave()
            await finish_first(stage, stage.wires[1])
            stage.check_over()

        play(main())

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "MKCOL"])
    def test_all_else_waits(self, method: str) -> None:
        async def main() -> None:
            stage = PassStage()
            await stage.occupy()
            stage.pass_on(method, "/tokenize" if method != "POST" else "/slots/0")
            await settle()
            assert (stage.taken, len(stage.calls)) == ((1, 1, 0), 1)
            stage.calls[0].end(LAST)
            await settle()
            await stage.begin(stage.calls[1])
            stage.calls[1].end(LAST)
            await settle()
            assert stage.outcomes == ["completed", "completed"]
            stage.check_over()

        play(main())


class TestSeveralServers:
    """Of one upstream, behind one queue."""

    def open(self) -> PassStage:
        endpoints = [{"url": f"http://upstream.invalid/{path}", "max_concurrent": 1} for path in ("a", "b")]
        return PassStage(upstream={"endpoints": endpoints})

    def test_who_has_a_slot_goes_where_it_is_and_the_rest_to_the_first(self) -> None:
        async def main() -> None:
            stage = self.open()
            for method in (GATED, GATED, UNGATED, UNGATED):
                stage.pass_on(method)
                await settle()
            targets = [target for _, target in stage.noting.asked]
            assert sorted(targets[:2]) == [b"/a" + PATH.encode(), b"/b" + PATH.encode()]
            assert targets[2:] == [b"/a" + PATH.encode()] * 2
            for call in stage.calls:
                await stage.begin(call)
                call.end(LAST)
                await settle()
            stage.check_over()

        play(main())

    def test_each_ones_redirects_lead_back_to_it(self) -> None:
        async def main() -> None:
            stage = self.open()
            for _ in range(2):
                stage.pass_on()
                await settle()
            for call, wire, (_, target) in zip(stage.calls, stage.wires, stage.noting.asked, strict=True):
                await stage.begin(call, [(b"location", b"/b/x")], status=303)
                call.end(LAST)
                await settle()
                told = wire.answer.headers.get("location")
                assert told == (f"{HERE}/x" if target.startswith(b"/b/") else None)
            stage.check_over()

        play(main())
