"""A reload is a transaction: all of it, told key by key, or nothing, with the reason."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

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


async def test_a_new_name_for_a_server_that_still_works_under_the_old_one_is_told() -> None:
    """Each name has a queue of its own, as two names in the settings have."""
    desk = Desk(loaded())
    place = desk.roster.admission.enter("a", Caller(id="r"))
    await place.__aenter__()
    settings = desk.next.settings if isinstance(desk.next, Loaded) else None
    assert settings is not None
    renamed = settings.model_copy(update={"upstreams": FrozenDict({"b": settings.upstreams["a"]})})
    desk.next = Loaded(renamed, None, (), {}, ClientKeys())
    (warning,) = (await desk.reloader.reload()).warnings
    assert "upstream a is no longer in the settings" in warning
    assert "upstream b has too" in warning
    place.leave("completed")
    assert (await desk.reloader.reload()).warnings == []


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
