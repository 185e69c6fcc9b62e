"""Steps, stages and sync phases: windows that are open while a `with` block runs."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, TypeVar

from longpole.conventions import attributes as names
from longpole.values import AttributeValue

W = TypeVar("W", bound="Window")


class Keeper(Protocol):
    """Who opens and closes windows; see `longpole.window_registry.WindowRegistry`."""

    def open(self, window: "Window") -> None:
        """Start the window. Never raises."""
        ...

    def close(self, window: "Window", error: BaseException | None) -> None:
        """End the window. Never raises."""
        ...

    def set_attributes(self, window: "Window", attributes: Mapping[str, object]) -> None:
        """Set numbers on the open window. Never raises."""
        ...


class Window:
    """A window of time; a span while it is open.

    Attributes:
        keeper: Opens and closes it; None for windows that record nothing.
        span_name: Name of the span.
        stage: What `rl.stage.start` announces; None for windows that are not announced.
        attributes: Attributes of the span, without the iteration.
        asked_iteration: The step the caller named, if any.
        iteration: The step it belongs to while open, None when nobody knows.
        is_open: Whether it was entered and not left.
        trace_id: Of the open window; empty for one that is not sent.
        span_id: Of the open window; empty for one that is not sent.
        parent_span_id: Of the window around it; empty for roots.
        said: Attributes of the open window, with its iteration and what was set meanwhile.
        outer: The window around it.
        start_ns: Wall clock at entry, UTC nanoseconds.
        entered_ns: Monotonic clock at entry: durations do not jump with the wall clock.
        next_announcement_ns: Monotonic time of the next heartbeat.
    """

    __slots__ = (
        "asked_iteration",
        "attributes",
        "entered_ns",
        "is_open",
        "iteration",
        "keeper",
        "next_announcement_ns",
        "outer",
        "parent_span_id",
        "said",
        "span_id",
        "span_name",
        "stage",
        "start_ns",
        "trace_id",
    )

    def __init__(
        self,
        keeper: Keeper | None,
        span_name: str,
        stage: str | None,
        asked_iteration: int | None,
        attributes: Mapping[str, AttributeValue],
    ) -> None:
        self.keeper = keeper
        self.span_name = span_name
        self.stage = stage
        self.attributes = attributes
        self.asked_iteration = asked_iteration
        self.iteration: int | None = None
        self.is_open = False
        self.outer: Window | None = None
        self.trace_id = self.span_id = self.parent_span_id = b""
        self.said: dict[str, AttributeValue] = {}
        self.start_ns = self.entered_ns = self.next_announcement_ns = 0

    def __enter__(self: W) -> W:
        if self.keeper is not None:
            self.keeper.open(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.is_open and self.keeper is not None:
            self.keeper.close(self, error)

    def _set(self, attributes: Mapping[str, object]) -> None:
        if self.keeper is not None:
            self.keeper.set_attributes(self, attributes)


class StepWindow(Window):
    """One training step. Made by `longpole.step`."""

    __slots__ = ()

    def set(
        self,
        *,
        tokens_total: int | None = None,
        tokens_prompt: int | None = None,
        tokens_response: int | None = None,
    ) -> None:
        """Say how many tokens the step trained on; None leaves a number unsaid."""
        self._set(
            {
                names.TOKENS_TOTAL: tokens_total,
                names.TOKENS_PROMPT: tokens_prompt,
                names.TOKENS_RESPONSE: tokens_response,
            }
        )


class StageWindow(Window):
    """A stage or a phase of a weight sync. Made by `longpole.stage` and `longpole.sync_phase`."""

    __slots__ = ()

    def set(
        self,
        *,
        bytes: int | None = None,  # noqa: A002 - the public word for it
        delta_ratio: float | None = None,
    ) -> None:
        """Say what a weight sync moved: bytes, and the ratio of weights that changed (0..1)."""
        self._set({names.SYNC_BYTES: bytes, names.SYNC_DELTA_RATIO: delta_ratio})


# What the calls return when there is nothing to record.
INERT_STEP = StepWindow(None, "", None, None, {})
INERT_STAGE = StageWindow(None, "", None, None, {})
