"""A reload is a transaction: all of it, told key by key, or nothing, with the reason."""

import asyncio
import logging
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from llmgate import reloader
from llmgate.config.frozen import FrozenDict
from llmgate.config.load import Loaded
from llmgate.config.settings import Settings
from llmgate.core.caller import Caller
from llmgate.core.keys import ClientKeys
from llmgate.errors import SettingsError
from llmgate.reloader import Reloader
from llmgate.roster import Roster
from tests.server.house import logged


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[str]]:
    own = logging.getLogger("llmgate")
    before = own.level
    with logged(logging.INFO) as told:
        own.setLevel(logging.INFO)
        yield told
    own.setLevel(before)


def loaded(upstream: dict[str, Any] | None = None, key: str = "", **sections: Any) -> Loaded:
    one = {"url": "http://127.0.0.1:1", "max_concurrent": 1, "api_key_file": "/key" if key else "", **(upstream or {})}
    settings = Settings.model_validate({"upstreams": {"a": one}, **sections})
    return Loaded(settings, None, ("llmgate: odd",), {"a": SecretStr(key)} if key else {}, ClientKeys())


class Desk:
    """A reloader whose next settings, or what is wrong with them, a test says."""

    def __init__(self, start: Loaded) -> None:
        self.next: Loaded | Exception = start
        self.applied: list[Loaded] = []
        self.roster = Roster(start, lambda event: self.roster.note(event), lambda _: None)
        self.reloader = Reloader(start, self.read, self.roster, self.applied.append)

    def read(self) -> Loaded:
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


async def test_what_is_taken_on_is_told(lines: list[str]) -> None:
    desk = Desk(loaded())
    desk.next = loaded({"max_concurrent": 2}, server={"listen": ["127.0.0.1:7"]})
    told = await desk.reloader.reload()
    assert [(change.key, change.old, change.new, change.reload) for change in told.changed] == [
        ("server.listen", ["127.0.0.1:8080"], ["127.0.0.1:7"], "restart"),
        ("upstreams.a.max_concurrent", 1, 2, "live"),
    ]
    assert (told.error, told.warnings) == ("", ["odd"])
    assert desk.roster.admission.gate("a").limits.max_concurrent == 2
    assert desk.applied[0].settings.server.listen == ("127.0.0.1:8080",)
    assert "reload: upstreams.a.max_concurrent = 2 (was 1)" in lines
    assert [line for line in lines if line.endswith("needs a restart")]
    again = await desk.reloader.reload()
    assert [change.key for change in again.changed] == ["server.listen"]


async def test_a_new_name_for_the_same_server_is_told_and_nobody_loses_a_place(lines: list[str]) -> None:
    desk = Desk(loaded())
    place = desk.roster.admission.enter("a", Caller(id="r"))
    await place.__aenter__()
    settings = desk.next.settings if isinstance(desk.next, Loaded) else None
    assert settings is not None
    renamed = settings.model_copy(update={"upstreams": FrozenDict({"b": settings.upstreams["a"]})})
    desk.next = Loaded(renamed, None, (), {}, ClientKeys())
    told = await desk.reloader.reload()
    assert ([change.key for change in told.changed], told.warnings) == (["upstreams.a", "upstreams.b"], [])
    assert desk.roster.admission.gate("b").statistics().running == 1


async def test_limits_that_an_operator_set_are_told_as_long_as_they_stay(lines: list[str]) -> None:
    desk = Desk(loaded({"queue_timeout": "2m"}))
    limits = desk.roster.admission.gate("a").limits
    other = msgspec.structs.replace(limits, max_concurrent=4, max_queued=None, queue_timeout=90.5)
    desk.roster.admission.set_limits("a", other)
    desk.next = loaded({"queue_timeout": "2m", "connect_timeout": 3})
    told = await desk.reloader.reload()
    assert [change.key for change in told.changed] == ["upstreams.a.connect_timeout"]
    stays = "upstreams.a.{} stays {}, as an operator set it; the settings say {}: llmgate set brings that back"
    assert told.warnings[1:] == [stays.format("max_concurrent", 4, 1), stays.format("queue_timeout", 90.5, 120)]
    assert set(told.warnings) <= set(lines)
    desk.next = loaded({"queue_timeout": "3m", "max_concurrent": 2})
    assert (await desk.reloader.reload()).warnings == ["odd"]
    assert desk.roster.admission.gate("a").limits.max_concurrent == 2


async def test_no_limit_is_told_as_none(lines: list[str]) -> None:
    desk = Desk(loaded({"queue_timeout": "2m"}))
    limits = desk.roster.admission.gate("a").limits
    desk.roster.admission.set_limits("a", msgspec.structs.replace(limits, queue_timeout=None))
    assert "queue_timeout stays none, as" in (await desk.reloader.reload()).warnings[1]


async def test_another_key_in_the_same_file_is_taken_on_and_not_shown(lines: list[str]) -> None:
    desk = Desk(loaded(key="old-secret"))
    before = desk.roster.servers["a"]
    desk.next = loaded(key="new-secret")
    told = await desk.reloader.reload()
    assert [change.key for change in told.changed] == ["upstreams.a.api_key_file"]
    assert "secret" not in str(told) + str(lines)
    after = desk.roster.servers["a"]
    assert after is not before
    assert (b"authorization", b"Bearer new-secret") in after._headers_for(b"/v1/chat/completions", {}, "")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (SettingsError("llmgate: /etc/llmgate.toml:3: wrong\nllmgate: /etc/llmgate.toml:9: too"), "llmgate.toml:9"),
        (Loaded(Settings(), None), "no upstream"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (ZeroDivisionError("in vain"), "ZeroDivisionError"),
        (loaded({"url": "https://h", "ca_file": "/nowhere.pem", "max_concurrent": 5}), "No such file"),
    ],
)
async def test_with_an_error_nothing_has_changed(wrong: Any, told: str, lines: list[str]) -> None:
    desk = Desk(loaded())
    before = desk.roster.settings, dict(desk.roster.servers), desk.roster.admission.gate("a").limits
    desk.next = wrong
    answer = await desk.reloader.reload()
    assert told in answer.error
    assert answer.changed == []
    assert desk.applied == []
    assert before == (desk.roster.settings, desk.roster.servers, desk.roster.admission.gate("a").limits)
    assert lines[-1] == "the settings stay as they were"
    desk.next = loaded({"max_concurrent": 2})
    assert not (await desk.reloader.reload()).error


async def test_keys_stay_while_the_old_listen_is_open_to_all(lines: list[str]) -> None:
    """A new listen waits for a new start, a new keys_file does not: until then nobody must come in without a key."""
    desk = Desk(loaded(server={"listen": ["0.0.0.0:8080"], "keys_file": "/keys"}))
    desk.next = loaded()
    answer = await desk.reloader.reload()
    assert "server.listen has 0.0.0.0:8080, which others than this machine may reach" in answer.error
    assert (answer.changed, desk.applied) == ([], [])
    assert lines[-1] == "the settings stay as they were"
    desk.next = loaded(server={"keys_file": "/keys"})
    assert [change.key for change in (await desk.reloader.reload()).changed] == ["server.listen"]


async def test_a_disk_that_does_not_answer_holds_up_neither_the_next_reload_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, answers = Desk(loaded()), threading.Event()
    monkeypatch.setattr(reloader, "READ_SECONDS", 0.01)
    monkeypatch.setattr(desk.reloader, "_read", answers.wait)
    try:
        assert "in time" in (await desk.reloader.reload()).error
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "reload")
    finally:
        answers.set()
    monkeypatch.setattr(reloader, "READ_SECONDS", 30.0)
    monkeypatch.setattr(desk.reloader, "_read", desk.read)
    assert (await desk.reloader.reload()).error == ""


async def test_nor_does_it_hold_up_whoever_waits_for_it_when_all_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, asked, answers = Desk(loaded()), threading.Event(), threading.Event()

    def read() -> Loaded:
        asked.set()
        answers.wait()
        return loaded({"max_concurrent": 2})

    monkeypatch.setattr(desk.reloader, "_read", read)
    both = [asyncio.ensure_future(desk.reloader.reload()) for _ in range(2)]
    try:
        await asyncio.to_thread(asked.wait, 30)
        desk.reloader.stop()
        async with asyncio.timeout(30):
            assert ["is stopping" in (await one).error for one in both] == [True, True]
    finally:
        answers.set()
    desk.reloader.stop()
    assert desk.applied == []


async def test_certificates_are_read_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are files, and reading them takes its time: the loop has clients to serve."""
    made_in = []

    def make(cafile: object = None) -> ssl.SSLContext:
        made_in.append(threading.current_thread())
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    desk = Desk(loaded())
    monkeypatch.setattr("llmgate.fleet.ssl.create_default_context", make)
    for transport in ("native", "httpx"):
        desk.next = loaded({"url": "https://h", "transport": transport})
        assert not (await desk.reloader.reload()).error
    assert len(made_in) == 2
    assert threading.current_thread() not in made_in
