-- More of what devices and nodes say, and what processes take of a node's memory.

-- A MIG device names the GPU that it is a part of, and its profile.
ALTER TABLE gpu_samples $on_cluster
    ADD COLUMN IF NOT EXISTS parent_uuid LowCardinality(String),
    ADD COLUMN IF NOT EXISTS mig_profile LowCardinality(String),
    ADD COLUMN IF NOT EXISTS memory_temperature_celsius Nullable(Decimal(9, 1)) CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS sm_clock_max_hz Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS ecc_corrected_errors Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS remapped_rows Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS row_remap_pending Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS row_remap_failed Nullable(Int64) CODEC(ZSTD(1));

ALTER TABLE gpu_latest $on_cluster
    ADD COLUMN IF NOT EXISTS parent_uuid LowCardinality(String),
    ADD COLUMN IF NOT EXISTS mig_profile LowCardinality(String);

ALTER TABLE gpu_latest_view $on_cluster MODIFY QUERY
SELECT
    host,
    gpu_uuid,
    gpu_index,
    model,
    ts_ns,
    utilization_ratio,
    memory_used_bytes,
    memory_total_bytes,
    sm_active_ratio,
    tensor_active_ratio,
    power_watts,
    temperature_celsius,
    parent_uuid,
    mig_profile
FROM gpu_samples;

-- `object_store` is Ray's, on this node; its totals count since the raylet started.
ALTER TABLE host_samples $on_cluster
    ADD COLUMN IF NOT EXISTS cpu_count Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS disk_read_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS disk_write_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS fabric_receive_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS fabric_transmit_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS object_store_used_bytes Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS object_store_total_bytes Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS object_store_fallback_bytes Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS object_store_spilled_bytes Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS spilled_bytes_total Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS restored_bytes_total Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS workers_killed_total Nullable(Int64) CODEC(ZSTD(1));

-- What a process says it does in its title, which Ray writes.
ALTER TABLE gpu_processes $on_cluster
    ADD COLUMN IF NOT EXISTS title LowCardinality(Nullable(String)),
    ADD COLUMN IF NOT EXISTS rank Nullable(Int64) CODEC(ZSTD(1));

CREATE TABLE IF NOT EXISTS host_processes $on_cluster (
    host LowCardinality(String),
    pid Int64 CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    title LowCardinality(String),
    private_bytes Nullable(Int64) CODEC(ZSTD(1)),
    ray_job_id LowCardinality(Nullable(String))
) ENGINE = ${replicated}MergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfHour(ts_ns), host)
ORDER BY (toStartOfHour(ts_ns), host, pid, ts_ns)
SETTINGS $deduplication_window = 10000;
