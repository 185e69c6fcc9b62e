"""Pages of inference engines: vLLM's and SGLang's series, one set a replica."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from longpole.conventions import rl_insight
from longpole.conventions.attributes import (
    LEGACY_EXPERIMENT,
    LEGACY_PROJECT,
    RUN_ID,
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
)
from longpole_agent.sources.exposition import Sample
from longpole_agent.sources.source import Attributes, Point
from longpole_agent.targets import Target

MAX_SERIES = 2000
_ENGINE = re.compile(r"(?:ray_)?(vllm|sglang)[:_](?P<series>.+)")
# One series a bucket is what makes these pages large; count and sum are kept. What `_info` and
# `_created` say is no measurement, but for the size of vLLM's pool, which stands in labels alone.
_LEFT_OUT = ("_bucket", "_created", "_info")
_POOL = re.compile(r"(?:ray_)?vllm[:_]cache_config_info")
_POOL_LABELS = frozenset({"num_gpu_blocks", "block_size", "engine", "model_name"})
_MAX_LABEL_CHARS = 200
# What tells engines of one page apart.
_ENGINE_LABELS = ("worker_addr", "server", "engine_type", "dp_rank", "engine")
# Routers' pages say which of their engines is meant: SGLang's, vLLM's.
_ROUTER_LABELS = frozenset({"worker_addr", "server"})
# So do these where a page shows several of one: Ray's page of a node, a server of several models.
_SHARED_PAGE_LABELS = ("ReplicaId", "WorkerId", "model_name")


def make_engine_points(
    samples: Iterable[Sample | None], target: Target, job: str, ts_ns: int
) -> tuple[list[Point], int]:
    """Return the points of one page, and how many of its lines were left out beyond the bounds.

    Series of anything but engines, such as those of the interpreter, are passed over.

    Args:
        samples: The page.
        target: Where it was found; its labels name the replica and may name the run.
        job: The job it belongs to, "" if unknown.
        ts_ns: The points' time.
    """
    points: list[Point] = []
    resources: dict[tuple[str, str], Attributes] = {}
    read = list(samples)
    found = [sample for sample in read if sample is not None]
    num_left_out = len(read) - len(found)
    shared_by = _find_shared(found)
    first_ranks = _find_first_ranks(found, shared_by)
    for sample in map(_keep_pool, found):
        match = _ENGINE.fullmatch(sample.name)
        is_left_out = sample.name.endswith(_LEFT_OUT) and not _POOL.fullmatch(sample.name)
        if match is None or is_left_out or not math.isfinite(sample.value):
            continue
        part = _read_label(sample, shared_by)
        if _is_copy(sample, part, first_ranks):
            continue
        if len(points) >= MAX_SERIES or any(
            len(value) > _MAX_LABEL_CHARS for _, value in sample.labels
        ):
            num_left_out += 1
            continue
        engine = match[1]
        resource = resources.get((engine, part))
        if resource is None:
            resource = resources[engine, part] = _make_resource(engine, part, target, job)
        kind = "counter" if sample.is_cumulative else "gauge"
        points.append(Point(sample.name, "", kind, ts_ns, sample.value, sample.labels, resource))
    return points, num_left_out


def _keep_pool(sample: Sample) -> Sample:
    """Leave of vLLM's configuration what says how large its pool is."""
    if not _POOL.fullmatch(sample.name):
        return sample
    return replace(sample, labels=tuple(each for each in sample.labels if each[0] in _POOL_LABELS))


def _find_shared(samples: Iterable[Sample]) -> str:
    """Return the label that tells the engines apart that share a page, "" where none does.

    A router's page says which engine it means.
    """
    seen: dict[str, set[str]] = {name: set() for name in _SHARED_PAGE_LABELS}
    for sample in samples:
        labels = dict(sample.labels)
        if _ENGINE.fullmatch(sample.name) is None or labels.keys() & _ROUTER_LABELS:
            continue
        for name in seen:
            if name in labels:
                seen[name].add(labels[name])
    return next((name for name, values in seen.items() if len(values) > 1), "")


def _read_label(sample: Sample, name: str) -> str:
    """Return what comes behind the replica's name, of a model's the last part."""
    value = dict(sample.labels).get(name, "") if name else ""
    return value.rpartition("/")[2]


def _find_first_ranks(
    samples: Iterable[Sample], shared_by: str
) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return the first rank of each engine of a page.

    Ranks of tensor and pipeline parallelism repeat what the first one says. With data parallel
    attention the first one of an engine need not be rank 0.
    """
    first: dict[tuple[str, ...], tuple[int, int]] = {}
    for sample in samples:
        rank = _read_rank(sample)
        if rank is not None:
            engine = _read_engine(sample, _read_label(sample, shared_by))
            first[engine] = min(rank, first.get(engine, rank))
    return first


def _is_copy(sample: Sample, part: str, first: dict[tuple[str, ...], tuple[int, int]]) -> bool:
    rank = _read_rank(sample)
    return rank is not None and rank != first[_read_engine(sample, part)]


def _read_rank(sample: Sample) -> tuple[int, int] | None:
    labels = dict(sample.labels)
    ranks = [labels.get(name, "") for name in ("pp_rank", "tp_rank")]
    if not any(ranks):
        return None
    pipeline, tensor = (int(rank) if rank.isdecimal() else 0 for rank in ranks)
    return pipeline, tensor


def _read_engine(sample: Sample, part: str) -> tuple[str, ...]:
    labels = dict(sample.labels)
    return part, *(labels.get(name, "") for name in _ENGINE_LABELS)


def name_replica(target: Target) -> str:
    """Return the replica's name: as lanes have it where a number was registered, else its page."""
    replica = target.label("replica")
    if replica.isdecimal():
        return f"{rl_insight.REPLICA_LANE_PREFIX}{replica}"
    return replica or target.address


def _make_resource(engine: str, part: str, target: Target, job: str) -> Attributes:
    named = (
        (RUN_ID, target.label("run")),
        (LEGACY_PROJECT, target.label(LEGACY_PROJECT)),
        (LEGACY_EXPERIMENT, target.label(LEGACY_EXPERIMENT)),
        (rl_insight.JOB, job),
    )
    return (
        (SERVICE_NAME, engine),
        (SERVICE_INSTANCE_ID, "/".join(filter(None, (name_replica(target), part)))),
        *((key, value) for key, value in named if value),
    )
