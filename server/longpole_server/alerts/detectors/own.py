"""The server itself: is it losing data, is its disk filling up."""

from dataclasses import dataclass

from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.alerts.wording import format_number, format_seconds


@dataclass(frozen=True, slots=True)
class IngestDropping:
    """The server refuses or loses what senders send."""

    fire: float = 0.0
    clear: float = 0.0
    unit: str = "requests"
    reads: tuple[str, ...] = ("longpole_ingest_refused_requests", "longpole_ingest_lost_requests")

    def judge(self, history: History) -> Judgement:
        """Judge the last minutes."""
        own = history.own
        if own is None:
            return not_judgeable("the server's own counters belong to the present", self.unit)
        words = {
            "window": format_seconds(own.dropped_window_s),
            "pending": f"{own.num_pending:,}",
        }
        return compare(float(own.num_dropped), self.fire, self.clear, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class DiskFilling:
    """The file system of the data directory is nearly full."""

    fire: float = 0.90
    clear: float = 0.85
    unit: str = "ratio"
    reads: tuple[str, ...] = ("used part of the data directory's file system",)

    def judge(self, history: History) -> Judgement:
        """Judge now."""
        own = history.own
        if own is None or own.disk_used_ratio is None:
            return not_judgeable("the size of the disk is not known", self.unit)
        words = {"free": format_number(own.disk_free_bytes, "bytes")}
        return compare(own.disk_used_ratio, self.fire, self.clear, self.unit, words=words)
