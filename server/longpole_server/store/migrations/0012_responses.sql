-- How long the answers of a step are: what its gen is compared by.
ALTER TABLE steps $on_cluster
    ADD COLUMN IF NOT EXISTS tokens_response Nullable(Int64) CODEC(ZSTD(1)) AFTER tokens_total,
    ADD COLUMN IF NOT EXISTS response_length_mean Nullable(Float64) CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS response_length_max Nullable(Float64) CODEC(ZSTD(1));
