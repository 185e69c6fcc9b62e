-- What drivers and agents say of trouble.

-- An error that the driver reported at this moment, and memory errors since boot that could not be
-- corrected.
ALTER TABLE gpu_samples $on_cluster
    ADD COLUMN IF NOT EXISTS xid Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS ecc_uncorrected_errors Nullable(Int64) CODEC(ZSTD(1));

-- How the agent of a node does.
ALTER TABLE host_samples $on_cluster
    ADD COLUMN IF NOT EXISTS spool_used_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS agent_dropped_total Nullable(Int64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS disk_used_ratio Nullable(Decimal(9, 4)) CODEC(T64, ZSTD(1));
