"""Steps as bars: which seconds each bar stands for, thinned to the bars a screen can show."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole.conventions import stages
from longpole_dashboards.formats import NS_PER_S
from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step


@dataclass(frozen=True, slots=True)
class StepBar:
    """One bar: a step, or several neighbouring ones as their mean, with the longest of them.

    Attributes:
        first_step, last_step: Inclusive.
        start_ns: Start of the first of them.
        length_s: Seconds from there to the end of the last; so far, while it is open.
        seconds: Stage -> mean exclusive seconds; a stage nobody reported is absent.
        outside: Stage -> mean seconds between steps.
        duration_s: Mean seconds of the steps, None while open.
        longest_step, longest_s: The one that took longest; its seconds so far while it is open.
        longest_stage: The stage in which it took the most longer than the mean.
    """

    first_step: int
    last_step: int
    attempt: int
    start_ns: int
    length_s: float
    seconds: dict[str, float]
    outside: dict[str, float]
    duration_s: float | None
    longest_step: int
    longest_s: float
    longest_stage: str

    @property
    def is_open(self) -> bool:
        """Whether the step has not ended yet."""
        return self.duration_s is None

    @property
    def label(self) -> str:
        """`step 12`, or `steps 12–19, mean`."""
        if self.first_step == self.last_step:
            return f"step {self.first_step}" + (", so far" if self.is_open else "")
        return f"steps {self.first_step}–{self.last_step}, mean"


def make_bars(
    steps: Sequence[Step], max_bars: int, open_stage: OpenStage | None = None, now_ns: int = 0
) -> list[StepBar]:
    """Return at most about `max_bars` bars; the open step and attempts are never mixed in.

    The open step's bar holds the stages that ended, and the open one up to `now_ns`.
    """
    closed = [step for step in steps if step.duration_s is not None]
    size = max(1, -(-len(closed) // max_bars))
    bars: list[StepBar] = []
    group: list[Step] = []
    for step in closed:
        if group and (len(group) == size or step.attempt != group[0].attempt):
            bars.append(_mean(group))
            group = []
        group.append(step)
    if group:
        bars.append(_mean(group))
    bars.extend(_open(step, open_stage, now_ns) for step in steps if step.duration_s is None)
    return bars


def _open(step: Step, open_stage: OpenStage | None, now_ns: int) -> StepBar:
    bar = _mean([step])
    if open_stage is None or open_stage.step != step.step or open_stage.stage == "step":
        return bar
    so_far_s = max(0.0, (now_ns - open_stage.since_ns) / NS_PER_S)
    bar.seconds[open_stage.stage] = bar.seconds.get(open_stage.stage, 0.0) + so_far_s
    return replace(bar, length_s=max(bar.length_s, (now_ns - step.start_ns) / NS_PER_S))


def order_stages(names: set[str]) -> list[str]:
    """Return stages in the order in which a step runs them, unknown ones next to last."""
    known = [kind.name for kind in stages.STAGE_KINDS if kind.name in names]
    unknown = sorted(names - set(known) - {stages.UNATTRIBUTED})
    tail = [stages.UNATTRIBUTED] if stages.UNATTRIBUTED in names else []
    return known + unknown + tail


def _spent(step: Step) -> dict[str, float]:
    seconds = {stage.stage: stage.exclusive_s for stage in step.stages}
    if len(seconds) < len(step.stages):
        seconds = dict.fromkeys(seconds, 0.0)
        for stage in step.stages:
            seconds[stage.stage] += stage.exclusive_s
    if step.unattributed_s is not None:
        seconds[stages.UNATTRIBUTED] = step.unattributed_s
    return seconds


def _mean(group: Sequence[Step]) -> StepBar:
    seconds: defaultdict[str, float] = defaultdict(float)
    outside: defaultdict[str, float] = defaultdict(float)
    for step in group:
        for stage in step.stages:
            seconds[stage.stage] += stage.exclusive_s
        if step.unattributed_s is not None:
            seconds[stages.UNATTRIBUTED] += step.unattributed_s
        for stage in step.outside:
            outside[stage.stage] += stage.duration_s
    count = len(group)
    means = {name: total_s / count for name, total_s in seconds.items()}
    first, last = group[0], group[-1]
    durations = [step.duration_s for step in group if step.duration_s is not None]
    longest = max(group, key=lambda step: step.duration_s or 0.0)
    spent = _spent(longest)
    end_ns = last.end_ns if last.end_ns is not None else last.start_ns
    return StepBar(
        first_step=first.step,
        last_step=last.step,
        attempt=first.attempt,
        start_ns=first.start_ns,
        length_s=max((end_ns - first.start_ns) / NS_PER_S, sum(means.values())),
        seconds=means,
        outside={name: total_s / count for name, total_s in outside.items()},
        duration_s=sum(durations) / len(durations) if durations else None,
        longest_step=longest.step,
        longest_s=longest.duration_s or sum(spent.values()),
        longest_stage=max(spent, key=lambda name: spent[name] - means[name], default=""),
    )
