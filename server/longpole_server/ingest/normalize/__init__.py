"""OTLP requests to `Records`: which run and attempt a fact belongs to, and what it says.

The names of other systems come from the alias tables in `longpole.conventions`. What cannot be
read is counted and skipped, what means nothing here stays in the raw spans alone.
"""

from longpole_server.ingest.normalize.attempts import KnownAttempt
from longpole_server.ingest.normalize.normalizer import Normalizer, NormalizerStats

__all__ = ["KnownAttempt", "Normalizer", "NormalizerStats"]
