"""How far the server is behind, and what it says of nodes and of itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from longpole_server.cli.checks import Check, Server, describe_size, describe_span

# As in the alerts for Prometheus.
_MANY_WAITING = 2_000
_FULL_RATIO = 0.5
_MANY_STEPS = 200
_LONG_LAG_S = 60.0
# A server that only shows asks each second.
_LONG_AWAY_S = 5.0
# Counters that stand still at 0 while all is well, and what to read where they do not.
_LOSSES = {
    "longpole_ingest_refused_requests_total": (
        "requests were refused because the journal was full",
        "LongpoleIngestRefused",
    ),
    "longpole_ingest_lost_requests_total": (
        "accepted requests were left out after a defect",
        "LongpoleIngestLost",
    ),
    "longpole_ingest_over_share_requests_total": (
        "requests of senders over their share were told to come back",
        "LongpoleSenderOverShare",
    ),
    "longpole_ingest_refused_spans_total": (
        "spans were refused because their times make no window",
        "LongpoleSpansRefused",
    ),
    "longpole_ingest_write_failures_total": (
        "writes failed and were repeated",
        "LongpoleStoreFailing",
    ),
    "longpole_steps_failed_total": ("times deriving a step failed", "LongpoleStepsFailing"),
    "longpole_reads_given_up_total": (
        "queries of pages and API kept no limit of time and were given up",
        "LongpoleReadsGivenUp",
    ),
}
# Of the rules on trainings, those that are about nodes and about Longpole itself.
_RULES_OF_NODES = frozenset(
    {
        "gpu.lost", "gpu.xid", "node.silent", "clock.skew", "spool.filling", "disk.filling",
        "ingest.dropping",
    }
)  # fmt: skip
_MAX_ALERTS = 10


def measure_delay_s(figures: Mapping[str, float]) -> float:
    """Return how old may be what a server shows, by its own figures: 0 when it keeps up."""
    return max(
        figures.get("longpole_ingest_lag_seconds", 0.0),
        figures.get("longpole_writer_away_seconds", 0.0)
        + figures.get("longpole_writer_lag_seconds", 0.0),
    )


def examine_writer(figures: Mapping[str, float]) -> Iterator[Check]:
    """Look how a server that only shows fares with the one that takes data."""
    away_s = figures.get("longpole_writer_away_seconds", 0.0)
    lag_s = figures.get("longpole_writer_lag_seconds", 0.0)
    if away_s > _LONG_AWAY_S:
        yield Check(
            "bad",
            "writer",
            f"the server that takes data has not answered it for {describe_span(away_s)}: pages"
            " show what was stored before, and nothing can be acknowledged or silenced",
            "look at that server and at the way to it (--writer-url): LongpoleWriterAway in the"
            " runbook",
        )
    elif lag_s > _LONG_LAG_S:
        yield Check(
            "bad",
            "writer",
            f"the server that takes data is {describe_span(lag_s)} behind",
            "`longpole doctor --server` with that server's address says more",
        )
    else:
        yield Check("ok", "writer", "the server that takes data answers it and keeps up")


def examine_lag(figures: Mapping[str, float]) -> Iterator[Check]:
    """Look how much waits, and whether anything was lost."""
    lag_s = figures.get("longpole_ingest_lag_seconds", 0.0)
    pending = figures.get("longpole_ingest_pending_requests", 0.0)
    steps = figures.get("longpole_steps_waiting", 0.0)
    used = figures.get("longpole_journal_bytes", 0.0)
    most = figures.get("longpole_journal_max_bytes", 0.0)
    text = (
        f"{pending:.0f} requests wait for the store, {steps:.0f} steps for their ledger;"
        f" journal {describe_size(used)} of {describe_size(most)}"
    )
    if lag_s > _LONG_LAG_S:
        text = f"{describe_span(lag_s)} behind: {text}"
    if lag_s > _LONG_LAG_S or pending > _MANY_WAITING or used > _FULL_RATIO * most > 0:
        yield Check(
            "bad",
            "lag",
            text,
            "more arrives than the store takes: look at the server's CPU and its disk; after an"
            " outage it passes (LongpoleIngestLag in the runbook)",
        )
    elif steps > _MANY_STEPS:
        yield Check("note", "lag", text, "it passes; if not, the server lacks CPU")
    else:
        yield Check("ok", "lag", text)
    yield from _list_losses(figures)


def _list_losses(figures: Mapping[str, float]) -> Iterator[Check]:
    for name, (text, entry) in _LOSSES.items():
        count = figures.get(name, 0.0)
        if count > 0:
            yield Check(
                "note",
                "ingest",
                f"since the server started {count:,.0f} {text}",
                f"{entry} in the runbook",
            )


def examine_alerts(server: Server) -> Iterator[Check]:
    """Say what fires of nodes and of Longpole itself: remote agents tell by it how they are."""
    alerts: list[dict[str, Any]] = server.get("/alerts?state=firing")["alerts"]
    found = [alert for alert in alerts if alert["rule"] in _RULES_OF_NODES]
    for alert in found[:_MAX_ALERTS]:
        yield Check(
            "bad", "alert", f"{alert['rule']}: {alert['summary']}", str(alert["first_look"])
        )
    if len(found) > _MAX_ALERTS:
        yield Check("bad", "alert", f"{len(found) - _MAX_ALERTS} more: the page Alerts has them")
    if not found:
        yield Check("ok", "alerts", "nothing fires of nodes and of Longpole itself")
