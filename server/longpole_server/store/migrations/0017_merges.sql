-- Spans are merged column by column: the key decides what replaces what, and maps of attributes are
-- not carried along with it row by row.
ALTER TABLE otel_traces $on_cluster
    MODIFY SETTING vertical_merge_algorithm_min_rows_to_activate = 1;
