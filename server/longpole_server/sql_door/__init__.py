"""The door for people's own tools: ClickHouse's HTTP protocol, read-only, at `/clickhouse/`."""

from longpole_server.sql_door.opening import open_sql_door

__all__ = ["open_sql_door"]
