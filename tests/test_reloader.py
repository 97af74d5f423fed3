"""A reload is a transaction: all of it, told key by key, or nothing, with the reason."""

import asyncio
import logging
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import SecretStr

from llmgate import reloader
from llmgate.config.certificate import Certificate
from llmgate.config.frozen import FrozenDict
from llmgate.config.load import Loaded, load
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
    assert told.fates == ["a is now b: its queue goes on, 1 running"]
    assert f"reload: {told.fates[0]}" in lines
    more = renamed.upstreams["b"].model_copy(update={"max_queued": 5})
    desk.next = Loaded(renamed.model_copy(update={"upstreams": FrozenDict({"c": more})}), None, (), {}, ClientKeys())
    also = await desk.reloader.reload()
    assert [(it.key, it.new) for it in also.changed][-1] == ("upstreams.c.max_queued", 5), "what else differs is told"
    desk.next = Loaded(renamed, None, (), {}, ClientKeys())
    await desk.reloader.reload()
    assert desk.roster.admission.gate("b").statistics().running == 1


async def test_limits_that_an_operator_set_are_told_as_long_as_they_stay(lines: list[str]) -> None:
    desk = Desk(loaded({"queue_timeout": "2m"}))
    limits = desk.roster.admission.gate("a").limits
    other = msgspec.structs.replace(limits, max_concurrent=4, max_queued=None, queue_timeout=90.5)
    desk.roster.admission.set_limits("a", other)
    desk.next = loaded({"queue_timeout": "2m", "connect_timeout": 3})
    told = await desk.reloader.reload()
    assert [change.key for change in told.changed] == ["upstreams.a.connect_timeout"]
    stays = (
        "upstreams.a.{0} stays {1}, as an operator set it; the settings say {2}. To take that: llmgate set a {0}={2}"
    )
    assert told.warnings[1:] == [
        stays.format("max_concurrent", 4, 1),
        stays.format("queue_timeout", "90.5s", "2m"),
    ]
    assert set(told.warnings) <= set(lines)
    desk.next = loaded({"queue_timeout": "3m", "max_concurrent": 2})
    assert (await desk.reloader.reload()).warnings == ["odd"]
    assert desk.roster.admission.gate("a").limits.max_concurrent == 2


async def test_what_an_operator_wrote_down_is_not_new_to_a_reload(lines: list[str]) -> None:
    desk = Desk(loaded())
    limits = desk.roster.admission.gate("a").limits
    desk.roster.admission.set_limits("a", msgspec.structs.replace(limits, max_queued=13))
    desk.next = loaded({"max_queued": 13, "queue_timeout": "2m"})
    await desk.reloader.note_written("a", ["max_queued"])
    assert desk.applied[-1].settings.upstreams["a"].max_queued == 13
    assert desk.roster.overridden == []
    assert desk.roster.admission.gate("a").limits.queue_timeout == limits.queue_timeout
    desk.roster.admission.set_limits("a", msgspec.structs.replace(limits, max_queued=20))
    told = await desk.reloader.reload()
    assert [change.key for change in told.changed] == ["upstreams.a.queue_timeout"]
    assert "upstreams.a.max_queued stays 20, as" in told.warnings[1]
    assert desk.roster.admission.gate("a").limits.max_queued == 20


async def test_only_of_what_was_written_down_the_origin_is_a_new_one(tmp_path: Path) -> None:
    """The rest of the file is not in force."""
    file = tmp_path / "llmgate.toml"

    def write(*more: str) -> Loaded:
        file.write_text("\n".join(["[upstreams.a]", 'url = "http://127.0.0.1:1"', "max_concurrent = 1", *more]))
        return load(file, environ={})

    desk = Desk(write())
    desk.next = write("max_queued = 13", "connect_timeout = 3")
    await desk.reloader.note_written("a", ["max_queued"])

    def places() -> list[str]:
        origins = desk.applied[-1].origins
        assert origins is not None
        keys = ("max_concurrent", "max_queued", "queue_timeout", "connect_timeout")
        return [origins.place(("upstreams", "a", key)) for key in keys]

    assert places() == [f"{file}:3", f"{file}:4", "default", "default"]
    desk.next = write("", "max_queued = 14", 'queue_timeout = "2m"', "connect_timeout = 3")
    await desk.reloader.note_written("a", ["queue_timeout"])
    assert places() == [f"{file}:3", f"{file}:4", f"{file}:6", "default"]
    assert desk.applied[-1].settings.upstreams["a"].max_queued == 13
    assert (await desk.reloader.reload()).error == ""
    assert places() == [f"{file}:3", f"{file}:5", f"{file}:6", f"{file}:7"]


async def test_an_auto_that_was_written_down_is_followed() -> None:
    desk = Desk(loaded({"max_concurrent": 2}))
    desk.next = loaded({"max_concurrent": "auto"})
    await desk.reloader.note_written("a", ["max_concurrent"])
    assert desk.roster.discovery.follows("a")
    assert (await desk.reloader.reload()).changed == []


@pytest.mark.parametrize("found", [SettingsError("llmgate: x"), loaded({"max_queued": 4})])
async def test_what_was_written_down_and_cannot_be_found_changes_nothing(found: Any) -> None:
    desk = Desk(loaded())
    desk.next = found
    await desk.reloader.note_written("a" if isinstance(found, Exception) else "b", ["max_queued"])
    assert desk.applied == []


async def test_no_limit_is_told_as_none(lines: list[str]) -> None:
    desk = Desk(loaded({"queue_timeout": "2m"}))
    limits = desk.roster.admission.gate("a").limits
    desk.roster.admission.set_limits("a", msgspec.structs.replace(limits, queue_timeout=None))
    assert "queue_timeout stays none, as" in (await desk.reloader.reload()).warnings[1]


@pytest.mark.parametrize(
    ("written", "set_to", "said"),
    [
        (3, 0, "stays 0 (not gated), as an operator set it; the settings say 3. To take that: llmgate set a {}=3"),
        (0, 3, "stays 3, as an operator set it; the settings say 0 (not gated). To take that: llmgate set a {}=0"),
        (
            "auto",
            3,
            "stays 3, as an operator set it; the settings say auto (1 now). To take that: llmgate set a {}=auto",
        ),
    ],
)
async def test_what_they_say_can_be_typed(written: Any, set_to: int, said: str) -> None:
    desk = Desk(loaded({"max_concurrent": written}))
    discovery = desk.roster.discovery
    discovery._note_slots(discovery._servers["a"], None)
    limits = desk.roster.admission.gate("a").limits
    discovery.pin("a")
    desk.roster.admission.set_limits("a", msgspec.structs.replace(limits, max_concurrent=set_to))
    told = (await desk.reloader.reload()).warnings[1]
    assert told == "upstreams.a.max_concurrent " + said.format("max_concurrent")


async def test_an_operators_auto_is_told_also_where_it_is_the_number_of_the_settings() -> None:
    desk = Desk(loaded({"max_concurrent": 1}))
    assert await desk.roster.discovery.follow_slots("a") == 1, "nobody answers: what is in force"
    assert (
        "max_concurrent stays auto (1 now), as an operator set it; the settings say 1"
        in (await desk.reloader.reload()).warnings[1]
    )
    assert desk.roster.discovery.follows("a")


async def test_who_was_at_an_upstream_that_is_taken_away_is_told(lines: list[str]) -> None:
    both = {"a": {"url": "http://127.0.0.1:1"}, "b": {"url": "http://127.0.0.1:2"}}
    settings = Settings.model_validate({"upstreams": {name: {**it, "max_concurrent": 1} for name, it in both.items()}})
    desk = Desk(Loaded(settings, None, (), {}, ClientKeys()))
    for name in ("runs", "waits"):
        await desk.roster.admission.enter("b", Caller(id=name)).__aenter__()
    one = settings.model_copy(update={"upstreams": FrozenDict({"a": settings.upstreams["a"]})})
    desk.next = Loaded(one, None, (), {}, ClientKeys())
    fates = ["b takes nobody new: 1 waiting and 1 running are served to the end"]
    assert (await desk.reloader.reload()).fates == fates
    assert (await desk.reloader.reload()).fates == [], "it is told once"
    assert f"reload: {fates[0]}" in lines


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


async def test_of_another_certificate_its_names_and_its_end_are_told(lines: list[str]) -> None:
    def shown(digest: str, names: tuple[str, ...] = (), expires: datetime | None = None) -> Loaded:
        certificate = Certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), digest, "", names, expires)
        return replace(loaded(), certificate=certificate)

    desk, fates = Desk(loaded()), []
    names = ("127.0.0.1", "gate.example.org")
    for new in (shown("1"), shown("2", names, datetime(2027, 2, 28, tzinfo=UTC)), shown("2"), loaded()):
        desk.next = new
        fates.append((await desk.reloader.reload()).fates)
    assert fates == [
        ["new connections are shown a certificate"],
        ["new connections are shown another certificate for 127.0.0.1, gate.example.org, until 2027-02-28"],
        [],
        [],
    ]
    assert f"reload: {fates[1][0]}" in lines
