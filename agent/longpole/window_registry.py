"""All open windows of a process: where a new one belongs, and which are announced again."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Protocol

from opentelemetry.trace import INVALID_SPAN, Span

from longpole.clock import Clock
from longpole.complaints import Complaints
from longpole.conventions import attributes as names
from longpole.conventions import stages
from longpole.values import AttributeValue, to_iteration, to_number
from longpole.windows import INERT_STAGE, INERT_STEP, StageWindow, StepWindow, Window

_SPAN_OF_STAGE: Mapping[str, str] = MappingProxyType(
    {stage: span for span, stage in stages.STAGE_OF_SPAN.items()}
)
_MAX_ERROR_LENGTH = 200

# The innermost window of this thread or task; windows that ended meanwhile are looked past.
_innermost: ContextVar[Window | None] = ContextVar("longpole_window", default=None)


class Tracing(Protocol):
    """What windows need of the tracing library."""

    def start(
        self,
        name: str,
        parent: Span | None,
        attributes: Mapping[str, AttributeValue],
        start_ns: int,
    ) -> Span:
        """Start a span."""
        ...

    def end(self, span: Span, end_ns: int, error: str | None) -> None:
        """End a span."""
        ...


class WindowRegistry:
    """The windows of one process: opens and closes them, and announces those that stay open.

    Args:
        tracing: Starts and ends spans.
        announce: Called with a window and the wall time when it opens, then every `heartbeat_s`.
        complaints: Counts misuse.
        clock: Wall and monotonic time.
        heartbeat_s: Seconds between announcements of an open window.
        sends_steps: Whether steps are sent and announced; if not, they only say which step their
            stages and trajectories belong to.
    """

    def __init__(
        self,
        tracing: Tracing,
        announce: Callable[[Window, int], None],
        complaints: Complaints,
        clock: Clock,
        heartbeat_s: float,
        *,
        sends_steps: bool = True,
    ) -> None:
        self._tracing = tracing
        self._announce = announce
        self._complaints = complaints
        self._clock = clock
        self._heartbeat_ns = int(heartbeat_s * 1e9)
        self._sends_steps = sends_steps
        self._open: dict[int, Window] = {}
        self._last_iteration: int | None = None
        self._is_abandoned = False
        # What left the window that was closed last, until another one opens.
        self.leaving_error: BaseException | None = None
        self.open_step: StepWindow | None = None

    def build_step(self, iteration: object) -> StepWindow:
        """Return the window of a step; an inert one when `iteration` is no whole number."""
        number = to_iteration(iteration)
        if number is None:
            self._complaints.report(
                "invalid_step", "step(%r) is no whole number; not recorded", iteration
            )
            return INERT_STEP
        announced = names.STEP_STAGE if self._sends_steps else None
        return StepWindow(self, names.SPAN_LOOP, announced, number, {})

    def build_stage(
        self,
        name: object,
        iteration: object,
        method: object,
        num_bytes: object,
        delta_ratio: object,
    ) -> StageWindow:
        """Return the window of a stage; an inert one when `name` is no text."""
        if not isinstance(name, str) or not name:
            self._complaints.report(
                "invalid_stage", "a stage's name must be text, not %r; not recorded", name
            )
            return INERT_STAGE
        attributes: dict[str, AttributeValue] = {names.STAGE: name}
        if method is not None:
            attributes[names.SYNC_METHOD] = str(method)
        if num_bytes is not None or delta_ratio is not None:
            said = {names.SYNC_BYTES: num_bytes, names.SYNC_DELTA_RATIO: delta_ratio}
            attributes.update(self._select_numbers(said))
        span_name = _SPAN_OF_STAGE.get(stages.stage_of(name) or "", names.SPAN_STAGE)
        return StageWindow(self, span_name, name, to_iteration(iteration), attributes)

    def build_sync_phase(self, name: object) -> StageWindow:
        """Return the window of a phase of a weight sync."""
        if not isinstance(name, str) or not name:
            self._complaints.report(
                "invalid_stage", "a phase's name must be text, not %r; not recorded", name
            )
            return INERT_STAGE
        return StageWindow(self, names.SPAN_SYNC_PREFIX + name, None, None, {})

    def open(self, window: Window) -> None:
        """Start the window's span and announce it. Never raises."""
        if self._is_abandoned:
            return
        if window.span is not None:
            self._complaints.report("reentered", "a step or stage was entered twice at once")
            return
        try:
            self._open_window(window)
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            self._complaints.report("internal", "could not open %s: %r", window.span_name, error)

    def close(self, window: Window, error: BaseException | None) -> None:
        """End the window's span. Never raises."""
        span, window.span = window.span, None
        self._open.pop(id(window), None)
        self.leaving_error = error
        if span is None or self._is_abandoned:
            return
        try:
            self._restore(window)
            elapsed_ns = self._clock.monotonic_ns() - window.entered_ns
            self._tracing.end(span, window.start_ns + elapsed_ns, _describe_error(error))
        except Exception as failure:  # noqa: BLE001 - the trainer must not see any failure of ours
            self._complaints.report("internal", "could not close %s: %r", window.span_name, failure)

    def set_attributes(self, window: Window, attributes: Mapping[str, object]) -> None:
        """Set numbers on an open window. Never raises."""
        selected = self._select_numbers(attributes)
        if window.span is None:
            self._complaints.report("set_when_closed", "set() outside of its with block is lost")
            return
        for name, value in selected.items():
            window.span.set_attribute(name, value)

    def repeat_announcements(self) -> None:
        """Announce again what has been open for another heartbeat. Called by the sender."""
        now_ns = self._clock.monotonic_ns()
        for window in list(self._open.values()):
            if window.stage is not None and now_ns >= window.next_announcement_ns:
                window.next_announcement_ns = now_ns + self._heartbeat_ns
                self._announce(window, self._clock.wall_ns())

    def abandon(self) -> None:
        """Forget every window: the process was forked, or recording ended."""
        self._is_abandoned = True
        self._open = {}
        self.open_step = None

    def _open_window(self, window: Window) -> None:
        self.leaving_error = None
        around = self._find_outer()
        if isinstance(window, StepWindow):
            window.outer = self._end_nested(around, window)
            window.iteration = window.asked_iteration
            parent = None
        else:
            window.outer = around
            window.iteration, parent = self._place(window, around or self.open_step)
        attributes = dict(window.attributes)
        if window.iteration is not None:
            attributes[names.ITERATION] = window.iteration
        window.start_ns = self._clock.wall_ns()
        window.entered_ns = self._clock.monotonic_ns()
        window.next_announcement_ns = window.entered_ns + self._heartbeat_ns
        if self._sends_steps or not isinstance(window, StepWindow):
            window.span = self._tracing.start(window.span_name, parent, attributes, window.start_ns)
        else:
            # Open like any other, but sent nowhere, and what is inside gets no parent.
            window.span = INVALID_SPAN
        self._open[id(window)] = window
        _innermost.set(window)
        if isinstance(window, StepWindow):
            self.open_step = window
            self._last_iteration = window.iteration
        if window.stage is not None:
            self._announce(window, window.start_ns)

    def _place(self, window: Window, around: Window | None) -> tuple[int | None, Span | None]:
        """Return iteration and parent span of a stage or phase.

        Outside of any step it belongs to the last one: validation and checkpoints follow theirs.
        """
        iteration = self._last_iteration if around is None else around.iteration
        if window.asked_iteration is not None:
            iteration = window.asked_iteration
        return iteration, None if around is None else around.span

    def _find_outer(self) -> Window | None:
        """Return the innermost open window of this thread or task that is one of ours."""
        window = _innermost.get()
        while window is not None and (window.span is None or window.keeper is not self):
            window = window.outer
        return window

    def _end_nested(self, around: Window | None, successor: Window) -> Window | None:
        """End an open step of this context, and all in it; returns what is then around.

        A trainer's hook that misses the end of one step must not cost all later steps.
        """
        step = around
        while step is not None and not isinstance(step, StepWindow):
            step = step.outer
        if step is None:
            return around
        self._complaints.report(
            "nested_step",
            "step %s begins inside step %s, which ends here",
            successor.asked_iteration,
            step.iteration,
        )
        inner = around
        while inner is not None and inner is not step:
            self.close(inner, None)
            inner = inner.outer
        self.close(step, None)
        return self._find_outer()

    def _restore(self, window: Window) -> None:
        if _innermost.get() is window:
            _innermost.set(window.outer)
        if self.open_step is window:
            others = [w for w in list(self._open.values()) if isinstance(w, StepWindow)]
            self.open_step = others[-1] if others else None

    def _select_numbers(self, attributes: Mapping[str, object]) -> dict[str, int | float]:
        selected: dict[str, int | float] = {}
        for name, value in attributes.items():
            number = None if value is None else to_number(value)
            if number is not None:
                selected[name] = number
            elif value is not None:
                self._complaints.report("invalid_value", "%s=%r is no number", name, value)
        return selected


def _describe_error(error: BaseException | None) -> str | None:
    if error is None or isinstance(error, GeneratorExit):
        return None
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a foreign `__str__` may raise anything
        text = type(error).__name__
    return text[:_MAX_ERROR_LENGTH]
