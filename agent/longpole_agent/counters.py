"""What the agent counts about itself."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the start of the agent. Each is written by one thread only.

    Attributes:
        received: Requests of trainers that were made durable.
        forwarded: Batches the server has.
        rejected: Batches the server refused for good; they are gone.
        unstored: Own batches the spool could not take (disk full); they are gone.
        missed_ticks: Samples not taken because a source was late, or the machine was.
        clock_ahead_s: By how much this machine's clock is ahead of the server's, None before the
            server said its time.
    """

    received: int = 0
    forwarded: int = 0
    rejected: int = 0
    unstored: int = 0
    missed_ticks: int = 0
    clock_ahead_s: float | None = None
