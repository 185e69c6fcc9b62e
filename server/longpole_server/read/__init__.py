"""Typed queries on the store. SQL never leaves this package."""

from longpole_server.read.reader import AttemptRow, Reader, open_reader

__all__ = ["AttemptRow", "Reader", "open_reader"]
