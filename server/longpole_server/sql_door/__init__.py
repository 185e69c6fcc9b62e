"""The door for people's own tools: ClickHouse's HTTP protocol, read-only, at `/clickhouse/`."""

from longpole_server.sql_door.opening import QUERY_THREADS, open_sql_door

__all__ = ["QUERY_THREADS", "open_sql_door"]
