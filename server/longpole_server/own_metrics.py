"""The server's own figures, for Prometheus."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from longpole.spool import Spool
from longpole_server.api.own_state import OwnMetric
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.read.pool import ClientPool
from longpole_server.service.alert_desk import AlertDesk
from longpole_server.service.closing import StepCloser
from longpole_server.service.following import Follower
from longpole_server.service.gpu_joining import GpuJoiner
from longpole_server.service.serial_writer import SerialWriter


def collect_ingest_metrics(
    pipeline: Pipeline,
    normalizer: Normalizer,
    closer: StepCloser,
    joiner: GpuJoiner,
    spool: Spool,
    writer: SerialWriter,
) -> list[OwnMetric]:
    """Return figures of what comes in and what is derived of it."""
    ingest, closing = pipeline.stats, closer.stats
    counters = {
        "ingest_accepted_requests": ("OTLP requests made durable", ingest.num_accepted),
        "ingest_duplicate_requests": ("requests known by batch id", ingest.num_duplicates),
        "ingest_refused_requests": ("requests refused when full", ingest.num_refused),
        "ingest_over_share_requests": (
            "requests refused because their sender held its share of the journal",
            ingest.num_over_share,
        ),
        "ingest_lost_requests": ("requests left out after a defect", ingest.num_lost_requests),
        "ingest_known_elsewhere": (
            "requests that another server had stored",
            ingest.num_known_elsewhere,
        ),
        "ingest_known_samples": (
            "samples of GPUs and nodes that were stored already",
            writer.num_left_out,
        ),
        "ingest_refused_spans": (
            "spans of runs whose times make no window",
            normalizer.stats.num_refused,
        ),
        "ingest_redactions": (
            "secrets and addresses replaced in text of prompts, responses and errors",
            normalizer.stats.num_redacted,
        ),
        "ingest_batches": ("batches written", ingest.num_batches),
        "ingest_records": ("records written", ingest.num_records),
        "ingest_write_failures": ("writes that failed and are repeated", ingest.num_write_failures),
        "steps_derived": ("times a step was derived", closing.num_derived),
        "steps_failed": ("times deriving a step failed", closing.num_failed),
        "gpu_join_failures": ("times joining GPUs failed", joiner.num_failed),
    }
    gauges = {
        "ingest_pending_requests": ("durable requests not stored yet", ingest.num_pending),
        "ingest_lag_seconds": (
            "for how long what is stored next has been waiting, 0 while nothing waits",
            ingest.lag_s,
        ),
        "steps_waiting": ("steps that wait to be derived", closing.num_waiting),
        "journal_bytes": ("bytes of the journal", spool.num_bytes),
        "journal_max_bytes": ("bound of the journal", spool.max_bytes),
    }
    return [
        *(
            OwnMetric(f"longpole_{name}_total", "counter", text, value)
            for name, (text, value) in counters.items()
        ),
        *(
            OwnMetric(f"longpole_{name}", "gauge", text, value)
            for name, (text, value) in gauges.items()
        ),
    ]


def collect_read_metrics(pools: Sequence[ClientPool]) -> list[OwnMetric]:
    """Return figures of queries."""
    stats = [pool.stats for pool in pools]
    return [
        OwnMetric(
            "longpole_reads_given_up_total",
            "counter",
            "queries for pages, API and alerts that were waited for no longer",
            sum(each.num_given_up for each in stats),
        ),
        OwnMetric(
            "longpole_reads_overdue",
            "gauge",
            "those of them that still run",
            sum(each.num_overdue for each in stats),
        ),
    ]


def collect_alert_metrics(desk: AlertDesk) -> list[OwnMetric]:
    """Return figures of judging and telling."""
    judging, book = desk.evaluator.stats, desk.book.stats
    channels = desk.deliverer.list_channels()
    counters = {
        "alert_rounds": ("rounds in which rules were judged by time", judging.num_rounds),
        "alert_failures": ("times judging rules failed", judging.num_failed),
        "alert_detector_failures": ("times a detector failed", book.num_detector_failures),
        "alert_events": ("transitions of alerts stored", book.num_events),
        "alert_events_lost": ("transitions given up, the store did not take them", book.num_lost),
        "alert_messages_delivered": (
            "messages that a channel confirmed",
            sum(channel.num_delivered for channel in channels),
        ),
        "alert_messages_failed": (
            "messages given up",
            sum(channel.num_failed for channel in channels),
        ),
    }
    gauges = {
        "alert_age_seconds": ("time since rules were judged", judging.age_s),
        "alert_round_seconds": ("how long the last round took", judging.round_s),
        "alerts_firing": ("alerts that are firing", desk.book.count_firing()),
        "alert_events_waiting": ("transitions that wait for the store", book.num_unwritten),
        "alert_messages_waiting": (
            "messages that no channel has confirmed yet",
            sum(channel.num_waiting for channel in channels),
        ),
    }
    return [
        *(
            OwnMetric(f"longpole_{name}_total", "counter", text, value)
            for name, (text, value) in counters.items()
        ),
        *(
            OwnMetric(f"longpole_{name}", "gauge", text, value)
            for name, (text, value) in gauges.items()
        ),
    ]


def collect_disk_metrics(data_dir: Path) -> list[OwnMetric]:
    """Return figures of the disk, none where it does not tell."""
    try:
        disk = shutil.disk_usage(data_dir)
    except OSError:
        return []
    return [
        OwnMetric("longpole_disk_free_bytes", "gauge", "room for the data directory", disk.free),
        OwnMetric(
            "longpole_disk_size_bytes", "gauge", "the file system it lies on", disk.used + disk.free
        ),
    ]


def collect_follower_metrics(follower: Follower) -> list[OwnMetric]:
    """Return how a server that only shows fares with the one that writes."""
    return [
        OwnMetric(
            "longpole_writer_away_seconds",
            "gauge",
            "time since the server that takes data answered, 0 while it does",
            follower.away_s,
        ),
        OwnMetric(
            "longpole_writer_lag_seconds",
            "gauge",
            "how far that server was behind with what it takes, as it said last",
            follower.lag_s,
        ),
        OwnMetric(
            "longpole_writer_failures_total",
            "counter",
            "times it was asked for news and did not answer",
            follower.num_failed,
        ),
    ]
