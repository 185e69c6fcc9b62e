-- By how many seconds a node's clock is ahead of the server's, as its agent found.
ALTER TABLE host_samples $on_cluster
    ADD COLUMN IF NOT EXISTS clock_offset_s Nullable(Decimal(18, 3)) CODEC(ZSTD(1));
