"""A session: everything one process records between `init` and `shutdown`, wired together."""

import os
from collections.abc import Mapping
from functools import partial

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole.buffers import Buffer
from longpole.clock import Clock
from longpole.complaints import Complaints
from longpole.conventions import attributes as names
from longpole.delivery import Delivery
from longpole.events import Event, encode_events
from longpole.http_post import HttpPost
from longpole.identity import Declaration, build_resource, read_process_start_ns
from longpole.otlp import build_scope, encode_resource
from longpole.points import Point, encode_points
from longpole.redaction import flatten_config
from longpole.sender import Channel, Deliverer, Sender
from longpole.settings import Settings
from longpole.spans import WindowSpan, encode_windows
from longpole.stats import Stats
from longpole.trajectories import encode_trajectories, weigh_parts
from longpole.values import AttributeValue
from longpole.window_registry import WindowRegistry
from longpole.windows import Window

# Bounds of the buffers. They hold a burst of 8,192 samples with 20 parts each, and some hundred
# steps of an ordinary run while a receiver is away.
_MAX_SPANS = 8_192
_MAX_EVENTS = 8_192
_MAX_POINTS = 65_536
_MAX_TRAJECTORY_PARTS = 262_144


class Session:
    """Buffers, windows and sender of one process.

    The buffers take plain tuples, in the order of `trajectories.Trajectory` and `points.Point`:
    anything dearer would be made on the trainer's threads.

    Args:
        resource: Attributes of everything sent.
        delivery: Delivers request bodies, on the sender's thread.
        complaints: Counts misuse and trouble.
        clock: Wall and monotonic time.
        heartbeat_s: Seconds between announcements of an open step or stage.
        delay_s: How long records wait for company.
        follows_rank_0: Whether steps and logged values are left to rank 0.
    """

    def __init__(
        self,
        resource: Mapping[str, AttributeValue],
        delivery: Deliverer,
        complaints: Complaints,
        clock: Clock,
        heartbeat_s: float,
        delay_s: float,
        *,
        follows_rank_0: bool = False,
    ) -> None:
        self._clock = clock
        self._complaints = complaints
        self.sends_points = not follows_rank_0
        self.trajectories: Buffer[tuple[object, ...]] = Buffer(_MAX_TRAJECTORY_PARTS, weigh_parts)
        self.points: Buffer[Point] = Buffer(_MAX_POINTS)
        self._events: Buffer[Event] = Buffer(_MAX_EVENTS)
        self._spans: Buffer[WindowSpan] = Buffer(_MAX_SPANS)
        self.windows = WindowRegistry(
            self._spans.append,
            self._announce_window,
            complaints,
            clock,
            heartbeat_s,
            sends_steps=not follows_rank_0,
        )
        self._channels = self._build_channels(encode_resource(resource))
        self._sender = Sender(
            self._channels, delivery, self.windows.repeat_announcements, complaints, delay_s
        )

    def start(self) -> None:
        """Start sending."""
        self._sender.start()

    def announce_run(self, config: Mapping[str, object]) -> None:
        """Record that the run starts, with its settings."""
        event = Event(self._clock.wall_ns(), names.EVENT_RUN_START, flatten_config(config))
        self._events.append(event)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded so far is settled; returns whether all was accepted."""
        return self._sender.flush(timeout_s)

    def close(self, status: str | None, timeout_s: float) -> bool:
        """Stop recording and deliver what is left; returns whether all was accepted.

        Args:
            status: How the run ended; None when this process is not the one to say so.
            timeout_s: Bound of the whole call.
        """
        self.windows.abandon()
        if status is not None:
            event = Event(self._clock.wall_ns(), names.EVENT_RUN_END, {names.EVENT_STATUS: status})
            self._events.append(event)
        return self._sender.close(timeout_s)

    def abandon(self) -> None:
        """Forget everything, in a forked child: the parent sends it."""
        self.windows.abandon()

    def count(self) -> Stats:
        """Return the counts so far."""
        return Stats(
            sent={channel.kind: channel.num_sent for channel in self._channels},
            dropped={channel.kind: channel.num_dropped for channel in self._channels},
            skipped={channel.kind: channel.num_skipped for channel in self._channels},
            waiting={channel.kind: len(channel.buffer) for channel in self._channels},
            misused=self._complaints.count(),
        )

    def _build_channels(self, resource: Resource) -> tuple[Channel, ...]:
        scope = build_scope()
        points = partial(encode_points, resource=resource, scope=scope)
        events = partial(encode_events, resource=resource, scope=scope)
        windows = partial(encode_windows, resource=resource, scope=scope)
        trajectories = partial(encode_trajectories, resource=resource, scope=scope)
        return (
            Channel("events", "/v1/logs", self._events, events, 512),
            Channel("spans", "/v1/traces", self._spans, windows, 512),
            Channel("points", "/v1/metrics", self.points, points, 2048),
            Channel("trajectories", "/v1/traces", self.trajectories, trajectories, 256),
        )

    def _announce_window(self, window: Window, now_ns: int) -> None:
        event = Event(
            now_ns,
            names.EVENT_STAGE_START,
            {
                names.ITERATION: window.iteration,
                names.STAGE: window.stage,
                names.EVENT_START_NS: window.start_ns,
            },
            window.trace_id,
            window.span_id,
        )
        self._events.append(event)


def open_session(
    declaration: Declaration, settings: Settings, environ: Mapping[str, str], complaints: Complaints
) -> Session:
    """Build the session of this process, with the real clock and receiver; does not start it."""
    clock = Clock()
    pid = os.getpid()
    resource = build_resource(declaration, environ, pid, read_process_start_ns(pid, clock))
    delivery = Delivery(HttpPost(settings), settings.read_token, complaints, clock)
    return Session(
        resource,
        delivery,
        complaints,
        clock,
        settings.heartbeat_s,
        settings.delay_s,
        follows_rank_0=declaration.follows_rank_0,
    )
