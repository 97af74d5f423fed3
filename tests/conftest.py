"""What holds for every test: hypothesis profiles, which files begin, and that nothing is skipped in CI.

Profiles: `fast` for every run, `deep` for CI (HYPOTHESIS_PROFILE=deep). No test fails for slowness.
"""

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast",
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("fast"), max_examples=600, stateful_step_count=80)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

TESTS = Path(__file__).parent
LONG = ("e2e/test_llama", "e2e", "clients", "server")
"""How the paths of files begin that take long, the longest first: for what begins last the other workers wait."""

# Whoever is started in the background of a script ignores ctrl-c, and so would all that it starts: tests of ctrl-c need
# what a terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Half a million objects are made that stay until the end: the collector of circles is spared each look at them."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn_of(item.path.relative_to(TESTS).as_posix()))


def turn_of(path: str) -> int:
    return next((turn for turn, start in enumerate(LONG) if path.startswith(start)), len(LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that cannot run may be skipped on somebody's machine; in CI it fails."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
