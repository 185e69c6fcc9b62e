"""From OTLP requests to records in the store.

`http` and `grpc` receive, `pipeline` makes requests durable and hands them in frozen ranges to
`normalize`, whose records the store writes.
"""
