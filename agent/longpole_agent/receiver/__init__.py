"""OTLP over HTTP and gRPC: requests are kept as they came, and answered once they are durable."""
