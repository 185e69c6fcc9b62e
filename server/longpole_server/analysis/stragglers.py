"""Which GPU or replica the others wait for: each one's pace over the best, and over the usual.

A replica is compared by seconds a response token, and once more among samples of like length:
answers of other lengths decode at another rate, and who has them is no straggler.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longpole_server.analysis.longtail_samples import column
from longpole_server.analysis.replicas import compare_like_lengths, list_owned
from longpole_server.model.facts import GpuFacts, TrajectoryFacts
from longpole_server.model.stragglers import (
    GpuScore,
    GpuStanding,
    ReplicaScore,
    ReplicaStanding,
    Stragglers,
)

# Fewer peers have no median that one of them could fall behind.
MIN_PEERS = 3


def score_step(
    gpus: Sequence[GpuFacts],
    samples: TrajectoryFacts | None,
    *,
    clock_ratio: float,
    pace_ratio: float,
) -> Stragglers:
    """Score the GPUs and replicas of a step.

    Args:
        gpus: With their clocks at work.
        samples: Training samples, None when unknown.
        clock_ratio: Of the usual clock of its role; a GPU below it is a straggler.
        pace_ratio: Seconds a token over the other replicas' from which one is a straggler.
    """
    return Stragglers(
        score_gpus(gpus, clock_ratio),
        () if samples is None else score_replicas(samples, pace_ratio),
    )


def score_gpus(gpus: Sequence[GpuFacts], clock_ratio: float) -> tuple[GpuScore, ...]:
    """Return every GPU against those of its role, the slowest first, unknown ones last."""
    clocks: dict[str, list[float]] = {}
    for gpu in gpus:
        if gpu.busy_sm_clock_hz:
            clocks.setdefault(gpu.role, []).append(gpu.busy_sm_clock_hz)
    peers = {role: _Peers.of(known) for role, known in clocks.items()}
    scores = [_score_gpu(gpu, peers.get(gpu.role), clock_ratio) for gpu in gpus]
    return tuple(
        sorted(
            scores, key=lambda s: (s.of_best_ratio is None, s.of_best_ratio, s.host, s.gpu_index)
        )
    )


@dataclass(frozen=True, slots=True)
class _Peers:
    """The GPUs of a role whose clock is known, by their clocks in Hz."""

    num: int
    median_hz: float
    best_hz: float

    @classmethod
    def of(cls, clocks: Sequence[float]) -> "_Peers":
        return cls(len(clocks), statistics.median(clocks), max(clocks))


def _score_gpu(gpu: GpuFacts, peers: _Peers | None, clock_ratio: float) -> GpuScore:
    hz = gpu.busy_sm_clock_hz or None
    is_slow = (
        hz is not None
        and peers is not None
        and peers.num > MIN_PEERS
        and hz < clock_ratio * peers.median_hz
    )
    return GpuScore(
        gpu.gpu_uuid,
        gpu.host,
        gpu.gpu_index,
        gpu.role,
        hz,
        None if hz is None or peers is None else hz / peers.best_hz,
        gpu.throttled_ratio,
        gpu.throttle_reasons,
        is_slow,
        gpu.busy_power_watts,
    )


def score_replicas(samples: TrajectoryFacts, pace_ratio: float) -> tuple[ReplicaScore, ...]:
    """Return every replica against the others, the slowest first; empty with fewer than two."""
    count = len(samples.start_ns)
    tokens = column(samples.output_tokens, count)
    decode_s = column(samples.generate_s, count)
    usable: list[bool] = ((tokens > 0) & (decode_s > 0)).tolist()
    rows_of: dict[str, list[int]] = {}
    for row, replica in enumerate(samples.replicas):
        if replica is not None and usable[row]:
            rows_of.setdefault(replica, []).append(row)
    if len(rows_of) < 2:
        return ()
    paces = {
        name: float(decode_s[rows].sum() / tokens[rows].sum()) for name, rows in rows_of.items()
    }
    best = min(paces.values())
    counted, owners = list_owned(rows_of)
    alike_of = compare_like_lengths(decode_s[counted], tokens[counted], owners)
    mean_tokens = float(tokens[counted].mean())
    scores: list[ReplicaScore] = []
    for (name, rows), alike in zip(rows_of.items(), alike_of, strict=True):
        others = [pace for other, pace in paces.items() if other != name]
        length_ratio = float(tokens[rows].mean()) / mean_tokens
        is_slow = (
            paces[name] >= pace_ratio * statistics.median(others)
            and 1 / pace_ratio <= length_ratio <= pace_ratio
            and alike is not None
            and alike >= pace_ratio
        )
        score = ReplicaScore(name, len(rows), paces[name], best / paces[name], alike, is_slow)
        scores.append(score)
    return tuple(sorted(scores, key=lambda score: (score.of_best_ratio, score.replica)))


def stand_gpus(
    steps: Sequence[Stragglers], ranks: Mapping[str, int] | None = None
) -> tuple[GpuStanding, ...]:
    """Return every GPU over several steps, who was slow most often first, unknown ones last.

    Args:
        steps: Of one run, in order.
        ranks: By uuid, where they are known.
    """
    scores: dict[tuple[str, str], list[GpuScore]] = {}
    for step in steps:
        for score in step.gpus:
            scores.setdefault((score.gpu_uuid, score.role), []).append(score)
    standings = [_stand_gpu(each, (ranks or {}).get(each[-1].gpu_uuid)) for each in scores.values()]
    return tuple(sorted(standings, key=lambda s: (*_order(s), s.host, s.gpu_index)))


def _stand_gpu(scores: Sequence[GpuScore], rank: int | None) -> GpuStanding:
    known = [score for score in scores if score.sm_clock_hz is not None]
    num_slow = sum(score.is_straggler for score in known)
    newest = scores[-1]
    return GpuStanding(
        newest.gpu_uuid,
        newest.host,
        newest.gpu_index,
        newest.role,
        _median(score.sm_clock_hz for score in known),
        _median(score.of_best_ratio for score in known),
        _median(score.throttled_ratio for score in scores),
        tuple(dict.fromkeys(word for score in scores for word in score.reasons)),
        _is_often(num_slow, len(known)),
        _median(score.power_watts for score in scores),
        rank,
        num_steps=len(known),
        num_slow=num_slow,
    )


def stand_replicas(steps: Sequence[Stragglers]) -> tuple[ReplicaStanding, ...]:
    """Return every replica over several steps, who was slow most often first."""
    scores: dict[str, list[ReplicaScore]] = {}
    for step in steps:
        for score in step.replicas:
            scores.setdefault(score.replica, []).append(score)
    standings = [_stand_replica(each) for each in scores.values()]
    return tuple(sorted(standings, key=lambda s: (*_order(s), s.replica)))


def _stand_replica(scores: Sequence[ReplicaScore]) -> ReplicaStanding:
    num_slow = sum(score.is_straggler for score in scores)
    return ReplicaStanding(
        scores[-1].replica,
        sum(score.num_samples for score in scores),
        statistics.median(score.seconds_per_token for score in scores),
        statistics.median(score.of_best_ratio for score in scores),
        _median(score.like_lengths_ratio for score in scores),
        _is_often(num_slow, len(scores)),
        num_steps=len(scores),
        num_slow=num_slow,
    )


def _order(standing: GpuStanding | ReplicaStanding) -> tuple[int, bool, float]:
    ratio = standing.of_best_ratio
    return (-standing.num_slow, ratio is None, 1.0 if ratio is None else ratio)


def _is_often(num_slow: int, num_steps: int) -> bool:
    return num_slow > 0 and 2 * num_slow >= num_steps


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
