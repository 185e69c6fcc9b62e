-- What comes again under another batch id, or under none, is stored once.

-- Raw spans replace by identity. Times before ids in the key: neighbours compress, and few texts are
-- compared. A table that changes is made anew beside the old one and takes its place at once, so that
-- a crash at any point loses nothing and everything can be repeated.
DROP TABLE IF EXISTS otel_traces_new $on_cluster SYNC;

CREATE TABLE otel_traces_new $on_cluster (
    Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration UInt64 CODEC(ZSTD(1)),
    StatusCode LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested (
        Timestamp DateTime64(9),
        Name LowCardinality(String),
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    Links Nested (
        TraceId String,
        SpanId String,
        TraceState String,
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX idx_duration Duration TYPE minmax GRANULARITY 1
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toDate(Timestamp)
PRIMARY KEY (ServiceName, SpanName, toDateTime(Timestamp))
ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp, SpanId, TraceId)
SETTINGS ttl_only_drop_parts = 1, $deduplication_window = 10000
AS SELECT * FROM otel_traces;

EXCHANGE TABLES otel_traces AND otel_traces_new $on_cluster;
DROP TABLE IF EXISTS otel_traces_new $on_cluster SYNC;

-- Samples are rolled up before they are stored: a sample that is stored was counted, so that one
-- that comes again is known by the raw table alone.
DROP TABLE IF EXISTS gpu_samples_10s_view $on_cluster SYNC;
DROP TABLE IF EXISTS gpu_samples_60s_view $on_cluster SYNC;

CREATE TABLE IF NOT EXISTS gpu_samples_feed $on_cluster (
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    gpu_index Int64,
    ts_ns DateTime64(9, 'UTC'),
    utilization_ratio Nullable(Decimal(9, 4)),
    sm_active_ratio Nullable(Decimal(9, 4)),
    tensor_active_ratio Nullable(Decimal(9, 4)),
    dram_active_ratio Nullable(Decimal(9, 4)),
    memory_used_bytes Nullable(Int64),
    power_watts Nullable(Decimal(9, 1))
) ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_feed_10s_view $on_cluster TO gpu_samples_10s AS
SELECT
    toDateTime64(toStartOfInterval(sample.ts_ns, INTERVAL 10 SECOND), 9, 'UTC') AS ts_ns,
    host,
    gpu_index,
    gpu_uuid,
    count(utilization_ratio) AS utilization_ratio_count,
    sum(toFloat64(ifNull(utilization_ratio, 0))) AS utilization_ratio_sum,
    min(toFloat64(utilization_ratio)) AS utilization_ratio_min,
    max(toFloat64(utilization_ratio)) AS utilization_ratio_max,
    count(sm_active_ratio) AS sm_active_ratio_count,
    sum(toFloat64(ifNull(sm_active_ratio, 0))) AS sm_active_ratio_sum,
    min(toFloat64(sm_active_ratio)) AS sm_active_ratio_min,
    max(toFloat64(sm_active_ratio)) AS sm_active_ratio_max,
    count(tensor_active_ratio) AS tensor_active_ratio_count,
    sum(toFloat64(ifNull(tensor_active_ratio, 0))) AS tensor_active_ratio_sum,
    min(toFloat64(tensor_active_ratio)) AS tensor_active_ratio_min,
    max(toFloat64(tensor_active_ratio)) AS tensor_active_ratio_max,
    count(dram_active_ratio) AS dram_active_ratio_count,
    sum(toFloat64(ifNull(dram_active_ratio, 0))) AS dram_active_ratio_sum,
    min(toFloat64(dram_active_ratio)) AS dram_active_ratio_min,
    max(toFloat64(dram_active_ratio)) AS dram_active_ratio_max,
    count(memory_used_bytes) AS memory_used_bytes_count,
    sum(toFloat64(ifNull(memory_used_bytes, 0))) AS memory_used_bytes_sum,
    min(toFloat64(memory_used_bytes)) AS memory_used_bytes_min,
    max(toFloat64(memory_used_bytes)) AS memory_used_bytes_max,
    count(power_watts) AS power_watts_count,
    sum(toFloat64(ifNull(power_watts, 0))) AS power_watts_sum,
    min(toFloat64(power_watts)) AS power_watts_min,
    max(toFloat64(power_watts)) AS power_watts_max
FROM gpu_samples_feed AS sample
GROUP BY ts_ns, host, gpu_index, gpu_uuid;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_feed_60s_view $on_cluster TO gpu_samples_60s AS
SELECT
    toDateTime64(toStartOfInterval(sample.ts_ns, INTERVAL 60 SECOND), 9, 'UTC') AS ts_ns,
    host,
    gpu_index,
    gpu_uuid,
    count(utilization_ratio) AS utilization_ratio_count,
    sum(toFloat64(ifNull(utilization_ratio, 0))) AS utilization_ratio_sum,
    min(toFloat64(utilization_ratio)) AS utilization_ratio_min,
    max(toFloat64(utilization_ratio)) AS utilization_ratio_max,
    count(sm_active_ratio) AS sm_active_ratio_count,
    sum(toFloat64(ifNull(sm_active_ratio, 0))) AS sm_active_ratio_sum,
    min(toFloat64(sm_active_ratio)) AS sm_active_ratio_min,
    max(toFloat64(sm_active_ratio)) AS sm_active_ratio_max,
    count(tensor_active_ratio) AS tensor_active_ratio_count,
    sum(toFloat64(ifNull(tensor_active_ratio, 0))) AS tensor_active_ratio_sum,
    min(toFloat64(tensor_active_ratio)) AS tensor_active_ratio_min,
    max(toFloat64(tensor_active_ratio)) AS tensor_active_ratio_max,
    count(dram_active_ratio) AS dram_active_ratio_count,
    sum(toFloat64(ifNull(dram_active_ratio, 0))) AS dram_active_ratio_sum,
    min(toFloat64(dram_active_ratio)) AS dram_active_ratio_min,
    max(toFloat64(dram_active_ratio)) AS dram_active_ratio_max,
    count(memory_used_bytes) AS memory_used_bytes_count,
    sum(toFloat64(ifNull(memory_used_bytes, 0))) AS memory_used_bytes_sum,
    min(toFloat64(memory_used_bytes)) AS memory_used_bytes_min,
    max(toFloat64(memory_used_bytes)) AS memory_used_bytes_max,
    count(power_watts) AS power_watts_count,
    sum(toFloat64(ifNull(power_watts, 0))) AS power_watts_sum,
    min(toFloat64(power_watts)) AS power_watts_min,
    max(toFloat64(power_watts)) AS power_watts_max
FROM gpu_samples_feed AS sample
GROUP BY ts_ns, host, gpu_index, gpu_uuid;

-- The newest sample of each GPU. One from a clock that is ahead was heard now, else it would stand
-- here until the others have caught up.
DROP TABLE IF EXISTS gpu_latest_view $on_cluster SYNC;
DROP TABLE IF EXISTS gpu_newest_view $on_cluster SYNC;
DROP TABLE IF EXISTS gpu_latest_new $on_cluster SYNC;

CREATE TABLE gpu_latest_new $on_cluster (
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    gpu_index Int64,
    model LowCardinality(String),
    ts_ns DateTime64(9, 'UTC'),
    utilization_ratio Nullable(Decimal(9, 4)),
    memory_used_bytes Nullable(Int64),
    memory_total_bytes Nullable(Int64),
    sm_active_ratio Nullable(Decimal(9, 4)),
    tensor_active_ratio Nullable(Decimal(9, 4)),
    power_watts Nullable(Decimal(9, 1)),
    temperature_celsius Nullable(Decimal(9, 1)),
    parent_uuid LowCardinality(String),
    mig_profile LowCardinality(String)
) ENGINE = ${replicated}ReplacingMergeTree(ts_ns)
ORDER BY (gpu_uuid, host)
SETTINGS $deduplication_window = 10000
AS SELECT * REPLACE (least(ts_ns, now64(9, 'UTC')) AS ts_ns) FROM gpu_latest;

EXCHANGE TABLES gpu_latest AND gpu_latest_new $on_cluster;
DROP TABLE IF EXISTS gpu_latest_new $on_cluster SYNC;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_newest_view $on_cluster TO gpu_latest AS
SELECT
    host,
    gpu_uuid,
    gpu_index,
    model,
    least(sample.ts_ns, now64(9, 'UTC')) AS ts_ns,
    utilization_ratio,
    memory_used_bytes,
    memory_total_bytes,
    sm_active_ratio,
    tensor_active_ratio,
    power_watts,
    temperature_celsius,
    parent_uuid,
    mig_profile
FROM gpu_samples AS sample;
