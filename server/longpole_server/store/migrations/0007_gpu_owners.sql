-- Pods and jobs: who a process works for, and to whom a GPU was given. They join GPUs to runs.

ALTER TABLE processes $on_cluster
    ADD COLUMN IF NOT EXISTS pod_namespace LowCardinality(Nullable(String)),
    ADD COLUMN IF NOT EXISTS pod_name Nullable(String),
    ADD COLUMN IF NOT EXISTS pod_uid Nullable(String),
    ADD COLUMN IF NOT EXISTS slurm_job_id Nullable(String),
    ADD COLUMN IF NOT EXISTS ray_job_id Nullable(String);

ALTER TABLE gpu_processes $on_cluster
    ADD COLUMN IF NOT EXISTS pod_uid LowCardinality(Nullable(String)),
    ADD COLUMN IF NOT EXISTS slurm_job_id LowCardinality(Nullable(String)),
    ADD COLUMN IF NOT EXISTS ray_job_id LowCardinality(Nullable(String));

CREATE TABLE IF NOT EXISTS gpu_allocations $on_cluster (
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    pod_namespace LowCardinality(String),
    pod_name LowCardinality(String),
    container LowCardinality(String),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ${replicated}MergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfTenMinutes(ts_ns), host, gpu_uuid)
ORDER BY (toStartOfTenMinutes(ts_ns), host, gpu_uuid, pod_namespace, pod_name, container, ts_ns)
SETTINGS $deduplication_window = 10000;
