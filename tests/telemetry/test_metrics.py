"""What Prometheus reads: every family of docs/metrics.md and no other, true to the gates, bounded, and cheap."""

import json
import re
from collections import Counter as Counts
from pathlib import Path
from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgate import __version__
from llmgate.core.caller import Caller
from llmgate.core.events import Event, Limits
from llmgate.core.gate import Gate, Ticket
from llmgate.errors import KeyLimit, NotAllowed, Outcome, QueueFull
from llmgate.telemetry.ledger import Ledger
from llmgate.telemetry.metrics import ALARMS, MOST_MODELS, Histogram, Metrics

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/metrics.md").read_text()
FOREIGN = ("process_", "python_")


class Samples(dict[str, float]):
    """By `name{label=value,...}`, whatever the order of the labels."""

    def __getitem__(self, name: str) -> float:
        return super().__getitem__(self.sorted(name))

    @staticmethod
    def sorted(name: str) -> str:
        family, _, labels = name.removesuffix("}").partition("{")
        return f"{family}{{{','.join(sorted(labels.split(',')))}}}"


class Scene:
    """One gate whose events are told to a ledger and to metrics, as the daemon does it."""

    def __init__(self, limits: Limits | None = None, *, model_label: bool = False) -> None:
        self.now = 100.0
        self.gate = Gate("a", limits or Limits(1))
        self.frames: Counts[tuple[str, str]] = Counts()
        self.ledger = Ledger(100)
        self.refused: Counts[str] = Counts()
        self.metrics = Metrics(
            lambda: {"a": self.gate},
            self.frames,
            clock=lambda: self.now,
            model_label=model_label,
            refused=self.refused,
        )
        self.count = 0

    def enter(self, **about: Any) -> Ticket:
        self.count += 1
        caller = Caller(**{"id": f"r{self.count}", "api": "messages", "stream": True, **about})
        try:
            return self.gate.enter(self.now, caller)
        finally:
            self.pump()

    def leave(self, ticket: Ticket, outcome: Any = "completed", after: float = 0.0) -> None:
        self.now += after
        self.gate.leave(ticket, self.now, outcome)
        self.pump()

    def pump(self) -> None:
        for event in self.gate.take_events():
            self.apply(event)

    def apply(self, event: Event) -> None:
        self.metrics.apply(event, self.ledger.apply(event))

    def read(self) -> Samples:
        """Every sample of ours."""
        _, text = self.metrics.render()
        found = Samples()
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                if not sample.name.startswith(FOREIGN):
                    labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
                    found[Samples.sorted(f"{sample.name}{{{labels}}}")] = sample.value
        return found


def test_the_gate_is_read_when_it_is_asked_for() -> None:
    scene = Scene(Limits(2, 8, 30.0))
    scene.enter()
    running = scene.enter()
    scene.enter()
    scene.now += 5
    scene.gate.drain(running, scene.now, "client_gone", release_at=None)
    found = scene.read()
    assert found["llmgate_requests_running{upstream=a}"] == 1
    assert found["llmgate_requests_draining{upstream=a}"] == 1
    assert found["llmgate_requests_waiting{upstream=a,class=default}"] == 1
    assert found["llmgate_slots{upstream=a}"] == 2
    assert found["llmgate_queue_limit{upstream=a}"] == 8
    assert found["llmgate_queue_timeout_seconds{upstream=a}"] == 30
    assert found["llmgate_oldest_waiting_seconds{upstream=a}"] == 5
    assert found["llmgate_upstream_up{upstream=a}"] == 1
    assert found["llmgate_upstream_paused{upstream=a}"] == 0
    assert found["llmgate_upstream_draining{upstream=a}"] == 0


def test_without_limits() -> None:
    found = Scene(Limits(0)).read()
    assert found["llmgate_slots{upstream=a}"] == 0
    for name in ("llmgate_queue_limit", "llmgate_queue_timeout_seconds"):
        assert found[f"{name}{{upstream=a}}"] == float("inf")
    assert found["llmgate_oldest_waiting_seconds{upstream=a}"] == 0


def test_down_paused_and_alarms() -> None:
    scene = Scene()
    scene.gate.set_endpoint("a", scene.now, up=False)
    scene.gate.set_paused(True, scene.now)
    scene.gate.raise_alarm("mismatch", "x", scene.now)
    found = scene.read()
    assert found["llmgate_upstream_up{upstream=a}"] == 0
    assert found["llmgate_upstream_paused{upstream=a}"] == 1
    raised = {alarm: found[f"llmgate_alarms{{upstream=a,alarm={alarm}}}"] for alarm in ALARMS}
    assert raised == {alarm: float(alarm == "mismatch") for alarm in ALARMS}


def test_an_upstream_that_drains_is_not_paused() -> None:
    scene = Scene()
    scene.gate.close(scene.now, dismiss=False)
    found = scene.read()
    assert (found["llmgate_upstream_draining{upstream=a}"], found["llmgate_upstream_paused{upstream=a}"]) == (1, 0)
    assert found["llmgate_requests_draining{upstream=a}"] == 0, "that is another matter"


def test_requests_that_ended() -> None:
    scene = Scene(Limits(1, 2))
    first = scene.enter()
    second = scene.enter(api="chat", stream=False)
    third = scene.enter()
    with pytest.raises(QueueFull):
        scene.enter()
    scene.leave(third, "abandoned", after=2)
    scene.leave(first, after=2)
    scene.gate.drain(second, scene.now + 1, "client_gone", release_at=None)
    scene.now += 2
    scene.leave(second)
    found = scene.read()
    assert found["llmgate_requests_total{upstream=a,api=messages,outcome=queue_full}"] == 1
    assert found["llmgate_requests_total{upstream=a,api=messages,outcome=abandoned}"] == 1
    assert found["llmgate_requests_total{upstream=a,api=messages,outcome=completed}"] == 1
    assert found["llmgate_requests_total{upstream=a,api=chat,outcome=client_gone}"] == 1
    assert found["llmgate_queue_wait_seconds_count{upstream=a,outcome=admitted}"] == 2
    assert found["llmgate_queue_wait_seconds_sum{upstream=a,outcome=admitted}"] == 4
    assert found["llmgate_queue_wait_seconds_bucket{upstream=a,outcome=admitted,le=0.05}"] == 1
    assert found["llmgate_queue_wait_seconds_bucket{upstream=a,outcome=abandoned,le=1.0}"] == 0
    assert found["llmgate_queue_wait_seconds_bucket{upstream=a,outcome=abandoned,le=2.5}"] == 1
    assert found["llmgate_request_duration_seconds_sum{upstream=a,api=chat,stream=false}"] == 5
    assert found["llmgate_request_duration_seconds_sum{upstream=a,api=messages,stream=true}"] == 6


def test_tokens_and_the_first_of_them() -> None:
    scene = Scene()
    scene.enter()
    waited = scene.enter()
    scene.leave(next(iter(scene.gate.in_flight())), after=7)
    record = scene.ledger.record("r2")
    assert record is not None
    record.first_byte_at, record.output_tokens, record.input_tokens = scene.now + 0.3, 20, 900
    scene.leave(waited, after=3)
    found = scene.read()
    assert found["llmgate_time_to_first_token_seconds_sum{upstream=a}"] == pytest.approx(0.3), "from dispatch"
    assert found["llmgate_output_tokens_total{upstream=a}"] == 20
    assert found["llmgate_input_tokens_total{upstream=a}"] == 900


def test_models_are_told_apart_only_where_that_is_wanted_and_bounded() -> None:
    scene = Scene(model_label=True)
    for number in range(MOST_MODELS + 50):
        scene.leave(scene.enter(model=f"m{number}"))
    found = scene.read()
    assert found["llmgate_requests_total{upstream=a,api=messages,outcome=completed,model=m7}"] == 1
    assert found["llmgate_requests_total{upstream=a,api=messages,outcome=completed,model=other}"] == 50
    assert "model=" not in str(Scene().read())


def test_reloads_frames_and_the_build() -> None:
    scene = Scene()
    scene.frames["messages", "queue"] += 3
    scene.refused["KEY_LIMIT"] += 2
    before = scene.read()
    assert before["llmgate_config_last_reload_successful{}"] == 1
    scene.metrics.note_reload(succeeded=True)
    scene.metrics.note_reload(succeeded=False)
    found = scene.read()
    for result in ("success", "failure"):
        assert found[f"llmgate_config_reloads_total{{result={result}}}"] == 1
    assert found["llmgate_config_last_reload_successful{}"] == 0
    assert found["llmgate_config_last_reload_timestamp_seconds{}"] > 1.7e9
    assert found["llmgate_queue_frames_total{api=messages,kind=queue}"] == 3
    assert found["llmgate_refused_total{code=KEY_LIMIT}"] == 2
    assert any(f"version={__version__}" in name for name in found)


def test_a_value_on_a_bound_is_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.read() == ([("1.0", 1.0), ("2.0", 3.0), ("+Inf", 4.0)], 13.5)


# ---- the table, the alerts, the dashboard


def families(scene: Scene) -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each of ours, by name."""
    found: dict[str, tuple[str, set[str]]] = {}
    for family in text_string_to_metric_families(scene.metrics.render()[1].decode()):
        if not family.name.startswith(FOREIGN):
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            found[name] = family.type, labels
    return found


def documented() -> dict[str, tuple[str, set[str]]]:
    rows = re.findall(r"^\| `(llmgate_\w+)`(?: \*)? \| (\w+) \|([\w, ]*)\|", DOCUMENT, re.MULTILINE)
    return {name: (kind, set(labels.replace(",", " ").split())) for name, kind, labels in rows}


def busy() -> Scene:
    """Every family has a sample."""
    scene = Scene()
    scene.frames["messages", "queue"] += 1
    scene.refused["UNAUTHORIZED"] += 1
    ticket = scene.enter()
    record = scene.ledger.record("r1")
    assert record is not None
    record.first_byte_at, record.output_tokens, record.input_tokens = scene.now, 1, 1
    scene.leave(ticket)
    return scene


def test_the_document_names_every_family_with_its_labels_and_no_other() -> None:
    assert families(busy()) == documented()
    assert len(documented()) == 25


def known(expression: str) -> bool:
    """Whether every metric in it exists, with labels that it has."""
    there = documented()
    for name in re.findall(r"\b(?:llmgate|process|python)_\w+", expression):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if not base.startswith(FOREIGN) and base not in there:
            return False
    return bool(re.search(r"\b(llmgate|process)_", expression))


RULES = (ROOT / "etc/prometheus/rules.yml").read_text()
ALERTS = dict(re.findall(r"- alert: (\w+)\n\s+expr: (.*(?:\n\s{10,}.*)?)", RULES))
BOARD = json.loads((ROOT / "etc/grafana/llmgate.json").read_text())
PANELS = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in BOARD["panels"]}
BY_API = "Whole requests"
"""A panel of what has the label `api`: each is there from its first request on."""


def selectors(expression: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """Each series that it selects: the name, and the labels that must be so."""
    found = re.findall(r"\b(llmgate_\w+)(?:\{(.*?)\})?", expression)
    return {(name, frozenset(re.findall(r'(\w+)="(\w+)"', labels))) for name, labels in found}


def born(scene: Scene) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    families = text_string_to_metric_families(scene.metrics.render()[1].decode())
    return {(sample.name, frozenset(sample.labels.items())) for family in families for sample in family.samples}


@pytest.mark.parametrize("expression", ALERTS.values(), ids=ALERTS)
@pytest.mark.parametrize("model_label", [False, True])
def test_what_an_alert_looks_at_is_there_before_anything_happens(expression: str, model_label: bool) -> None:
    """Of a counter that is born with its first event there is no increase, and so no alert of it."""
    there = born(Scene(model_label=model_label))
    for wanted, labels in selectors(expression):
        assert any(name == wanted and labels <= own for name, own in there), (wanted, labels)


@pytest.mark.parametrize("title", [title for title in PANELS if title != BY_API])
def test_so_is_what_a_panel_shows(title: str) -> None:
    there = {name for name, _ in born(Scene())}
    assert {name for expression in PANELS[title] for name, _ in selectors(expression)} <= there


def test_every_way_to_end_and_every_refusal_is_there_from_the_start() -> None:
    scene = Scene()
    found = scene.read()
    assert {name for name in found if name.startswith("llmgate_outcomes_total")} == {
        f"llmgate_outcomes_total{{outcome={outcome},upstream=a}}" for outcome in get_args(Outcome)
    }
    refusals = {error.code for error in (KeyLimit, NotAllowed, *NotAllowed.__subclasses__())}
    assert {name for name in found if name.startswith("llmgate_refused_total")} == {
        f"llmgate_refused_total{{code={code}}}" for code in refusals
    }
    assert set(found.values()) <= {0.0, 1.0, float("inf"), found["llmgate_config_last_reload_timestamp_seconds{}"]}


def test_those_of_an_upstream_that_a_reload_brings_are_there_then() -> None:
    scene = Scene()
    gates = {"a": scene.gate}
    scene.metrics._gates = lambda: gates
    assert not any("upstream=b" in name for name in scene.read())
    gates["b"] = Gate("b", Limits(1))
    assert scene.read()["llmgate_outcomes_total{upstream=b,outcome=queue_full}"] == 0


def test_outcomes_are_those_of_all_surfaces_and_models() -> None:
    scene = Scene(Limits(1, 0), model_label=True)
    ticket = scene.enter(model="m")
    for api in ("messages", "chat"):
        with pytest.raises(QueueFull):
            scene.enter(api=api, model=api)
    scene.leave(ticket)
    found = scene.read()
    assert found["llmgate_outcomes_total{upstream=a,outcome=queue_full}"] == 2
    assert found["llmgate_outcomes_total{upstream=a,outcome=completed}"] == 1


def test_who_is_nearest_to_a_timeout_counts_each_by_the_time_it_has() -> None:
    """Without queue_timeout, too: who does not stream has a time of its own."""
    scene = Scene()
    scene.enter()

    def used() -> float:
        return scene.read()["llmgate_queue_timeout_used_ratio{upstream=a}"]

    scene.enter()
    scene.now += 1000
    assert used() == 0, "who may wait for ever is never near"
    for wait in (270.0, 100.0):
        scene.count += 1
        scene.gate.enter(scene.now, Caller(id=f"r{scene.count}"), max_wait=wait)
    scene.now += 90
    assert used() == pytest.approx(0.9)


@pytest.mark.parametrize(("wish", "used"), [(2.0, 0.0), (100.0, 0.0), (400.0, 0.019)])
def test_who_set_itself_a_shorter_time_is_not_near_to_the_timeout_of_the_queue(wish: float, used: float) -> None:
    scene = Scene(Limits(1, queue_timeout=100.0))
    scene.enter()
    scene.gate.enter(scene.now, Caller(id="r9", max_wait=wish), max_wait=wish)
    scene.now += 1.9
    assert scene.read()["llmgate_queue_timeout_used_ratio{upstream=a}"] == pytest.approx(used)


def test_every_alert_asks_for_what_there_is() -> None:
    text = RULES
    assert len(ALERTS) == text.count("- alert:") >= 4
    assert all(known(expression) for expression in ALERTS.values()), ALERTS
    for wanted in ("_used_ratio > 0.8", 'outcome="queue_full"}[5m]', 'outcome="queue_timeout"}', "up == 0", "0.95"):
        assert wanted in text
    assert text.count("summary:") == text.count("description:") == text.count("severity:") == len(ALERTS)
    tested = (ROOT / "tests/etc/rules_test.yml").read_text()
    assert set(re.findall(r"alertname: (\w+)", tested)) == set(ALERTS)


def test_every_panel_asks_for_what_there_is() -> None:
    expressions = [expression for shown in PANELS.values() for expression in shown]
    assert len(expressions) >= 10
    assert all(known(expression) for expression in expressions)
    shown = " ".join(expressions)
    missing = {name for name in documented() if name.removesuffix("_total") not in shown}
    assert missing <= {
        "llmgate_queue_limit",
        "llmgate_queue_timeout_seconds",
        "llmgate_queue_timeout_used_ratio",
        "llmgate_requests_total",
        "llmgate_config_reloads_total",
        "llmgate_config_last_reload_timestamp_seconds",
    }
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
