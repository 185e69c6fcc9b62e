"""Puts the cluster together: nodes, GPUs, and what they did in the last minute."""

from collections.abc import Mapping
from dataclasses import replace

from longpole_server.model.cluster import ClusterNow, GpuState, NodeNow
from longpole_server.model.gpu import GpuHeatmap, GpuNow, RunGpu
from longpole_server.read import Reader

_DAY_NS = 86_400 * 10**9
_MINUTE_NS = 60 * 10**9


def read_cluster(reader: Reader, now_ns: int) -> ClusterNow:
    """Return everything that was heard of in the day before `now_ns`."""
    gpus = reader.list_gpus(now_ns - _DAY_NS)
    minutes = reader.get_gpu_minutes(now_ns - _MINUTE_NS)
    nodes = {node.host: node for node in reader.list_nodes(now_ns - _DAY_NS)}
    for gpu in gpus:
        nodes[gpu.host] = _seen(nodes.get(gpu.host), gpu)
    return ClusterNow(
        ts_ns=now_ns,
        nodes=tuple(nodes[host] for host in sorted(nodes)),
        gpus=tuple(GpuState(gpu, minutes.get((gpu.host, gpu.gpu_uuid))) for gpu in gpus),
    )


def read_cluster_heatmap(
    reader: Reader, field: str, start_ns: int, end_ns: int, max_bins: int
) -> GpuHeatmap:
    """Return one field of every GPU seen in the day before `end_ns`, held by a run or not."""
    lanes = [_lane(gpu) for gpu in reader.list_gpus(end_ns - _DAY_NS)]
    return reader.get_gpu_heatmap(lanes, field, start_ns, end_ns, max_bins)


# What lines of one GPU show.
SERIES_FIELDS = (
    "utilization_ratio",
    "sm_active_ratio",
    "sm_clock_hz",
    "power_watts",
    "temperature_celsius",
    "memory_used_bytes",
)


def read_gpu_series(
    reader: Reader, host: str, gpu_uuid: str, start_ns: int, end_ns: int, max_bins: int
) -> Mapping[str, GpuHeatmap]:
    """Return the fields of one GPU over a time, by name."""
    lane = RunGpu("", 0, host, gpu_uuid, 0, "", 0, None, "estimated")
    return reader.get_gpu_heatmaps([lane], SERIES_FIELDS, start_ns, end_ns, max_bins)


def _seen(node: NodeNow | None, gpu: GpuNow) -> NodeNow:
    if node is None:
        return NodeNow(gpu.host, gpu.ts_ns)
    return node if node.seen_ns >= gpu.ts_ns else replace(node, seen_ns=gpu.ts_ns)


def _lane(gpu: GpuNow) -> RunGpu:
    """Return a GPU as a lane of a heat-map; for ever, whoever held it when."""
    return RunGpu(
        run_id=gpu.run_id or "",
        attempt=0,
        host=gpu.host,
        gpu_uuid=gpu.gpu_uuid,
        gpu_index=gpu.gpu_index,
        role=gpu.role or "",
        since_ns=0,
        until_ns=None,
        how=gpu.how or "estimated",
        model=gpu.model,
    )
