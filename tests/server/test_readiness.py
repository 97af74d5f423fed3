"""Whether it takes requests: the daemon, one upstream, and why not."""

import pytest

from llmgate.admission.local import LocalAdmission
from llmgate.core.events import Limits
from llmgate.core.gate import Gate
from llmgate.server.readiness import readiness


@pytest.fixture
async def admission() -> LocalAdmission:
    return LocalAdmission([Gate("a", Limits(1)), Gate("b", Limits(1), holds=False)], lambda event: None)


def checks(admission: LocalAdmission, upstream: str | None = None, *, stopping: bool = False) -> tuple[bool, str]:
    view = readiness(admission, upstream, stopping=stopping)
    return view.ready, " ".join(f"{name}={word}" for name, word in view.checks.items())


async def test_the_daemon_is_ready_whatever_becomes_of_an_upstream(admission: LocalAdmission) -> None:
    assert checks(admission) == (True, "a=open b=open llmgate=listening")
    admission.pause("a")
    admission.drain("b")
    assert checks(admission) == (True, "a=paused b=draining llmgate=listening")
    assert checks(admission, stopping=True) == (False, "a=paused b=draining llmgate=stopping")


async def test_one_upstream(admission: LocalAdmission) -> None:
    assert checks(admission, "a") == (True, "a=open llmgate=listening")
    assert checks(admission, "a", stopping=True) == (False, "a=open llmgate=stopping")
    admission.pause("a")
    assert checks(admission, "a") == (False, "a=paused llmgate=listening")
    assert checks(admission, "b") == (True, "b=open llmgate=listening")


@pytest.mark.parametrize(("name", "word"), [("a", "held"), ("b", "down")])
async def test_one_whose_server_is_down(admission: LocalAdmission, name: str, word: str) -> None:
    """Whether it keeps its queue meanwhile or not."""
    admission.set_endpoint(name, name, up=False, reason="gone")
    assert checks(admission, name) == (False, f"{name}={word} llmgate=listening")
    admission.set_endpoint(name, name, up=True)
    assert checks(admission, name)[0]
