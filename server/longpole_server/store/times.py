"""Which column of each table is its time: for retention, sizes and export."""

from collections.abc import Mapping
from types import MappingProxyType

TIME_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "alert_deliveries": "ts_ns",
        "alert_events": "decided_ns",
        "alert_messages": "created_ns",
        "alert_silences": "created_ns",
        "engine_samples": "ts_ns",
        "gpu_allocations": "ts_ns",
        "gpu_latest": "ts_ns",
        "gpu_processes": "ts_ns",
        "gpu_samples": "ts_ns",
        "gpu_samples_10s": "ts_ns",
        "gpu_samples_60s": "ts_ns",
        "host_processes": "ts_ns",
        "host_samples": "ts_ns",
        "metric_points": "ts_ns",
        "metric_series": "ts_ns",
        "otel_traces": "Timestamp",
        "processes": "seen_ns",
        "run_activity": "last_seen_ns",
        "run_ends": "ended_ns",
        "run_gpus": "since_ns",
        "run_starts": "started_ns",
        "scrape_targets": "seen_ns",
        "stage_spans": "start_ns",
        "stage_starts": "start_ns",
        "steps": "start_ns",
        "stored_batches": "stored_ns",
        "trajectories": "end_ns",
        "trajectory_spans": "start_ns",
        "writer_terms": "renewed_ns",
    }
)
# Tables without a time of their own, and one that passes its rows on.
TIMELESS = frozenset({"alert_rules", "gpu_samples_feed", "schema_migrations"})
