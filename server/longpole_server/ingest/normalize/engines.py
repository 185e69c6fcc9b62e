"""Series of rollout engines: one name each, however the sender spells it."""

import re
from functools import lru_cache

from longpole.conventions.metrics import CANONICAL_OF_ALIAS
from longpole_server.ingest.normalize.attempts import Attempt
from longpole_server.ingest.normalize.attributes import Values, get_text
from longpole_server.ingest.normalize.points import NumberPoint, label_name
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import ITERATION_KEYS
from longpole_server.model.records import EngineSample

# `vllm:x` as Prometheus has it, `vllm_x` after OpenTelemetry's or Ray's exporters, `ray_vllm_x`,
# `vllm/x` in trainers' loggers.
_SPELLING = re.compile(r"(?:ray_)?(?P<engine>vllm|sglang)[:_/](?P<series>[^/]+)")
_TOTAL_SUFFIX = "_total"
_DERIVED_SUFFIXES = (_TOTAL_SUFFIX, "_count", "_sum", "_bucket")
_INSTANCE = "service.instance.id"
_FIRST_ENGINE = "0"
_HALVES = frozenset({"prefill", "decode"})
# Labels that say which engine it is, or the same on every series.
_IDENTITY_LABELS = frozenset(
    {
        *ITERATION_KEYS,
        _INSTANCE,
        "instance",
        "job",
        "engine",
        "engine_type",
        "model_name",
        "tp_rank",
        "pp_rank",
        "dp_rank",
        "moe_ep_rank",
        "moe_dp_rank",
        "worker_addr",
        "server",
        # SGLang's, where several processes of an engine share a page.
        "pid",
        # Ray's.
        "Component",
        "JobId",
        "NodeAddress",
        "ReplicaId",
        "SessionName",
        "Version",
        "WorkerId",
    }
)


@lru_cache(maxsize=4096)
def name_series(name: str, *, is_total: bool) -> str | None:
    """Return the Prometheus name of an engine's series, None when it is no engine's."""
    # Trainers log metrics of their own under such names.
    if name in CANONICAL_OF_ALIAS:
        return None
    match = _SPELLING.fullmatch(name)
    if match is None:
        return None
    series = match["series"]
    if is_total and not series.endswith(_DERIVED_SUFFIXES):
        series += _TOTAL_SUFFIX
    return f"{match['engine']}:{series}"


def make_engine_sample(
    series: str, point: NumberPoint, value: float, attempt: Attempt, sender: Sender
) -> EngineSample:
    """Return the sample; labels beyond the engine's identity become part of the name."""
    return EngineSample(
        run_id=attempt.run_id,
        attempt=attempt.number,
        replica=_name_replica(point, sender),
        name=label_name(series, point.values, _IDENTITY_LABELS),
        ts_ns=point.ts_ns,
        value=value,
    )


def is_copy(values: Values) -> bool:
    """Tell whether a point repeats what the first rank of its engine says.

    With data parallel attention the first rank of an engine need not be rank 0 of all.
    """
    labels = ("pp_rank",) if "dp_rank" in values else ("tp_rank", "pp_rank")
    return any((get_text(values, label) or _FIRST_ENGINE) != _FIRST_ENGINE for label in labels)


def _name_replica(point: NumberPoint, sender: Sender) -> str:
    """Return the replica: the instance; behind it what one process has several of.

    These are engines (data parallel ranks), and the halves of disaggregated serving.
    """
    worker = get_text(point.values, "worker_addr") or get_text(point.values, "server")
    replica = (
        # A router's page shows the engines behind it.
        (worker.rpartition("//")[2] if worker else None)
        or get_text(point.values, _INSTANCE)
        or get_text(point.values, "instance")
        or sender.instance
        or sender.host
    )
    engine = get_text(point.values, "engine") or get_text(point.values, "dp_rank")
    parts = [replica] if engine in {None, _FIRST_ENGINE} else [replica, f"{engine}"]
    half = get_text(point.values, "engine_type")
    return "/".join([*parts, half] if half in _HALVES else parts)
