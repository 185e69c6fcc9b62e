"""What can be sampled: one file per source, all behind `source.Source`."""
