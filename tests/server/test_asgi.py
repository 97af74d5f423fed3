"""Reading a request's body, within its bounds and in time, and its headers."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run, this_loop

from llmgate.core.access import Access
from llmgate.core.keys import ClientKey
from llmgate.errors import BadRequest, BodyTimeout, BodyTooLarge
from llmgate.protocols.surfaces import MESSAGES
from llmgate.server.asgi import (
    ACCESS,
    LARGE_BODY,
    ClientLeft,
    access_of,
    headers_of,
    peer_of,
    read_aside,
    read_body,
)


def pieces(*bodies: bytes, gone: bool = False) -> Any:
    """A `receive` that gives the body so, then waits for ever; `gone`: the client leaves instead."""
    messages: list[Any] = [{"type": "http.request", "body": body, "more_body": True} for body in bodies]
    if gone:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False

    async def receive() -> Any:
        if not messages:
            await asyncio.get_running_loop().create_future()
        return messages.pop(0)

    return receive


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=6), st.integers(0, 40))
def test_any_pieces_within_the_limit(bodies: list[bytes], limit: int) -> None:
    body = b"".join(bodies)

    async def main() -> None:
        if len(body) <= limit:
            assert await read_body({}, pieces(*bodies), limit, 1.0) == body
        else:
            with pytest.raises(BodyTooLarge):
                await read_body({}, pieces(*bodies), limit, 1.0)

    run(main())


@pytest.mark.parametrize(("length", "fits"), [(b"10", True), (b"11", False), (b"x", True), (b"-1", True), (b"", True)])
async def test_a_declared_length_is_looked_at_first(length: bytes, fits: bool) -> None:
    async def never() -> Any:
        raise AssertionError("nothing of it may be read")

    headers = {b"content-length": length}
    if fits:
        assert await read_body(headers, pieces(b"x" * 10), 10, None) == b"x" * 10
    else:
        with pytest.raises(BodyTooLarge):
            await read_body(headers, never, 10, None)


@pytest.mark.parametrize("before", [[], [b"a"], [b"a", b"b"]])
async def test_a_client_that_leaves_before_its_body_is_here(before: list[bytes]) -> None:
    with pytest.raises(ClientLeft):
        await read_body({}, pieces(*before, gone=True), 100, None)


def test_a_body_that_does_not_come_in_time() -> None:
    async def main() -> None:
        began = this_loop().time()

        async def receive() -> Any:
            await asyncio.sleep(2)
            return {"type": "http.request", "body": b"a", "more_body": True}

        with pytest.raises(BodyTimeout):
            await read_body({}, receive, 100, 5.0)
        assert this_loop().time() - began == pytest.approx(5)
        assert this_loop().timers == []

    run(main())


def test_it_may_take_as_long_as_it_takes() -> None:
    async def main() -> None:
        async def receive() -> Any:
            await asyncio.sleep(10_000)
            return {"type": "http.request", "body": b"a", "more_body": False}

        assert await read_body({}, receive, 100, None) == b"a"

    run(main())


def test_a_header_that_comes_twice_is_a_list() -> None:
    assert headers_of({"headers": [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]}) == {b"a": b"1, 3", b"b": b"2"}


def test_the_peer_is_what_the_door_found() -> None:
    found = Access(peer="10.0.0.1:5", key=ClientKey(name="laptop", digest=b""))
    assert peer_of({ACCESS: found}) == "10.0.0.1:5"
    assert access_of({ACCESS: found}).key_name == "laptop"


def test_whoever_came_past_no_door_has_no_key() -> None:
    assert (peer_of({}), access_of({}).key_name) == ("unix", "")


async def test_a_large_body_is_read_in_another_thread() -> None:
    here = threading.get_ident()
    assert await read_aside(lambda _: threading.get_ident(), bytes(LARGE_BODY)) == here
    assert await read_aside(lambda _: threading.get_ident(), bytes(LARGE_BODY + 1)) != here


async def test_large_bodies_are_read_one_after_the_other_and_small_ones_beside_them() -> None:
    told: list[str] = []
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def first(_: bytes) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert may_end.wait(60)
        told.append("first")

    large = bytes(LARGE_BODY + 1)
    reading = [asyncio.ensure_future(read_aside(first, large))]
    await begun.wait()
    reading += [asyncio.ensure_future(read_aside(lambda _: told.append("next"), large)) for _ in range(8)]
    await asyncio.sleep(0)
    await read_aside(lambda _: told.append("small"), b"")
    await read_aside(lambda _: told.append("with a slot"), large, with_slot=True)
    may_end.set()
    await asyncio.gather(*reading)
    assert told == ["small", "with a slot", "first", *["next"] * 8]


async def test_the_loop_turns_while_a_large_body_is_read() -> None:
    """A call that keeps the interpreter to itself gives it one turn at most; a slow machine gives it more of them."""
    body = b'{"model":"m","messages":[' + b'{"a":1},' * (2 << 20) + b"{}]}"
    turns = 0
    reading = asyncio.ensure_future(read_aside(MESSAGES.read_request, body))
    while not reading.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await reading).model == "m"
    assert turns > 20


async def test_what_is_wrong_with_a_large_body_is_raised() -> None:
    def refuse(_: bytes) -> None:
        raise BadRequest("no")

    with pytest.raises(BadRequest):
        await read_aside(refuse, bytes(LARGE_BODY + 1))
