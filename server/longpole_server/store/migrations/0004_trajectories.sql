-- Samples and where their time went. `end_ns` stands early in the key, since samples of an unknown
-- step (-1) are found by the window that holds their end.
CREATE TABLE IF NOT EXISTS trajectories $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    trajectory_id String CODEC(ZSTD(1)),
    start_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    end_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    phase LowCardinality(String),
    group_id Nullable(String) CODEC(ZSTD(1)),
    generate_s Nullable(Float64) CODEC(ZSTD(1)),
    tool_s Nullable(Float64) CODEC(ZSTD(1)),
    score_s Nullable(Float64) CODEC(ZSTD(1)),
    queue_s Nullable(Float64) CODEC(ZSTD(1)),
    paused_s Nullable(Float64) CODEC(ZSTD(1)),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    turns Nullable(Int64) CODEC(ZSTD(1)),
    preemptions Nullable(Int64) CODEC(ZSTD(1)),
    status LowCardinality(Nullable(String)),
    reward Nullable(Float64) CODEC(ZSTD(1)),
    policy_version_start Nullable(Int64) CODEC(ZSTD(1)),
    policy_version_end Nullable(Int64) CODEC(ZSTD(1)),
    replica LowCardinality(Nullable(String)),
    host LowCardinality(Nullable(String)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    INDEX idx_trajectory_id trajectory_id TYPE bloom_filter(0.01) GRANULARITY 1
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(end_ns)
PRIMARY KEY (run_id, attempt, step, end_ns)
ORDER BY (run_id, attempt, step, end_ns, phase, trajectory_id, span_id)
SETTINGS $deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS trajectory_spans $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    trajectory_id String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    name LowCardinality(String),
    start_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    end_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    turn Nullable(Int64) CODEC(ZSTD(1)),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_ns)
PRIMARY KEY (run_id, attempt, trajectory_id)
ORDER BY (run_id, attempt, trajectory_id, start_ns, kind, name, span_id)
SETTINGS $deduplication_window = 10000;
