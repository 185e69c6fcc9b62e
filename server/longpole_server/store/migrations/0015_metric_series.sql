-- One metric over a run: the same points as `metric_points`, metric by metric instead of step by step.
DROP TABLE IF EXISTS metric_series_view $on_cluster SYNC;
DROP TABLE IF EXISTS metric_series $on_cluster SYNC;

CREATE TABLE metric_series $on_cluster (
    run_id String CODEC(ZSTD(1)),
    attempt Int64 CODEC(ZSTD(1)),
    name LowCardinality(String),
    step Int64 CODEC(Delta(8), ZSTD(1)),
    value Float64 CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree(ts_ns)
PARTITION BY toYYYYMM(ts_ns)
ORDER BY (run_id, name, attempt, step)
SETTINGS $deduplication_window = 10000
AS SELECT run_id, attempt, name, step, value, ts_ns FROM metric_points;

CREATE MATERIALIZED VIEW IF NOT EXISTS metric_series_view $on_cluster TO metric_series AS
SELECT run_id, attempt, name, step, value, ts_ns FROM metric_points;
