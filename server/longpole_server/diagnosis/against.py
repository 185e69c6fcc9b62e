"""What one window of steps shows against another one, of two runs or of one.

The exact split of the change says where throughput went; regressions say which stages take longer
for as much work, beyond scatter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from longpole_server.analysis.decomposition import decompose
from longpole_server.diagnosis.baseline import MIN_STEPS, summarise_past
from longpole_server.diagnosis.look import look_at
from longpole_server.diagnosis.overrides import read_limits
from longpole_server.diagnosis.regressions import find_regressions
from longpole_server.diagnosis.view import View, sum_window
from longpole_server.model.decomposition import Decomposition
from longpole_server.model.diagnosis import Finding
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Step

# Steps that say who measured the stages.
_LOOKS = 50


@dataclass(frozen=True, slots=True)
class Against:
    """What changed from one window to another.

    Attributes:
        decomposition: The change of throughput, in parts that add up to it.
        findings: `regression.<stage>` and `shape.tokens`.
        remarks: Why stages are not compared, one sentence each.
    """

    decomposition: Decomposition
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]


def compare_windows(
    run: RunFacts,
    before: Sequence[Step],
    after: Sequence[Step],
    name: str,
    overrides: Mapping[str, float] | None = None,
) -> Against:
    """Compare two windows of judged steps: those that a window's summary has kept.

    Args:
        run: What the run of the later window says about itself.
        before: The window to compare with.
        after: The window of interest.
        name: Where the steps of `before` lie, as it ends a sentence: `in run-7`.
        overrides: Thresholds by name.

    Raises:
        ConfigError: An override names no threshold.
    """
    split = decompose(before, after)
    if not before or not after:
        return Against(split, (), ())
    # Whoever warmed up is left out of both windows already.
    usual = summarise_past(before, {}, is_kept=False)
    if usual is None:
        few = f"stages are not compared: {name} are fewer than {MIN_STEPS} judged steps"
        return Against(split, (), (few,))
    counts = [_gpu_counts(steps) for steps in (before, after)]
    if counts[0] and counts[1] and counts[0] != counts[1]:
        told = " and ".join(", ".join(map(str, sorted(count))) for count in counts)
        unlike = f"stages are not compared: on other numbers of GPUs ({told}) all of them differ"
        return Against(split, (), (unlike,))
    limits, _ = read_limits(run.config, overrides)
    usual = replace(usual, attempt=None, gpu_count=None, when=name)
    window = sum_window(run, after, usual, {})
    newest = tuple(look_at(run, StepFacts(step), limits) for step in after[-_LOOKS:])
    return Against(split, find_regressions(View(run, limits, window, newest, usual)), ())


def _gpu_counts(steps: Sequence[Step]) -> set[int]:
    return {step.gpu_count for step in steps if step.gpu_count is not None}
