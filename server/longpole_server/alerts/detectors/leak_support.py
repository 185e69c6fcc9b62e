"""What speaks for a leak beside a rising floor: preemptions, throughput, the engine's own word."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longpole_server.alerts.detectors.trends import measure_trend
from longpole_server.alerts.engines import EngineStep
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.inputs import read_figure
from longpole_server.model.alert import AlertEvidence

_MIN_STEPS = 10
_P_VALUE = 0.05
# A load that moved less than this from one half to the other counts as constant.
_CONSTANT = 0.15
_SHAPES = ("response_length_mean", "truncated_ratio")


@dataclass(frozen=True, slots=True)
class Support:
    """Further signs.

    Attributes:
        words: What they are, empty without any.
        evidence: Their numbers.
    """

    words: tuple[str, ...] = ()
    evidence: tuple[AlertEvidence, ...] = ()


def find_support(steps: Sequence[StepPoint], replica: str, since_step: int) -> Support:
    """Return what else speaks for a leak of a replica since a step."""
    points = [point for point in steps if point.step.step >= since_step]
    pairs = [
        (point, engine) for point in points if (engine := point.engines.get(replica)) is not None
    ]
    words: list[str] = []
    evidence: list[AlertEvidence] = []
    for found in (_rising_preemptions(pairs), _falling_residual(pairs), _own_warning(pairs)):
        if found is not None:
            words.append(found[0])
            evidence.append(found[1])
    return Support(tuple(words), tuple(evidence))


_Pairs = Sequence[tuple[StepPoint, EngineStep]]


def _rising_preemptions(pairs: _Pairs) -> tuple[str, AlertEvidence] | None:
    """Preemptions that rise while running x context stays: the room shrinks, not the load."""
    known = [
        (float(point.step.step), engine.preemptions, engine.running_mean * engine.context_mean)
        for point, engine in pairs
        if engine.preemptions is not None
        and engine.running_mean is not None
        and engine.context_mean is not None
    ]
    if len(known) < _MIN_STEPS:
        return None
    middle = len(known) // 2
    before = float(np.median([load for _, _, load in known[:middle]]))
    after = float(np.median([load for _, _, load in known[middle:]]))
    if before <= 0 or after > (1 + _CONSTANT) * before:
        return None
    trend = measure_trend([step for step, _, _ in known], [count for _, count, _ in known])
    if trend.slope <= 0 or trend.p_value > _P_VALUE:
        return None
    value = known[-1][1]
    return (
        "preemptions rise though as much runs as before",
        AlertEvidence("preemptions", value, "requests"),
    )


def _falling_residual(pairs: _Pairs) -> tuple[str, AlertEvidence] | None:
    """Throughput that falls beyond what length, concurrency and truncation explain."""
    rows: list[tuple[float, float, list[float]]] = []
    for point, engine in pairs:
        if not engine.generated_tokens or not engine.busy_s or not engine.running_mean:
            continue
        length, truncated = (read_figure(point, name) for name in _SHAPES)
        rows.append(
            (
                float(point.step.step),
                float(np.log(engine.generated_tokens / engine.busy_s)),
                [
                    float(np.log(engine.running_mean)),
                    float(np.log(length)) if length is not None and length > 0 else 0.0,
                    truncated or 0.0,
                ],
            )
        )
    if len(rows) < _MIN_STEPS:
        return None
    steps = np.array([row[0] for row in rows])
    shapes = np.array([row[2] for row in rows])
    # With time among the regressors, what merely grows with time is not taken for a cause.
    columns = np.column_stack([np.ones(len(rows)), steps - steps[0], shapes - shapes.mean(axis=0)])
    rates = np.array([row[1] for row in rows])
    solved = np.linalg.lstsq(columns, rates, rcond=None)[0]
    residuals = rates - columns[:, 2:] @ solved[2:]
    trend = measure_trend(steps.tolist(), (-residuals).tolist())
    fall = 1.0 - float(np.exp(-trend.rise))
    if trend.p_value > _P_VALUE or fall < 0.05:
        return None
    return (
        f"throughput fell by {100 * fall:.0f} % beyond what its load explains",
        AlertEvidence("throughput_residual", -fall, "ratio"),
    )


def _own_warning(pairs: _Pairs) -> tuple[str, AlertEvidence] | None:
    known = [engine.blocks_not_freed for _, engine in pairs if engine.blocks_not_freed]
    if not known:
        return None
    return (
        "the engine itself says that blocks were not freed when it reset its prefix cache",
        AlertEvidence("blocks_not_freed", known[-1], "blocks"),
    )
