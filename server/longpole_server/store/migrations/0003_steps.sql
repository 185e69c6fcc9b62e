-- What a step is made of, and the step itself. The sorting key of each table is the identity of a
-- fact: the same fact in another batch replaces itself.

CREATE TABLE IF NOT EXISTS stage_spans $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    stage LowCardinality(String),
    name LowCardinality(String),
    start_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    end_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    role LowCardinality(String),
    host LowCardinality(String),
    pid Int64 CODEC(ZSTD(1)),
    is_loop Bool,
    sync_phase LowCardinality(Nullable(String)),
    sync_method LowCardinality(Nullable(String)),
    sync_bytes Nullable(Int64) CODEC(ZSTD(1)),
    tokens_total Nullable(Int64) CODEC(ZSTD(1)),
    tokens_prompt Nullable(Int64) CODEC(ZSTD(1)),
    tokens_response Nullable(Int64) CODEC(ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_ns)
PRIMARY KEY (run_id, attempt, step)
ORDER BY (run_id, attempt, step, start_ns, stage, name, trace_id, span_id)
SETTINGS $deduplication_window = 10000;

-- Open windows: the newest heartbeat replaces the ones before it.
CREATE TABLE IF NOT EXISTS stage_starts $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    stage LowCardinality(String),
    start_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    seen_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    host LowCardinality(String),
    pid Int64 CODEC(ZSTD(1)),
    role LowCardinality(String)
) ENGINE = ${replicated}ReplacingMergeTree(seen_ns)
PARTITION BY toYYYYMM(start_ns)
PRIMARY KEY (run_id, attempt, step)
ORDER BY (run_id, attempt, step, stage, start_ns, host, pid)
SETTINGS $deduplication_window = 10000;

-- Logged scalars: the newest point of a name in a step is the valid one.
CREATE TABLE IF NOT EXISTS metric_points $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    name LowCardinality(String),
    value Float64 CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree(ts_ns)
PARTITION BY toYYYYMM(ts_ns)
ORDER BY (run_id, attempt, step, name)
SETTINGS $deduplication_window = 10000;

-- Derived: recomputed as facts arrive, the highest version is the valid one. `stages`, `outside`,
-- `notes` and `diagnosis` are JSON.
CREATE TABLE IF NOT EXISTS steps $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    version UInt64 CODEC(ZSTD(1)),
    start_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    end_ns Nullable(DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    duration_s Nullable(Float64) CODEC(ZSTD(1)),
    closed_by LowCardinality(Nullable(String)),
    stages String CODEC(ZSTD(1)),
    unattributed_s Nullable(Float64) CODEC(ZSTD(1)),
    outside String CODEC(ZSTD(1)),
    tokens_total Nullable(Int64) CODEC(ZSTD(1)),
    throughput_tokens_per_s_per_gpu Nullable(Float64) CODEC(ZSTD(1)),
    mfu_actor Nullable(Float64) CODEC(ZSTD(1)),
    mfu_infer Nullable(Float64) CODEC(ZSTD(1)),
    mfu_step Nullable(Float64) CODEC(ZSTD(1)),
    gpu_count Nullable(Int64) CODEC(ZSTD(1)),
    verdict LowCardinality(Nullable(String)),
    confidence LowCardinality(Nullable(String)),
    notes String CODEC(ZSTD(1)),
    diagnosis String CODEC(ZSTD(3))
) ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY (run_id, attempt, step)
SETTINGS $deduplication_window = 10000;
