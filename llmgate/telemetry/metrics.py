"""Metrics for Prometheus: what the gates count already is read when it is asked for, the rest is folded from events.

Every name, label and bucket stands in the table of docs/metrics.md. Labels are bounded: upstreams and alarms are those
of the settings, `api`, `outcome`, `kind` and `code` closed lists, `model` (only where the settings want it) at most
MOST_MODELS names, the rest being "other".

A counter that is not there before its first event is born with it, and Prometheus sees no increase in that. So whatever
an alert counts is there from the start, at 0: for that `llmgate_outcomes` has neither `api` nor `model`, which would
make hundreds of series for each upstream, or names that are not known before they are asked for.
"""

import bisect
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from llmgate import __version__
from llmgate.core.caller import Caller
from llmgate.core.events import (
    Abandoned,
    Admitted,
    Alarm,
    Dismissed,
    Drained,
    Event,
    Expired,
    Mode,
    Refused,
    Released,
)
from llmgate.core.gate import Gate
from llmgate.core.ticket import Ticket
from llmgate.errors import Outcome
from llmgate.protocols.surfaces import SURFACES
from llmgate.telemetry.ledger import Record

WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800)
DURATIONS = tuple(0.01 * 2**power for power in range(18))
FIRST_TOKENS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
"""Upper bounds in seconds. Durations and first tokens are those of OpenTelemetry's gen_ai metrics, continued."""

ALARMS: tuple[Alarm, ...] = ("stalled", "draining", "hidden_wait", "mismatch", "drift")
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ADMITTED = "admitted"
WAIT_ENDS = (ADMITTED, "abandoned", "queue_timeout", "cancelled", "refused")
REFUSALS = ("UNAUTHORIZED", "KEY_LIMIT", "MODEL_NOT_ALLOWED", "NOT_ALLOWED", "HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED")
"""Codes of those who were not let in: of KeyLimit, NotAllowed and what descends from it."""
NO_FRAMES = {(surface.name, kind): 0 for surface in SURFACES.values() for kind in ("queue", "heartbeat", "blank")}
CLASS = "default"
"""The one class of waiters that there is."""
MOST_MODELS = 200
OTHER = "other"

Labels = tuple[str, ...]
Series = Iterable[tuple[Labels, int]]


class Histogram:
    """Counts of one labelled series, by upper bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative counts by bound, and the sum, as prometheus_client takes them."""
        total, buckets = 0, []
        for bound, count in zip((*map(_bound, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets, self._sum


class Metrics:
    """One daemon's. Every event of its gates must be told to `apply`, after the ledger took it in."""

    def __init__(
        self,
        gates: Callable[[], Mapping[str, Gate]],
        frames: Mapping[tuple[str, str], int],
        *,
        clock: Callable[[], float],
        model_label: bool = False,
        refused: Mapping[str, int] | None = None,
    ) -> None:
        """`gates` by upstream, at the moment; `frames` counts what waiting clients were told, by api and kind;
        `refused` those who were not let in, by the error's code."""
        self._gates = gates
        self._refused = refused if refused is not None else {}
        self._frames = frames
        self._clock = clock
        self._models: set[str] | None = set() if model_label else None
        self._waits: dict[Labels, Histogram] = {}
        self._durations: dict[Labels, Histogram] = {}
        self._first_tokens: dict[Labels, Histogram] = {}
        self._begun: set[str] = set()
        self._outcomes: Counter[Labels] = Counter()
        self._ended: Counter[Labels] = Counter()
        self._output_tokens: Counter[Labels] = Counter()
        self._input_tokens: Counter[Labels] = Counter()
        self._reloads: Counter[str] = Counter(success=0, failure=0)
        self._reloaded: tuple[bool, float] = (True, datetime.now(UTC).timestamp())
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Source(self.collect))
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
            self._registry.register(collector)

    def render(self) -> tuple[str, bytes]:
        """Content type and text, as Prometheus scrapes it."""
        return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self._registry)

    # ---- what happens

    def apply(self, event: Event, record: Record | None) -> None:
        """Takes in one event; `record` is the request that it is about."""
        if isinstance(event, Admitted):
            self._observe(self._waits, WAITS, (event.upstream, ADMITTED), event.waited)
        elif isinstance(event, (Released, Drained)):
            if event.outcome is not None and record is not None:
                self._end(event.upstream, event.outcome, record)
        elif isinstance(event, (Abandoned, Expired, Dismissed)):
            self._observe(self._waits, WAITS, (event.upstream, event.outcome), event.waited)
            if record is not None:
                self._end(event.upstream, event.outcome, record)
        elif isinstance(event, Refused):
            self._count(event.upstream, event.outcome, event.caller)

    def note_reload(self, *, succeeded: bool) -> None:
        """The settings were read again, and taken on or not."""
        self._reloads["success" if succeeded else "failure"] += 1
        self._reloaded = succeeded, datetime.now(UTC).timestamp()

    def _end(self, upstream: str, outcome: Outcome, record: Record) -> None:
        caller, model = record.caller, self._count(upstream, outcome, record.caller)
        if record.ended_at is not None:
            stream = "true" if caller.stream else "false"
            took = record.ended_at - record.arrived_at
            self._observe(self._durations, DURATIONS, (upstream, caller.api, stream, *model), took)
        if record.first_byte_at is not None and record.dispatched_at is not None:
            first = record.first_byte_at - record.dispatched_at
            self._observe(self._first_tokens, FIRST_TOKENS, (upstream, *model), first)
        if record.output_tokens:
            self._output_tokens[(upstream, *model)] += record.output_tokens
        if record.input_tokens:
            self._input_tokens[(upstream, *model)] += record.input_tokens

    def _count(self, upstream: str, outcome: Outcome, caller: Caller) -> Labels:
        """One more ended; its model's label, where there is one."""
        model = self._model(caller.model)
        self._outcomes[upstream, outcome] += 1
        self._ended[(upstream, caller.api, outcome, *model)] += 1
        return model

    @staticmethod
    def _observe(series: dict[Labels, Histogram], bounds: tuple[float, ...], labels: Labels, seconds: float) -> None:
        histogram = series.get(labels)
        if histogram is None:
            histogram = series[labels] = Histogram(bounds)
        histogram.observe(seconds)

    def _model(self, model: str) -> Labels:
        """The label, where there is one: of clients, who may invent names without end."""
        models = self._models
        if models is None:
            return ()
        if model not in models:
            if len(models) >= MOST_MODELS:
                return (OTHER,)
            models.add(model)
        return (model,)

    # ---- what is asked for

    def collect(self) -> Iterator[Metric]:
        """Every family of ours, as it is now."""
        gates = self._gates()
        for name in gates.keys() - self._begun:
            self._begin(name)
        yield from self._gauges(gates)
        yield from self._folded()
        yield from self._reload_families()
        build = GaugeMetricFamily("llmgate_build_info", "What runs here; always 1.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build

    def _begin(self, upstream: str) -> None:
        """Every series of it that can be known before anything has happened there is there, at 0."""
        self._begun.add(upstream)
        for outcome in OUTCOMES:
            self._outcomes.setdefault((upstream, outcome), 0)
        for end in WAIT_ENDS:
            self._waits.setdefault((upstream, end), Histogram(WAITS))
        if self._models is None:
            self._first_tokens.setdefault((upstream,), Histogram(FIRST_TOKENS))
            self._output_tokens.setdefault((upstream,), 0)
            self._input_tokens.setdefault((upstream,), 0)

    def _gauges(self, gates: Mapping[str, Gate]) -> Iterator[Metric]:
        names = ["upstream"]
        now = self._clock()
        running = GaugeMetricFamily("llmgate_requests_running", "Requests that have a slot.", labels=names)
        draining = GaugeMetricFamily(
            "llmgate_requests_draining", "Requests that are over, and whose slot is not free yet.", labels=names
        )
        waiting = GaugeMetricFamily(
            "llmgate_requests_waiting", "Requests that wait for a slot.", labels=[*names, "class"]
        )
        slots = GaugeMetricFamily("llmgate_slots", "Requests that may run at once; 0 = not gated.", labels=names)
        limit = GaugeMetricFamily(
            "llmgate_queue_limit", "Requests that may wait; +Inf where there is no limit.", labels=names
        )
        timeout = GaugeMetricFamily(
            "llmgate_queue_timeout_seconds", "Longest wait; +Inf where there is no limit.", labels=names
        )
        oldest = GaugeMetricFamily(
            "llmgate_oldest_waiting_seconds", "Age of the request that waits longest; 0 where none waits.", labels=names
        )
        used = GaugeMetricFamily(
            "llmgate_queue_timeout_used_ratio",
            "Of the waiting request that is nearest to QUEUE_TIMEOUT: the part of its time that is over; 0 where none.",
            labels=names,
        )
        up = GaugeMetricFamily("llmgate_upstream_up", "Whether a server of it takes requests.", labels=names)
        paused = GaugeMetricFamily("llmgate_upstream_paused", "Whether an operator paused it.", labels=names)
        shut = GaugeMetricFamily(
            "llmgate_upstream_draining", "Whether it takes nobody new, so that it runs empty.", labels=names
        )
        alarms = GaugeMetricFamily(
            "llmgate_alarms", "Whether this alarm is raised: see llmgate status.", labels=[*names, "alarm"]
        )
        for name, gate in gates.items():
            state = gate.statistics()
            limits = state.limits
            running.add_metric([name], state.running)
            draining.add_metric([name], state.draining)
            waiting.add_metric([name, CLASS], state.waiting)
            slots.add_metric([name], _slots(gate))
            limit.add_metric([name], float("inf") if limits.max_queued is None else limits.max_queued)
            timeout.add_metric([name], float("inf") if limits.queue_timeout is None else limits.queue_timeout)
            oldest.add_metric([name], _oldest(gate, now))
            used.add_metric([name], _used(gate, now))
            up.add_metric([name], any(endpoint.up for endpoint in gate.endpoints().values()))
            paused.add_metric([name], state.mode is Mode.PAUSED)
            shut.add_metric([name], state.mode is Mode.CLOSED)
            for alarm in ALARMS:
                alarms.add_metric([name, alarm], alarm in state.alarms)
        yield from (running, draining, waiting, slots, limit, timeout, oldest, used, up, paused, shut, alarms)

    def _folded(self) -> Iterator[Metric]:
        model = [] if self._models is None else ["model"]
        yield _histograms(
            "llmgate_queue_wait_seconds",
            "Seconds from arrival to a slot (admitted), or to another end of the wait.",
            ["upstream", "outcome"],
            self._waits,
        )
        yield _histograms(
            "llmgate_request_duration_seconds",
            "Seconds from arrival to the end of the answer, or to another end.",
            ["upstream", "api", "stream", *model],
            self._durations,
        )
        yield _histograms(
            "llmgate_time_to_first_token_seconds",
            "Seconds from dispatch to the first token of the answer.",
            ["upstream", *model],
            self._first_tokens,
        )
        yield _counter(
            "llmgate_outcomes", "Requests that ended, by how.", ["upstream", "outcome"], self._outcomes.items()
        )
        yield _counter(
            "llmgate_requests", "Requests that ended.", ["upstream", "api", "outcome", *model], self._ended.items()
        )
        yield _counter("llmgate_output_tokens", "Tokens of answers.", ["upstream", *model], self._output_tokens.items())
        yield _counter(
            "llmgate_input_tokens",
            "Tokens of prompts, where the answer tells them.",
            ["upstream", *model],
            self._input_tokens.items(),
        )
        frames = {**NO_FRAMES, **self._frames}
        yield _counter("llmgate_queue_frames", "What waiting clients were told.", ["api", "kind"], frames.items())
        refused = [((code,), count) for code, count in {**dict.fromkeys(REFUSALS, 0), **self._refused}.items()]
        yield _counter("llmgate_refused", "Requests that were not let in: key, model, page.", ["code"], refused)

    def _reload_families(self) -> Iterator[Metric]:
        succeeded, at = self._reloaded
        reloads = [((result,), count) for result, count in self._reloads.items()]
        yield _counter("llmgate_config_reloads", "How often the settings were read again.", ["result"], reloads)
        yield GaugeMetricFamily(
            "llmgate_config_last_reload_successful", "Whether the newest settings were taken on.", value=succeeded
        )
        yield GaugeMetricFamily(
            "llmgate_config_last_reload_timestamp_seconds", "When they were read last, in Unix time.", value=at
        )


class _Source(Collector):
    """What prometheus_client asks."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _slots(gate: Gate) -> int:
    """Of several endpoints without a bound on all together the sum of theirs."""
    caps = [endpoint.max_concurrent for endpoint in gate.endpoints().values()]
    return gate.limits.max_concurrent or (sum(caps) if all(caps) else 0)


def _oldest(gate: Gate, now: float) -> float:
    return max((now - ticket.entered_at for ticket in gate.waiting()), default=0.0)


def _used(gate: Gate, now: float) -> float:
    return max((_used_by(ticket, now) for ticket in gate.waiting()), default=0.0)


def _used_by(ticket: Ticket, now: float) -> float:
    """Each has the bound with which it came: queue_timeout, or queue_timeout_nonstream where that is shorter. Who
    set itself no more than that says nothing of the queue."""
    wish = ticket.caller.max_wait
    if ticket.deadline is None or (wish is not None and ticket.deadline >= ticket.entered_at + wish):
        return 0.0
    whole = ticket.deadline - ticket.entered_at
    return (now - ticket.entered_at) / whole if whole > 0 else 1.0


def _counter(name: str, help_text: str, labels: list[str], series: Series) -> CounterMetricFamily:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for values, count in series:
        family.add_metric(values, count)
    return family


def _histograms(
    name: str, help_text: str, labels: list[str], series: Mapping[Labels, Histogram]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, help_text, labels=labels)
    for values, histogram in series.items():
        buckets, total = histogram.read()
        family.add_metric(values, buckets=buckets, sum_value=total)
    return family


def _bound(seconds: float) -> str:
    return str(float(f"{seconds:.6g}"))
