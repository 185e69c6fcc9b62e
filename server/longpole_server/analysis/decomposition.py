"""Splits a change of throughput over tokens, GPUs and the stages of a step, without remainder.

A window's throughput is tokens / (GPUs x seconds), so its logarithm changes by

    change of log tokens - change of log GPUs - change of log step seconds.

The last is split over the stages by logarithmic-mean Divisia weights (Ang, "The LMDI approach to
decomposition analysis", Energy Policy 33, 2005). With L(a, b) = (a - b) / (log a - log b), a
stage of `s` seconds in steps of `S` contributes

    L(s1, s0) / L(S1, S0) x log(s1 / s0) = (s1 - s0) / L(S1, S0),

where the right side holds for stages of no seconds too. The parts add up because the seconds do.
Seconds between steps make the loop slower by 1 + outside / S, which is split the same way.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.step_table import Column, StepTable
from longpole_server.model.decomposition import Decomposition, Part, Quantity, WindowMeans
from longpole_server.model.step import Step

_QUANTITIES: Mapping[tuple[bool, bool], Quantity] = {
    (True, True): "tokens_per_s_per_gpu",
    (True, False): "tokens_per_s",
    (False, True): "steps_per_s_per_gpu",
    (False, False): "steps_per_s",
}
# Ratios beyond this are far enough from 1 that the difference of logarithms is exact.
_NEAR = 2.0
# Part of a step below which a rest is what rounding left.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class _Sums:
    """Means a step of one window, by name of the stage where there are several."""

    num_steps: int
    tokens: float | None
    gpus: float | None
    step_s: float
    stage_s: Mapping[str, float]
    unattributed_s: float
    outside_s: Mapping[str, float]
    without_tokens: int
    without_gpus: int
    without_stages: int


def decompose(before: Sequence[Step], after: Sequence[Step]) -> Decomposition:
    """Split the change of throughput from one window to another.

    Steps that are not closed do not count. Tokens and GPUs are means over the steps that report
    them; a side on which none does makes that part unknown, and the change is then one of what
    remains (`Decomposition.quantity`).

    Args:
        before: The window to compare with.
        after: The window of interest: positive parts are what made it faster.
    """
    first, second = _sum(before), _sum(after)
    if first is None or second is None:
        sides = [name for name, sums in (("before", first), ("after", second)) if sums is None]
        return Decomposition(
            quantity=None,
            before=_describe(first, has_tokens=False, has_gpus=False),
            after=_describe(second, has_tokens=False, has_gpus=False),
            total=None,
            total_of_steps=None,
            parts=(),
            reason=f"no closed step in the window {' and '.join(sides)}",
        )
    factors = (
        _factor("tokens", first.tokens, second.tokens, sign=1),
        _factor("gpus", first.gpus, second.gpus, sign=-1),
    )
    has_tokens, has_gpus = (part.log_change is not None for part in factors)
    of_steps = (*factors, *_split_step(first, second))
    outside = _split_outside(first, second)
    before_means = _describe(first, has_tokens=has_tokens, has_gpus=has_gpus)
    after_means = _describe(second, has_tokens=has_tokens, has_gpus=has_gpus)
    return Decomposition(
        quantity=_QUANTITIES[has_tokens, has_gpus],
        before=before_means,
        after=after_means,
        total=_change(before_means.loop_throughput, after_means.loop_throughput),
        total_of_steps=_change(before_means.throughput, after_means.throughput),
        parts=(*of_steps, *outside),
        remarks=tuple(_remark(first, "before") + _remark(second, "after")),
    )


def log_mean(one: float, other: float) -> float:
    """Return the logarithmic mean of two positive numbers: (a - b) / (log a - log b)."""
    return one if one == other else (other - one) / _log_ratio(one, other)


def _log_ratio(one: float, other: float) -> float:
    """Return log(other / one) of positive numbers, exact also where they are nearly equal."""
    if one < other * _NEAR and other < one * _NEAR:
        return math.log1p((other - one) / one)
    return math.log(other) - math.log(one)


def _change(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else _log_ratio(before, after)


def _sum(steps: Sequence[Step]) -> _Sums | None:
    table = StepTable.of(steps)
    duration_s = table.column("duration_s")
    table = table.where((duration_s > 0.0) & (duration_s < np.inf))
    num = len(table)
    if not num:
        return None
    stage_s = _mean_by_name(table.columns.exclusive_s, num)
    step_s = math.fsum(table.known("duration_s")) / num
    tokens = table.known("tokens_total")
    gpu_count = table.column("gpu_count")
    with_gpus = ~np.isnan(gpu_count)
    return _Sums(
        num_steps=num,
        tokens=math.fsum(tokens) / len(tokens) if tokens else None,
        gpus=_mean_gpus(table.column("duration_s")[with_gpus], gpu_count[with_gpus]),
        step_s=step_s,
        stage_s=stage_s,
        unattributed_s=_rest(step_s, stage_s.values()),
        outside_s=_mean_by_name(table.columns.outside_s, num),
        without_tokens=num - len(tokens),
        without_gpus=num - int(np.count_nonzero(with_gpus)),
        without_stages=num - int(np.count_nonzero(table.has_stages)),
    )


def _rest(step_s: float, stage_s: Iterable[float]) -> float:
    """Return what no stage covers, so that nothing is lost whatever the step itself reports."""
    rest_s = math.fsum((step_s, *(-seconds for seconds in stage_s)))
    return 0.0 if abs(rest_s) <= _ROUNDING * step_s else rest_s


def _mean_by_name(columns: Mapping[str, Column], num_steps: int) -> dict[str, float]:
    means: dict[str, float] = {}
    for name, column in columns.items():
        seconds: list[float] = column[(column >= 0.0) & (column < np.inf)].tolist()
        if seconds:
            means[name] = math.fsum(seconds) / num_steps
    return means


def _mean_gpus(seconds: Column, gpu_counts: Column) -> float | None:
    if not len(seconds):
        return None
    gpu_seconds: list[float] = (seconds * gpu_counts).tolist()
    return math.fsum(gpu_seconds) / math.fsum(seconds.tolist())


def _factor(
    kind: Literal["tokens", "gpus"], before: float | None, after: float | None, *, sign: int
) -> Part:
    label = "GPUs" if kind == "gpus" else "tokens"
    sides = (("before", before), ("after", after))
    missing = [side for side, value in sides if value is None]
    without = [side for side, value in sides if value is not None and value <= 0]
    reason = None
    if missing:
        reason = f"{label} are not reported {' and '.join(missing)}"
    elif without:
        reason = f"there are no {label} {' and '.join(without)}"
    change = None if reason is not None else _change(before, after)
    return Part(
        kind=kind,
        name=kind,
        unit="1" if kind == "gpus" else "tokens",
        before=before,
        after=after,
        # Adding zero makes a negative one plain.
        log_change=None if change is None else sign * change + 0.0,
        reason=reason,
    )


def _split_step(before: _Sums, after: _Sums) -> list[Part]:
    weight = log_mean(before.step_s, after.step_s)

    def slow_down(first_s: float, second_s: float) -> float:
        return (first_s - second_s) / weight

    parts = [
        Part("stage", name, "s", first_s, second_s, slow_down(first_s, second_s))
        for name, first_s, second_s in _pair(before.stage_s, after.stage_s)
    ]
    first_s, second_s = before.unattributed_s, after.unattributed_s
    change = slow_down(first_s, second_s)
    parts.append(Part("unattributed", stages.UNATTRIBUTED, "s", first_s, second_s, change))
    return parts


def _split_outside(before: _Sums, after: _Sums) -> list[Part]:
    weight = log_mean(_loop_factor(before), _loop_factor(after))
    return [
        Part(
            "outside",
            name,
            "s",
            first_s,
            second_s,
            (first_s / before.step_s - second_s / after.step_s) / weight,
        )
        for name, first_s, second_s in _pair(before.outside_s, after.outside_s)
    ]


def _loop_factor(sums: _Sums) -> float:
    """Return how much longer the loop is than its steps, by what runs between them."""
    return 1.0 + math.fsum(seconds / sums.step_s for seconds in sums.outside_s.values())


def _pair(
    before: Mapping[str, float], after: Mapping[str, float]
) -> list[tuple[str, float, float]]:
    """Return (name, seconds before, seconds after), canonical stages first and in order."""
    names = {**before, **after}
    known = {kind.name: place for place, kind in enumerate(stages.STAGE_KINDS)}
    ordered = sorted(names, key=lambda name: (known.get(name, len(known)), name))
    return [(name, before.get(name, 0.0), after.get(name, 0.0)) for name in ordered]


def _describe(sums: _Sums | None, *, has_tokens: bool, has_gpus: bool) -> WindowMeans:
    if sums is None:
        return WindowMeans(0, None, None, None, None, None, None)
    tokens = sums.tokens if has_tokens and sums.tokens is not None else 1.0
    gpus = sums.gpus if has_gpus and sums.gpus is not None else 1.0
    throughput = tokens / gpus / sums.step_s
    return WindowMeans(
        num_steps=sums.num_steps,
        tokens=sums.tokens,
        gpus=sums.gpus,
        step_s=sums.step_s,
        outside_s=math.fsum(sums.outside_s.values()),
        throughput=throughput,
        loop_throughput=throughput / _loop_factor(sums),
    )


def _remark(sums: _Sums, side: str) -> list[str]:
    remarks: list[str] = []
    for number, what in ((sums.without_tokens, "tokens"), (sums.without_gpus, "GPUs")):
        if 0 < number < sums.num_steps:
            remarks.append(
                f"{number} of {sums.num_steps} steps {side} report no {what}: "
                "the mean is that of the others"
            )
    if sums.without_stages:
        remarks.append(
            f"{sums.without_stages} of {sums.num_steps} steps {side} report no stage: "
            "their seconds are unattributed"
        )
    return remarks
