"""What people's own SQL may do: read our tables with functions that only compute."""

from longpole_server.read.guard.guard import CheckedQuery, Guard

__all__ = ["CheckedQuery", "Guard"]
