"""Types shared by all parts of the server and by the dashboards. No input or output here."""
