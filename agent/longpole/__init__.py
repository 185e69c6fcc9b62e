"""Longpole: find what an RL training loop is waiting for."""

from longpole._version import __version__

__all__ = ["__version__"]
