"""All open windows of a process: where a new one belongs, and which are announced again."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType

from longpole.clock import Clock
from longpole.complaints import Complaints
from longpole.conventions import attributes as names
from longpole.conventions import stages
from longpole.spans import WindowSpan, make_span_id, make_trace_id
from longpole.values import AttributeValue, to_iteration, to_number
from longpole.windows import INERT_STAGE, INERT_STEP, StageWindow, StepWindow, Window

_SPAN_OF_STAGE: Mapping[str, str] = MappingProxyType(
    {stage: span for span, stage in stages.STAGE_OF_SPAN.items()}
)
_MAX_ERROR_LENGTH = 200

# The innermost window of this thread or task; windows that ended meanwhile are looked past.
_innermost: ContextVar[Window | None] = ContextVar("longpole_window", default=None)


class WindowRegistry:
    """The windows of one process: opens and closes them, and announces those that stay open.

    Args:
        keep: Called with the span of each window that ended.
        announce: Called with a window and the wall time when it opens, then every `heartbeat_s`.
        complaints: Counts misuse.
        clock: Wall and monotonic time.
        heartbeat_s: Seconds between announcements of an open window.
        sends_steps: Whether steps are sent and announced; if not, they only say which step their
            stages and trajectories belong to.
    """

    def __init__(
        self,
        keep: Callable[[WindowSpan], None],
        announce: Callable[[Window, int], None],
        complaints: Complaints,
        clock: Clock,
        heartbeat_s: float,
        *,
        sends_steps: bool = True,
    ) -> None:
        self._keep = keep
        self._announce = announce
        self._complaints = complaints
        self._wall_ns, self._monotonic_ns = clock
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
        asked = None if iteration is None else to_iteration(iteration)
        return StageWindow(self, _name_span(name), name, asked, attributes)

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
        if window.is_open:
            self._complaints.report("reentered", "a step or stage was entered twice at once")
            return
        try:
            self._open_window(window)
        except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
            self._complaints.report("internal", "could not open %s: %r", window.span_name, error)

    def close(self, window: Window, error: BaseException | None) -> None:
        """End the window's span. Never raises."""
        was_open, window.is_open = window.is_open, False
        self._open.pop(id(window), None)
        self.leaving_error = error
        if not was_open or self._is_abandoned:
            return
        try:
            self._restore(window)
            if window.span_id:
                self._keep(self._end(window, error))
        except Exception as failure:  # noqa: BLE001 - the trainer must not see any failure of ours
            self._complaints.report("internal", "could not close %s: %r", window.span_name, failure)

    def set_attributes(self, window: Window, attributes: Mapping[str, object]) -> None:
        """Set numbers on an open window. Never raises."""
        selected = self._select_numbers(attributes)
        if not window.is_open:
            self._complaints.report("set_when_closed", "set() outside of its with block is lost")
            return
        # A new one: what was handed over is never changed.
        window.said = {**window.said, **selected}

    def repeat_announcements(self) -> None:
        """Announce again what has been open for another heartbeat. Called by the sender."""
        now_ns = self._monotonic_ns()
        for window in list(self._open.values()):
            if window.stage is not None and now_ns >= window.next_announcement_ns:
                window.next_announcement_ns = now_ns + self._heartbeat_ns
                self._announce(window, self._wall_ns())

    def abandon(self) -> None:
        """Forget every window: the process was forked, or recording ended."""
        self._is_abandoned = True
        self._open = {}
        self.open_step = None

    def _open_window(self, window: Window) -> None:
        self.leaving_error = None
        around = self._find_outer()
        is_step = isinstance(window, StepWindow)
        if is_step:
            window.outer = self._end_nested(around, window)
            window.iteration = window.asked_iteration
            parent = None
        else:
            window.outer = around
            parent = around or self.open_step
            window.iteration = self._place(window, parent)
        window.said = dict(window.attributes)
        if window.iteration is not None:
            window.said[names.ITERATION] = window.iteration
        self._identify(window, parent, is_sent=self._sends_steps or not is_step)
        window.entered_ns = self._monotonic_ns()
        if parent is None:
            window.start_ns = self._wall_ns()
        else:
            # By the clock of what is around it: were the wall clock set meanwhile, stages would
            # else lie beyond the end of their step, and the time before them belong to none.
            window.start_ns = parent.start_ns + window.entered_ns - parent.entered_ns
        window.next_announcement_ns = window.entered_ns + self._heartbeat_ns
        window.is_open = True
        self._open[id(window)] = window
        _innermost.set(window)
        if isinstance(window, StepWindow):
            self.open_step = window
            self._last_iteration = window.iteration
        if window.stage is not None:
            self._announce(window, window.start_ns)

    def _identify(self, window: Window, parent: Window | None, *, is_sent: bool) -> None:
        """Give the ids of a span under `parent`, or of a root.

        A step that is not sent has none, and what is inside gets no parent.
        """
        window.trace_id = window.span_id = window.parent_span_id = b""
        if not is_sent:
            return
        window.span_id = make_span_id()
        if parent is None or not parent.span_id:
            window.trace_id = make_trace_id()
        else:
            window.trace_id, window.parent_span_id = parent.trace_id, parent.span_id

    def _end(self, window: Window, error: BaseException | None) -> WindowSpan:
        end_ns = window.start_ns + self._monotonic_ns() - window.entered_ns
        return WindowSpan(
            window.span_name,
            window.trace_id,
            window.span_id,
            window.parent_span_id,
            window.start_ns,
            end_ns,
            window.said,
            None if error is None else _describe_error(error),
        )

    def _place(self, window: Window, around: Window | None) -> int | None:
        """Return the iteration of a stage or phase.

        Outside of any step it belongs to the last one: validation and checkpoints follow theirs.
        """
        if window.asked_iteration is not None:
            return window.asked_iteration
        return self._last_iteration if around is None else around.iteration

    def _find_outer(self) -> Window | None:
        """Return the innermost open window of this thread or task that is one of ours."""
        window = _innermost.get()
        while window is not None and (not window.is_open or window.keeper is not self):
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


@lru_cache(maxsize=1024)
def _name_span(stage: str) -> str:
    return _SPAN_OF_STAGE.get(stages.stage_of(stage) or "", names.SPAN_STAGE)


def _describe_error(error: BaseException) -> str | None:
    if isinstance(error, GeneratorExit):
        return None
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a foreign `__str__` may raise anything
        text = type(error).__name__
    return text[:_MAX_ERROR_LENGTH]
