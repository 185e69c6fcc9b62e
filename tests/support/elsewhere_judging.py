"""Runs from elsewhere through the real decoding, store and service, and what was said of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from longpole_server.diagnosis import diagnose
from longpole_server.importers import LogSource, import_facts
from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.records import Records
from support.elsewhere_logs import LOGS
from support.elsewhere_memory import MemoryRun
from support.elsewhere_otlp import Sending
from support.elsewhere_troubles import TROUBLES
from support.elsewhere_world import StepLived, World
from support.server_runs import BEGIN_NS
from support.server_service import HandClock, ServiceBench, build_bench

NS = 1_000_000_000
# What is sent beside the controller's word.
VIEWS: dict[str, frozenset[str]] = {
    "full": frozenset({"spans", "samples", "engines", "gpus", "scalars"}),
    "no_gpus": frozenset({"spans", "samples", "engines", "scalars"}),
    "no_engines": frozenset({"spans", "samples", "gpus", "scalars"}),
    "engines_only": frozenset({"spans", "engines", "scalars"}),
    "bare": frozenset({"spans", "scalars"}),
    "both": frozenset({"spans", "samples", "scalars", "timers"}),
    "timers": frozenset({"scalars"}),
}
WINDOWS = (1, 5, 20)
UPDATES = frozenset(
    f"update.{name}" for name in ("compute", "inefficient", "imbalance", "unknown", "critic")
)
# Runs lie this far apart, so that each is alone in its time.
_APART_S = 100_000.0


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What was said beside the truth, about which window."""

    label: str
    seed: int
    view: str
    window: str
    kind: str
    wanted: str
    said: str
    confidence: str | None
    summary: str


@dataclass(slots=True)
class Heard:
    """A run as it was judged."""

    world: World
    steps: list[StepLived]
    whole: Diagnosis
    windows: dict[str, Diagnosis] = field(default_factory=dict[str, Diagnosis])


def make_world(label: str, seed: int, view: str) -> World:
    world = World(label, seed)
    world.sends = set(VIEWS[view])
    TROUBLES[label](world)
    world.sends &= VIEWS[view]
    return world


def live(world: World) -> list[StepLived]:
    """Let a run live; a run with a cap has samples that end there."""
    steps = world.live()
    if world.cap is not None:
        world.cap = max(sample.output for sample in steps[0].samples)
        for step in steps:
            longest = max(sample.output for sample in step.samples)
            for sample in step.samples:
                sample.output = max(1, round(sample.output * world.cap / longest))
                if sample.output >= world.cap:
                    sample.output, sample.status = world.cap, "truncated"
    return steps


_Diagnose = Callable[[int | None, int | None], Diagnosis]


def hear(label: str, seed: int, view: str) -> Heard:
    """Live a run, decode what it sends, and have it judged over several windows, in memory."""
    world = make_world(label, seed, view)
    steps = live(world)
    sending = Sending(world, steps, BEGIN_NS)
    records = decode(sending, BEGIN_NS)
    return _listen(world, steps, MemoryRun(records, sending.run_id).diagnose)


class StoreJudge:
    """Judges runs on one store, one after another."""

    def __init__(self, bench: ServiceBench) -> None:
        self._bench = bench
        self._num_runs = 0

    def hear(self, label: str, seed: int, view: str) -> Heard:
        """Live a run, send it, and have the service judge it over several windows."""
        world = make_world(label, seed, view)
        steps = live(world)
        self._num_runs += 1
        begin_s = self._num_runs * _APART_S
        begin_ns = BEGIN_NS + round(begin_s * NS)
        sending = Sending(world, steps, begin_ns)
        run_id = sending.run_id = f"{sending.run_id}/{view}"
        bench = build_bench(
            self._bench.reader,
            self._bench.writer,
            HandClock(begin_s + steps[-1].following_s + 5),
            self._bench.alert_store,
            tokens=self._bench.tokens,
        )
        records = decode(sending, begin_ns)
        bench.writer.write(records, f"elsewhere-{next(bench.tokens)}")
        # GPUs are joined while they report, steps close afterwards.
        end_s, bench.clock.seconds = bench.clock.seconds, begin_s + 100
        bench.joiner.join()
        bench.clock.seconds = end_s
        bench.closer.on_written(records)
        for _ in range(1 + len(steps) // 20):
            bench.derive()
        return _listen(
            world, steps, lambda first, last: bench.service.diagnose(run_id, first, last)
        )


def decode(sending: Sending, begin_ns: int) -> Records:
    """Let the product decode a run's requests in order of arrival."""
    normalizer, records = Normalizer(), Records()
    for request in sending.requests():
        received_ns = begin_ns + round(request.at_s * NS)
        normalizer.normalize(request.signal, request.body, received_ns, records)
    return records


def _listen(world: World, steps: list[StepLived], ask: _Diagnose) -> Heard:
    first, last = steps[0].number, steps[-1].number
    heard = Heard(world, steps, ask(None, None))
    for size in WINDOWS:
        heard.windows[f"last {size}"] = ask(max(last - size + 1, first), last)
    middle = last - len(steps) // 3
    heard.windows["one before"] = ask(middle, middle)
    return heard


def compare(heard: Heard, view: str) -> Iterator[Disagreement]:
    world, truth = heard.world, heard.world.truth

    def differ(window: str, kind: str, wanted: str, said: Diagnosis) -> Disagreement:
        return Disagreement(
            world.label,
            world.seed,
            view,
            window,
            kind,
            wanted,
            str(said.verdict) + (f"<{said.cause}" if said.cause else ""),
            said.confidence,
            said.summary,
        )

    windows = [("whole", heard.whole)]
    if truth.settled:
        windows += list(heard.windows.items())
    for name, said in windows:
        right = _is_right(said, heard, view)
        if not right:
            yield differ(name, "verdict", "|".join(sorted(truth.verdicts)), said)
        if said.verdict in truth.must_not:
            yield differ(name, "must not be", str(said.verdict), said)
    looked_at = heard.windows.get(truth.window, heard.whole)
    found = {finding.code for finding in looked_at.findings}
    found |= {note.code for note in looked_at.data_quality}
    for code in sorted(truth.must - found):
        yield differ(truth.window, "finding missing", code, looked_at)
    for code in sorted(truth.must_not & found):
        yield differ(truth.window, "finding wrong", code, looked_at)


def _is_right(said: Diagnosis, heard: Heard, view: str) -> bool:
    truth = heard.world.truth
    if not truth.verdicts:
        return said.verdict is not None
    if said.verdict in truth.verdicts:
        return not truth.causes or said.cause in truth.causes
    is_open = view == "engines_only" and heard.world.label == "async.serial"
    if is_open and said.verdict == "async.trainer_starved":
        # Engines that stand idle may be in tools: both rows of the table hold.
        return said.confidence != "high"
    if said.verdict in truth.careful or said.verdict in _careful(heard, view):
        return said.confidence == "low"
    return False


def _careful(heard: Heard, view: str) -> frozenset[str]:
    """Return what may be said with low confidence where the inner evidence was not sent."""
    sends = heard.world.sends
    wanted = heard.world.truth.verdicts
    if "samples" in sends:
        return frozenset()
    if any(code.startswith("async.") for code in wanted):
        # Nobody tells what the rollout does beside training: the longest window may be named.
        return frozenset({"async.trainer_starved", "async.serial"}) | UPDATES
    if wanted & {"rollout.truncation", "rollout.reward"}:
        # Engines alone do not tell why requests end together, nor what comes after decoding.
        return frozenset({"rollout.unexplained", "rollout.engine"})
    if any(code.startswith("rollout.") for code in wanted):
        return frozenset({"rollout.unexplained"})
    return frozenset()


# --- logs -----------------------------------------------------------------------------------------

# Labels whose stages alone, or verl's agent-loop figures, are enough to be judged by.
LOG_LABELS = (
    *(label for label in TROUBLES if label.startswith(("rollout.", "update.", "overhead."))),
    *("reward", "logprob", "sync.weights", "sync.sleep_wake", "balanced"),
    *("async.trainer_starved", "like.periodic_validation", "like.mfu_of_another_peak"),
    *("edge.dominance.over", "edge.dominance.under", "edge.margin.over", "edge.margin.under"),
)
# What is lost when a stage is not told apart, by the stages that a label is about.
_ABOUT = {
    "logprob": {"old_log_prob"},
    "reward": {"reward"},
    "update.critic": {"update_critic"},
    "sync.sleep_wake": {"sleep_wake"},
    "overhead.outside": {"testing", "save_checkpoint"},
    "like.periodic_validation": {"testing"},
    "balanced": {"reward"},
    "edge.dominance.over": {"reward"},
    "edge.dominance.under": {"reward"},
    "edge.margin.over": {"reward"},
    "edge.margin.under": {"reward"},
    "async.trainer_starved": {"trainer_wait"},
}
# Logs that hold no MFU, no tokens by rank and nothing from inside the rollout.
_STAGES_ONLY = frozenset({"slime", "openrlhf", "nemo_rl", "areal", "skyrl", "roll"})


def hear_log(label: str, seed: int, log: str, folder: Path) -> Heard | None:
    """Judge a run by its log alone; None where the framework cannot tell what it is about."""
    system, write, told = LOGS[log]
    about = _ABOUT.get(label, {"gen"} if label.startswith("rollout.") else set[str]())
    if not about <= told or (log == "prime_rl" and label == "update.imbalance"):
        return None
    if label == "overhead.unattributed" and log in {"openrlhf", "areal", "roll", "slime"}:
        # Their step is the sum of what they time, slime's with a wait that holds all the rest.
        return None
    world = make_world(label, seed, "bare")
    world.system = system
    steps = live(world)
    for step in steps:
        for stage in set(step.stages) - told:
            del step.stages[stage]
    path = (
        folder / f"{label}-{seed}-{log}.{'jsonl' if 'file' in log or log == 'prime_rl' else 'log'}"
    )
    path.write_text(write(world, steps), encoding="utf-8")
    imported = import_facts([LogSource.of_file(path)], run_id="import/elsewhere")
    if log in _STAGES_ONLY:
        _expect_stages_only(world)
    if log == "verl_old" and label.startswith("rollout.") and label != "rollout.truncation":
        world.truth.verdicts |= {"rollout.unexplained"}
    world.truth.must = frozenset()
    world.truth.settled = False
    said = diagnose(imported.run, imported.steps)
    return Heard(world, steps, replace(said, data_quality=(*imported.notes, *said.data_quality)))


def _expect_stages_only(world: World) -> None:
    truth = world.truth
    if any(code.startswith("update.") for code in truth.verdicts) and "update.critic" not in (
        truth.verdicts
    ):
        truth.verdicts = frozenset({"update.unknown"})
    if any(code.startswith("rollout.") for code in truth.verdicts):
        truth.verdicts |= {"rollout.unexplained"}
