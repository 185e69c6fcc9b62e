-- Of several servers on one database one writes. A term is its right to, from when it was taken to
-- when the next one is; the first row with a term's insert token has it. Times are the database's.
CREATE TABLE IF NOT EXISTS writer_terms $on_cluster (
    number UInt64,
    holder String,
    released Bool,
    renewed_ns DateTime64(9, 'UTC') DEFAULT now64(9, 'UTC')
) ENGINE = ${replicated}ReplacingMergeTree(renewed_ns)
ORDER BY (number, released)
SETTINGS $deduplication_window = 10000;

-- Which insert stores the batch of an id, written before its rows: an id that comes to another
-- server again is known there.
CREATE TABLE IF NOT EXISTS stored_batches $on_cluster (
    batch_id String CODEC(ZSTD(1)),
    token String CODEC(ZSTD(1)),
    stored_ns DateTime64(9, 'UTC') DEFAULT now64(9, 'UTC') CODEC(Delta(8), ZSTD(1))
) ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(stored_ns)
ORDER BY batch_id
SETTINGS $deduplication_window = 10000;
