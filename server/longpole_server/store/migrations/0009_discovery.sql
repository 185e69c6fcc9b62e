-- Prometheus pages that trainers and engines registered: the newest registration of a page is the
-- valid one. `host` and `sender_address` are part of a page's identity, since a loopback address
-- means another page on every node.
CREATE TABLE IF NOT EXISTS scrape_targets $on_cluster (
    job_name String,
    target String,
    host String,
    sender_address String,
    seen_ns DateTime64(9, 'UTC'),
    labels Map(String, String)
) ENGINE = ${replicated}ReplacingMergeTree(seen_ns)
ORDER BY (job_name, target, host, sender_address)
SETTINGS $deduplication_window = 10000;
