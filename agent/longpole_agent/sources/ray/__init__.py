"""Ray on this node: its workers by their titles, what they hold, and its object store."""
