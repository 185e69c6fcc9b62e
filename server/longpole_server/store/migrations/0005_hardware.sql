-- What nodes and GPUs report. They know hardware, not runs: time and `run_gpus` join the two.

-- Fractions, watts, degrees and joules are decimals as fine as the instrument reads: exact on the
-- way back, and half the size of floats. The raw time stays out of the primary key, where it would
-- keep the ten-minute bucket from pruning.
CREATE TABLE IF NOT EXISTS gpu_samples $on_cluster (
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    gpu_index Int64 CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    model LowCardinality(String),
    utilization_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    memory_used_bytes Nullable(Int64) CODEC(ZSTD(1)),
    memory_total_bytes Nullable(Int64) CODEC(ZSTD(1)),
    sm_active_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    tensor_active_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    dram_active_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    power_watts Nullable(Decimal(9, 1)) CODEC(T64, ZSTD(1)),
    energy_joules Nullable(Decimal(18, 3)) CODEC(Delta(8), ZSTD(1)),
    temperature_celsius Nullable(Decimal(9, 1)) CODEC(T64, ZSTD(1)),
    sm_clock_hz Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    clocks_event_reasons Nullable(Int64) CODEC(ZSTD(1)),
    nvlink_rx_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    nvlink_tx_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    pcie_rx_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    pcie_tx_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1))
) ENGINE = ${replicated}MergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfTenMinutes(ts_ns), host, gpu_index)
ORDER BY (toStartOfTenMinutes(ts_ns), host, gpu_index, gpu_uuid, ts_ns)
SETTINGS $deduplication_window = 10000;

-- Rollups. A row may still be split over several parts: readers add up counts and sums.
CREATE TABLE IF NOT EXISTS gpu_samples_10s $on_cluster (
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    host LowCardinality(String),
    gpu_index Int64 CODEC(ZSTD(1)),
    gpu_uuid LowCardinality(String),
    utilization_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    utilization_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    utilization_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    utilization_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    sm_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    sm_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    sm_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    sm_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    tensor_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    tensor_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    tensor_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    tensor_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    dram_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    dram_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    dram_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    dram_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    memory_used_bytes_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    memory_used_bytes_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    memory_used_bytes_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    memory_used_bytes_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    power_watts_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    power_watts_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    power_watts_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    power_watts_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1))
) ENGINE = ${replicated}AggregatingMergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfHour(ts_ns), host, gpu_index)
ORDER BY (toStartOfHour(ts_ns), host, gpu_index, gpu_uuid, ts_ns)
SETTINGS $deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_samples_10s_view $on_cluster TO gpu_samples_10s AS
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
FROM gpu_samples AS sample
GROUP BY ts_ns, host, gpu_index, gpu_uuid;

CREATE TABLE IF NOT EXISTS gpu_samples_60s $on_cluster (
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    host LowCardinality(String),
    gpu_index Int64 CODEC(ZSTD(1)),
    gpu_uuid LowCardinality(String),
    utilization_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    utilization_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    utilization_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    utilization_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    sm_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    sm_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    sm_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    sm_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    tensor_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    tensor_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    tensor_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    tensor_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    dram_active_ratio_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    dram_active_ratio_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    dram_active_ratio_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    dram_active_ratio_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    memory_used_bytes_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    memory_used_bytes_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    memory_used_bytes_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    memory_used_bytes_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1)),
    power_watts_count SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    power_watts_sum SimpleAggregateFunction(sum, Float64) CODEC(ZSTD(1)),
    power_watts_min SimpleAggregateFunction(min, Nullable(Float64)) CODEC(ZSTD(1)),
    power_watts_max SimpleAggregateFunction(max, Nullable(Float64)) CODEC(ZSTD(1))
) ENGINE = ${replicated}AggregatingMergeTree
PARTITION BY toYYYYMM(ts_ns)
PRIMARY KEY (toStartOfDay(ts_ns), host, gpu_index)
ORDER BY (toStartOfDay(ts_ns), host, gpu_index, gpu_uuid, ts_ns)
SETTINGS $deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_samples_60s_view $on_cluster TO gpu_samples_60s AS
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
FROM gpu_samples AS sample
GROUP BY ts_ns, host, gpu_index, gpu_uuid;

-- The newest sample of each GPU.
CREATE TABLE IF NOT EXISTS gpu_latest $on_cluster (
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
    temperature_celsius Nullable(Decimal(9, 1))
) ENGINE = ${replicated}ReplacingMergeTree(ts_ns)
ORDER BY (gpu_uuid, host)
SETTINGS $deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS gpu_latest_view $on_cluster TO gpu_latest AS
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
    temperature_celsius
FROM gpu_samples;

-- Which process holds memory on which GPU.
CREATE TABLE IF NOT EXISTS gpu_processes $on_cluster (
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    pid Int64 CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    memory_bytes Nullable(Int64) CODEC(ZSTD(1))
) ENGINE = ${replicated}MergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfTenMinutes(ts_ns), host, gpu_uuid, pid)
ORDER BY (toStartOfTenMinutes(ts_ns), host, gpu_uuid, pid, ts_ns)
SETTINGS $deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS host_samples $on_cluster (
    host LowCardinality(String),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    cpu_utilization_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    memory_used_bytes Nullable(Int64) CODEC(ZSTD(1)),
    memory_total_bytes Nullable(Int64) CODEC(ZSTD(1)),
    network_receive_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1)),
    network_transmit_bytes_per_s Nullable(Decimal(18, 0)) CODEC(ZSTD(1))
) ENGINE = ${replicated}MergeTree
PARTITION BY toDate(ts_ns)
PRIMARY KEY (toStartOfHour(ts_ns), host)
ORDER BY (toStartOfHour(ts_ns), host, ts_ns)
SETTINGS $deduplication_window = 10000;
