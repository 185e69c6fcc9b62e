"""Is the run getting anywhere: stalled, hanging, gone."""

import statistics
from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, RunContext
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.alerts.wording import format_seconds
from longpole_server.model.alert import AlertEvidence

_NS_PER_S = 1e9
# A GPU that spins in a collective reports full utilisation, no tensor work and little power.
_SPINNING_UTILIZATION = 0.95
_SPINNING_TENSOR = 0.02
_SPINNING_SM = 0.05
_SPINNING_WATTS = 250.0


def _describe_stage(run: RunContext, now_ns: int) -> str:
    opened = run.open_stage
    if opened is None:
        return "no stage is open"
    age = format_seconds((now_ns - opened.since_ns) / _NS_PER_S)
    usual = f", usually {format_seconds(opened.usual_s)}" if opened.usual_s is not None else ""
    step = f" of step {opened.step}" if opened.step is not None else ""
    return f"it has been in {opened.stage}{step} for {age}{usual}"


@dataclass(frozen=True, slots=True)
class Stalled:
    """A live run whose steps do not close, though its processes are heard of."""

    fire: float | None = None
    clear: float | None = None
    unit: str = "s"
    reads: tuple[str, ...] = ("run state", "open stage", "last closed step")

    def judge(self, history: History) -> Judgement:
        """Judge now."""
        run = history.run
        if run is None:
            return not_judgeable("there is no run", self.unit)
        silent_s = (history.moment.ts_ns - run.last_progress_ns) / _NS_PER_S
        words = {"stage": _describe_stage(run, history.moment.ts_ns)}
        if run.state not in ("live", "stalled"):
            return Judgement(
                False,
                True,
                silent_s,
                run.patience_s,
                "s",
                quiet_because=f"the run is {run.state}: that is not stalled",
            )
        return compare(silent_s, run.patience_s, run.patience_s, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class Hanging:
    """No step closes while the GPUs spin: busy by their own account, and nothing computed."""

    fire: float = 0.5
    clear: float = 0.25
    unit: str = "ratio"
    # Part of the run's usual patience after which spinning GPUs count.
    patience_ratio: float = 0.6
    reads: tuple[str, ...] = (
        "utilization_ratio",
        "tensor_active_ratio",
        "sm_active_ratio",
        "power_watts",
        "last closed step",
    )

    def judge(self, history: History) -> Judgement:
        """Judge now; the value is the part of the run's GPUs that spin."""
        run = history.run
        known = [
            gpu
            for gpu in history.gpus
            if gpu.num_samples
            and gpu.utilization_ratio is not None
            and (gpu.power_watts, gpu.sm_active_ratio, gpu.tensor_active_ratio) != (None,) * 3
        ]
        if run is None or not known:
            return not_judgeable(
                "no GPU of the run reports utilisation beside power or tensor activity", self.unit
            )
        silent_s = (history.moment.ts_ns - run.last_progress_ns) / _NS_PER_S
        spinning = [
            gpu
            for gpu in known
            if (gpu.utilization_ratio or 0.0) >= _SPINNING_UTILIZATION
            and (gpu.tensor_active_ratio or 0.0) <= _SPINNING_TENSOR
            and (gpu.sm_active_ratio is None or gpu.sm_active_ratio <= _SPINNING_SM)
            and (gpu.power_watts is None or gpu.power_watts <= _SPINNING_WATTS)
        ]
        ratio = len(spinning) / len(known)
        if run.state not in ("live", "stalled") or silent_s < self.patience_ratio * run.patience_s:
            return Judgement(
                False,
                True,
                ratio,
                self.fire,
                self.unit,
                quiet_because=f"a step closed {format_seconds(max(0.0, silent_s))} ago",
            )
        watts = [gpu.power_watts for gpu in spinning if gpu.power_watts is not None]
        words = {
            "stage": _describe_stage(run, history.moment.ts_ns),
            "silent": format_seconds(silent_s),
            "watts": f"{statistics.median(watts):.0f} W" if watts else "an unknown power",
        }
        return compare(ratio, self.fire, self.clear, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class TrainerGone:
    """The run crashed, or nothing is heard of any of its processes."""

    fire: float = 0.0
    clear: float = 0.0
    unit: str = "s"
    reads: tuple[str, ...] = ("run state", "last seen")

    def judge(self, history: History) -> Judgement:
        """Judge now; the value is the time since anything was heard."""
        run = history.run
        if run is None:
            return not_judgeable("there is no run", self.unit)
        if run.state == "lost" and run.silent_because is not None:
            return not_judgeable(run.silent_because, self.unit)
        silent_s = max(0.0, (history.moment.ts_ns - run.last_seen_ns) / _NS_PER_S)
        gone = run.state in ("crashed", "lost")
        how = (
            f"it ended as {run.end_status!r}"
            if run.state == "crashed"
            else f"nothing was heard of its processes for {format_seconds(silent_s)}"
        )
        risk = "the last checkpoint is not known"
        last = history.newest.step.step if history.newest is not None else None
        if run.checkpoint_step is not None and last is not None:
            lost = last - run.checkpoint_step
            risk = f"{lost} steps since the checkpoint at step {run.checkpoint_step} are at risk"
        evidence = () if last is None else (AlertEvidence("last step", float(last), "1"),)
        return Judgement(
            gone,
            not gone,
            silent_s,
            None,
            self.unit,
            evidence=evidence,
            words={"how": how, "risk": risk},
            quiet_because=None if gone else f"the run is {run.state}",
        )
