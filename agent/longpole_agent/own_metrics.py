"""The agent's own figures, for a Prometheus that scrapes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from longpole import __version__
from longpole.spool import Spool
from longpole_agent.counters import Counters
from longpole_agent.forward import Forwarder
from longpole_agent.receiver.metrics_page import OwnMetric
from longpole_agent.sampler import Sampler


class Gpus(Protocol):
    """What is known of the node's GPUs."""

    @property
    def num_gpus(self) -> int:
        """How many answer."""
        ...

    @property
    def num_lost(self) -> int:
        """How many have answered and do not any more."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the figures are read from.

    Attributes:
        gpus: None where no GPUs are looked for.
    """

    spool: Spool
    spool_max_bytes: int
    counters: Counters
    forwarder: Forwarder
    sampler: Sampler
    gpus: Gpus | None


def collect_metrics(parts: Parts) -> Iterator[OwnMetric]:
    """Return the agent's figures as they are now."""
    spool, counters = parts.spool, parts.counters
    yield OwnMetric(
        "longpole_agent_build_info", "gauge", "1, with the version", [(__version__, 1)], "version"
    )
    for name, text, value in (
        ("received_requests", "requests of trainers made durable", counters.received),
        ("forwarded_batches", "batches that the server has", counters.forwarded),
        ("rejected_batches", "batches that the server refused for good", counters.rejected),
        ("unstored_batches", "own batches that the spool could not take", counters.unstored),
        ("missed_ticks", "samples that were not taken in time", counters.missed_ticks),
        ("spool_dropped_records", "records dropped: the spool was full, or they were too old",
         spool.num_dropped),
        ("spool_damaged_records", "records that the disk did not give back", spool.num_damaged),
    ):  # fmt: skip
        yield OwnMetric(f"longpole_agent_{name}_total", "counter", text, [("", value)])
    for name, text, value in (
        ("spool_records", "records that wait for the server", spool.num_pending),
        ("spool_bytes", "bytes of the spool", spool.num_bytes),
        ("spool_max_bytes", "bound of the spool", parts.spool_max_bytes),
        ("delivery_trouble", "1 while nothing reaches the server", bool(parts.forwarder.trouble)),
    ):
        yield OwnMetric(f"longpole_agent_{name}", "gauge", text, [("", value)])
    states = parts.sampler.states
    yield OwnMetric(
        "longpole_agent_source_failing", "gauge", "1 while a source of samples fails",
        [(state.name, bool(state.error)) for state in states], "source",
    )  # fmt: skip
    if parts.gpus is not None:
        yield OwnMetric(
            "longpole_agent_gpus", "gauge", "GPUs that answer", [("", parts.gpus.num_gpus)]
        )
        yield OwnMetric(
            "longpole_agent_gpus_lost", "gauge", "GPUs that answered and do not any more",
            [("", parts.gpus.num_lost)],
        )  # fmt: skip
