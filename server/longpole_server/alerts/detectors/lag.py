"""How old samples are, in which basis, and where they age: from scalars, else from samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from longpole.conventions.metrics import METRICS
from longpole.conventions.stages import ROLLOUT_WAIT, TRAINER_WAIT
from longpole_server.alerts.history import History, RunContext, StepPoint
from longpole_server.alerts.inputs import read_figure
from longpole_server.alerts.wording import format_number

VERSIONS, TOKENS, SCHEDULING = "versions", "tokens", "scheduling"
_MAX, _MEAN = "staleness_max", "staleness_mean"
# What frameworks count their lag from; a name that is not listed has the run's own basis.
_BASIS_OF_ALIAS: Mapping[str, str] = MappingProxyType(
    {
        "training/off_policy/": VERSIONS,
        "off_policy/": VERSIONS,
        "train/avg_trajectory_age": VERSIONS,
        "async/staleness_": SCHEDULING,
        "version_stats/": TOKENS,
        "ppo_actor/": TOKENS,
    }
)
_BASES = tuple(
    (name, basis)
    for name in (*METRICS[_MAX].aliases, *METRICS[_MEAN].aliases)
    for prefix, basis in _BASIS_OF_ALIAS.items()
    if name.startswith(prefix)
)
# All of these count policy versions, from different moments of a sample's life.
_IN_VERSIONS = frozenset({VERSIONS, SCHEDULING, TOKENS})
# A wait or a pause of this part of a step makes its side the one that waits.
_WAITS = 0.15
# verl's pauses; what is not said by name.
_PAUSED = ("rollout_paused_ratio", "fully_async/rollouter/idle_ratio")
_TRAINER_IDLE = ("fully_async/trainer/idle_ratio",)
_RECENT = 10


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a step's samples.

    Attributes:
        largest: Of the oldest sample, None when not known.
        mean: Of all, None when not known.
        basis: What they are counted in.
    """

    largest: float | None
    mean: float | None
    basis: str


def basis_of(run: RunContext | None) -> str:
    """Return the basis of a run's bound."""
    return (run.staleness_basis if run is not None else None) or VERSIONS


def read_lag(point: StepPoint, run: RunContext | None) -> Lag | None:
    """Return the lag of a step, None when nobody says."""
    largest, mean = read_figure(point, _MAX), read_figure(point, _MEAN)
    if largest is not None or mean is not None:
        return Lag(largest, mean, _find_basis(point, run))
    samples = point.samples
    if samples is None or samples.version_min is None or samples.version_max is None:
        return None
    # Nobody says which version trains on them; it is at least the newest one that generated.
    return Lag(float(samples.version_max - samples.version_min), samples.lag_mean, VERSIONS)


def is_comparable(lag: Lag, run: RunContext | None) -> bool:
    """Tell whether a lag and the run's bound are counted in the same.

    A bound in versions, as every one that names no basis, is one on any count of versions; a bound
    that names another basis is compared with that alone.
    """
    basis = basis_of(run)
    return lag.basis == basis or (basis == VERSIONS and lag.basis in _IN_VERSIONS)


def list_lags(points: Sequence[StepPoint], run: RunContext | None) -> list[tuple[int, Lag]]:
    """Return the lags of the steps that have one."""
    found: list[tuple[int, Lag]] = []
    for point in points:
        lag = read_lag(point, run)
        if lag is not None:
            found.append((point.step.step, lag))
    return found


def find_side(history: History) -> str:
    """Say which side is the cause: by waits, by pauses, and by where samples age.

    A lag alone never says: slow generation and a slow trainer both hold it up.
    """
    points = history.steps[-_RECENT:]
    paused = _mean_of(points, _PAUSED)
    if paused is None:
        paused = _mean_share(points, ROLLOUT_WAIT)
    waits = _mean_share(points, TRAINER_WAIT)
    if waits is None:
        waits = _mean_of(points, _TRAINER_IDLE)
    ages = _find_ages(points)
    said = _describe_ages(ages)
    is_paused = paused is not None and paused >= _WAITS
    is_waiting = waits is not None and waits >= _WAITS
    if is_paused and not is_waiting:
        part = format_number(paused, "ratio")
        return f"rollouts are paused {part} of the time{said}: the trainer is too slow"
    if is_waiting and not is_paused:
        part = format_number(waits, "ratio")
        return f"the trainer waits {part} of the step{said}: generation is slow"
    if is_paused and is_waiting:
        return (
            f"rollouts are paused {format_number(paused, 'ratio')} and the trainer waits "
            f"{format_number(waits, 'ratio')} of the time: the two sides take turns{said}"
        )
    if ages is not None:
        flight, queue = ages
        if flight > queue:
            return f"samples age in flight{said}: generation is slow"
        return f"samples age in the queue{said}: the trainer is too slow"
    if paused is None and waits is None:
        return "which side is slow is not known: neither pauses nor waits are reported"
    return "which side is slow is not known: neither side waits much for the other"


def _find_basis(point: StepPoint, run: RunContext | None) -> str:
    for name, basis in _BASES:
        if name in point.scalars:
            return basis
    return basis_of(run)


def _mean_of(points: Sequence[StepPoint], names: Sequence[str]) -> float | None:
    for name in names:
        known = [value for point in points if (value := read_figure(point, name)) is not None]
        if known:
            return sum(known) / len(known)
    return None


def _mean_share(points: Sequence[StepPoint], stage: str) -> float | None:
    shares = [
        found.share_ratio
        for point in points
        if (found := point.step.stage(stage)) is not None and found.share_ratio is not None
    ]
    # A step without the stage did not wait.
    return sum(shares) / len(points) if shares else None


def _find_ages(points: Sequence[StepPoint]) -> tuple[float, float] | None:
    """Return the mean versions that pass in flight and in the queue."""
    found: list[tuple[float, float]] = []
    for point in points:
        flight = read_figure(point, "off_policy/in_flight/mean")
        queue = read_figure(point, "off_policy/in_queue/mean")
        spans = read_figure(point, "training/off_policy/trajectory_spans/mean")
        behind = read_figure(point, "training/off_policy/trajectory_staleness/mean")
        samples = point.samples
        if flight is not None and queue is not None:
            found.append((flight, queue))
        elif spans is not None and behind is not None:
            # A span of one version is a sample that no sync interrupted.
            found.append((spans - 1, behind))
        elif (
            samples is not None and samples.flight_mean is not None and samples.lag_mean is not None
        ):
            found.append((samples.flight_mean, samples.lag_mean - samples.flight_mean))
    if not found:
        return None
    count = len(found)
    return sum(each[0] for each in found) / count, sum(each[1] for each in found) / count


def _describe_ages(ages: tuple[float, float] | None) -> str:
    if ages is None:
        return ""
    return f" (samples age {ages[0]:.1f} versions in flight, {ages[1]:.1f} in the queue)"
