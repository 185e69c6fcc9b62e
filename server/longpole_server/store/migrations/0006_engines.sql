-- Series of rollout engines under their Prometheus names.
CREATE TABLE IF NOT EXISTS engine_samples $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    replica LowCardinality(String),
    name LowCardinality(String),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    value Float64 CODEC(ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toDate(ts_ns)
ORDER BY (run_id, attempt, name, replica, ts_ns)
SETTINGS $deduplication_window = 10000;
