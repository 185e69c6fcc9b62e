-- Runs, their attempts, and who takes part. Columns are named like the fields of the records they
-- come from; NULL is "not reported"; `_ns` are UTC nanoseconds.

-- An announced start replaces one inferred from data.
CREATE TABLE IF NOT EXISTS run_starts $on_cluster (
    run_id String,
    attempt Int64,
    started_ns DateTime64(9, 'UTC'),
    name Nullable(String),
    project Nullable(String),
    system LowCardinality(Nullable(String)),
    system_version LowCardinality(Nullable(String)),
    algorithm LowCardinality(Nullable(String)),
    mode LowCardinality(Nullable(String)),
    model_name Nullable(String),
    model_config Nullable(String),
    gpu_count Nullable(Int64),
    staleness_bound Nullable(Float64),
    staleness_basis LowCardinality(Nullable(String)),
    host Nullable(String),
    pid Nullable(Int64),
    process_start_ns Nullable(DateTime64(9, 'UTC')),
    config Map(LowCardinality(String), String),
    declared Bool,
    imported Bool,
    time_estimated Bool,
    notes Array(String)
) ENGINE = ${replicated}ReplacingMergeTree(declared)
ORDER BY (run_id, attempt)
SETTINGS $deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS run_ends $on_cluster (
    run_id String,
    attempt Int64,
    ended_ns DateTime64(9, 'UTC'),
    status LowCardinality(String)
) ENGINE = ${replicated}ReplacingMergeTree(ended_ns)
ORDER BY (run_id, attempt)
SETTINGS $deduplication_window = 10000;

-- The newest time in any fact of an attempt, to the second, so that nobody has to look through all
-- facts for it.
CREATE TABLE IF NOT EXISTS run_activity $on_cluster (
    run_id String,
    attempt Int64,
    last_seen_ns SimpleAggregateFunction(max, DateTime64(9, 'UTC'))
) ENGINE = ${replicated}AggregatingMergeTree
ORDER BY (run_id, attempt)
SETTINGS $deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS processes $on_cluster (
    run_id String,
    attempt Int64,
    host LowCardinality(String),
    pid Int64,
    role LowCardinality(String),
    seen_ns DateTime64(9, 'UTC'),
    gpu_ids Array(String),
    instance Nullable(String),
    service LowCardinality(Nullable(String)),
    scope LowCardinality(Nullable(String))
) ENGINE = ${replicated}ReplacingMergeTree(seen_ns)
ORDER BY (run_id, attempt, host, pid, role, ifNull(instance, ''))
SETTINGS $deduplication_window = 10000;

-- Which run holds which GPU. The last row written for a key is the valid one.
CREATE TABLE IF NOT EXISTS run_gpus $on_cluster (
    run_id String,
    attempt Int64,
    host LowCardinality(String),
    gpu_uuid LowCardinality(String),
    gpu_index Int64,
    role LowCardinality(String),
    since_ns DateTime64(9, 'UTC'),
    until_ns Nullable(DateTime64(9, 'UTC')),
    how LowCardinality(String),
    model LowCardinality(String)
) ENGINE = ${replicated}ReplacingMergeTree
ORDER BY (run_id, attempt, gpu_uuid, since_ns)
SETTINGS $deduplication_window = 10000;
