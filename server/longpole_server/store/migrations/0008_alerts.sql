-- Alerts: what happened to each, who is told, and what keeps it from them.

-- Every transition; the state of an alert is what its events add up to. `evidence` is JSON.
CREATE TABLE IF NOT EXISTS alert_events $on_cluster (
    event_id String CODEC(ZSTD(1)),
    alert_id String CODEC(ZSTD(1)),
    kind LowCardinality(String),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    decided_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    rule LowCardinality(String),
    severity LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    run_name String CODEC(ZSTD(1)),
    project String CODEC(ZSTD(1)),
    entity_kind LowCardinality(String),
    entity_id String CODEC(ZSTD(1)),
    started_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    started_step Nullable(Int64) CODEC(ZSTD(1)),
    fired_ns Nullable(DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    step Nullable(Int64) CODEC(ZSTD(1)),
    count Int64 CODEC(ZSTD(1)),
    value Nullable(Float64) CODEC(ZSTD(1)),
    threshold Nullable(Float64) CODEC(ZSTD(1)),
    baseline Nullable(Float64) CODEC(ZSTD(1)),
    unit LowCardinality(String),
    summary String CODEC(ZSTD(1)),
    cause String CODEC(ZSTD(1)),
    first_look String CODEC(ZSTD(1)),
    evidence String CODEC(ZSTD(1)),
    notify Bool,
    silence_id String CODEC(ZSTD(1)),
    author String CODEC(ZSTD(1)),
    comment String CODEC(ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(decided_ns)
ORDER BY (decided_ns, alert_id, event_id)
SETTINGS $deduplication_window = 10000;

-- The highest version of a silence is the valid one; a lifted one ends when it was lifted.
CREATE TABLE IF NOT EXISTS alert_silences $on_cluster (
    silence_id String,
    rule Nullable(String),
    run_id Nullable(String),
    entity Nullable(String),
    author String,
    comment String,
    created_ns DateTime64(9, 'UTC'),
    ends_ns DateTime64(9, 'UTC'),
    version UInt64
) ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY silence_id
SETTINGS $deduplication_window = 10000;

-- Rules that users made, as JSON; empty once deleted.
CREATE TABLE IF NOT EXISTS alert_rules $on_cluster (
    rule_id String,
    document String,
    version UInt64
) ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY rule_id
SETTINGS $deduplication_window = 10000;

-- What people are told together: written before it is sent, so that it keeps its id.
CREATE TABLE IF NOT EXISTS alert_messages $on_cluster (
    message_id String,
    run_id String CODEC(ZSTD(1)),
    event_ids Array(String) CODEC(ZSTD(1)),
    channels Array(String) CODEC(ZSTD(1)),
    created_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(created_ns)
ORDER BY (created_ns, message_id)
SETTINGS $deduplication_window = 10000;

-- Every attempt to deliver one, and what the channel answered. `remote_id` names it over there.
CREATE TABLE IF NOT EXISTS alert_deliveries $on_cluster (
    message_id String CODEC(ZSTD(1)),
    channel LowCardinality(String),
    attempt Int64 CODEC(ZSTD(1)),
    outcome LowCardinality(String),
    error String CODEC(ZSTD(1)),
    remote_id String CODEC(ZSTD(1)),
    ts_ns DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    next_ns Nullable(DateTime64(9, 'UTC')) CODEC(ZSTD(1))
) ENGINE = ${replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(ts_ns)
ORDER BY (message_id, channel, attempt)
SETTINGS $deduplication_window = 10000;
