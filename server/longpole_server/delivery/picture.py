"""The evidence of an alert as a picture: a figure over steps or minutes, its limit, where it fired.

Drawn with Pillow where that is installed (`pip install 'longpole[pictures]'`); without it messages
come without pictures.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from longpole_server.alerts.wording import format_number

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

_WIDTH, _HEIGHT = 1_200, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 130, 40, 90, 70
_PAPER, _INK, _MUTED, _GRID = "#ffffff", "#1a1d21", "#6b7280", "#e5e7eb"
_LINE, _LIMIT, _USUAL, _FIRED = "#2563eb", "#dc2626", "#6b7280", "#fca5a5"
_NUM_TICKS = 4
_DASH = 12


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to draw.

    Attributes:
        title: What it is about, in one line.
        steps, values: The figure over the steps that report it, in order; or over minutes, counted
            from the alert back.
        threshold, baseline: Lines at these heights, None without one.
        since_step: First step, or minute, in which the condition held.
        axis: What `steps` are.
    """

    title: str
    steps: Sequence[float]
    values: Sequence[float]
    unit: str
    threshold: float | None = None
    baseline: float | None = None
    since_step: float | None = None
    axis: Literal["step", "minute"] = "step"


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG, and its words for who cannot see it."""

    png: bytes
    title: str
    alt_text: str


def draw_evidence(evidence: Evidence) -> Picture | None:
    """Draw the evidence; None where nothing can be drawn, or no library is there to do it."""
    known = [
        (step, value)
        for step, value in zip(evidence.steps, evidence.values, strict=True)
        if math.isfinite(value)
    ]
    if len(known) < 2:
        return None
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        return None
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    chart = _Chart(ImageDraw.Draw(image), ImageFont.load_default(22), evidence, known)
    chart.draw(ImageFont.load_default(30))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return Picture(buffer.getvalue(), evidence.title, _describe(evidence, known))


def list_ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers between two; none where doubles cannot tell them apart."""
    rough = (high - low) / _NUM_TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    gap = next(unit * factor for factor in (1.0, 2.0, 5.0, 10.0) if unit * factor >= rough)
    first = math.ceil(low / gap)
    ticks = (each * gap for each in range(first, math.floor(high / gap) + 1))
    return [each for each in ticks if low <= each <= high]


def _name_place(evidence: Evidence, at: float) -> str:
    return f"step {at:.0f}" if evidence.axis == "step" else f"{at:.0f} min"


def _describe(evidence: Evidence, known: Sequence[tuple[float, float]]) -> str:
    (first, begin), (last, end) = known[0], known[-1]
    begin_text, end_text = (format_number(each, evidence.unit) for each in (begin, end))
    begin_at, end_at = (_name_place(evidence, at) for at in (first, last))
    text = f"{evidence.title}: {begin_text} in {begin_at}, {end_text} in {end_at}"
    if evidence.axis == "minute":
        text = f"{evidence.title}: {begin_text} at {begin_at}, {end_text} at {end_at}"
    if evidence.threshold is not None:
        text += f", limit {format_number(evidence.threshold, evidence.unit)}"
    return text


class _Chart:
    def __init__(
        self,
        draw: "ImageDraw.ImageDraw",
        font: "ImageFont.FreeTypeFont | ImageFont.ImageFont",
        evidence: Evidence,
        known: Sequence[tuple[float, float]],
    ) -> None:
        self._draw = draw
        self._font = font
        self._evidence = evidence
        self._known = known
        lines = [each for each in (evidence.threshold, evidence.baseline) if each is not None]
        heights = [value for _, value in known]
        inside = [each for each in lines if math.isfinite(each)]
        # A limit far away is told in words: it must not flatten what there is to see.
        span = max(heights) - min(heights) or abs(heights[0]) or 1.0
        least, most = min(heights) - 3 * span, max(heights) + 3 * span
        near = [each for each in inside if least <= each <= most]
        low, high = min([*heights, *near]), max([*heights, *near])
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        self._low, self._high = low - margin, high + margin
        if low >= 0:
            self._low = max(0.0, self._low)
        self._first, self._last = known[0][0], max(known[-1][0], known[0][0] + 1)

    def draw(self, large: "ImageFont.FreeTypeFont | ImageFont.ImageFont") -> None:
        evidence, draw = self._evidence, self._draw
        title = evidence.title if len(evidence.title) <= 70 else evidence.title[:69] + "..."
        draw.text((_LEFT, 24), title, fill=_INK, font=large)
        if evidence.since_step is not None and evidence.since_step <= self._last:
            left = self._x(max(evidence.since_step, self._first))
            right = max(left + 3.0, self._x(self._last))
            draw.rectangle((left, _TOP, right, _HEIGHT - _BOTTOM), fill="#fef2f2")
            draw.line((left, _TOP, left, _HEIGHT - _BOTTOM), fill=_FIRED, width=3)
        self._draw_axes()
        if evidence.baseline is not None:
            self._draw_level(evidence.baseline, "usual", _USUAL)
        if evidence.threshold is not None:
            self._draw_level(evidence.threshold, "limit", _LIMIT)
        points = [(self._x(step), self._y(value)) for step, value in self._known]
        draw.line(points, fill=_LINE, width=4, joint="curve")
        x, y = points[-1]
        draw.ellipse((x - 7, y - 7, x + 7, y + 7), fill=_LINE)

    def _x(self, step: float) -> float:
        width = _WIDTH - _LEFT - _RIGHT
        return _LEFT + width * (step - self._first) / (self._last - self._first)

    def _y(self, value: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - height * (value - self._low) / (self._high - self._low)

    def _draw_axes(self) -> None:
        for value in list_ticks(self._low, self._high):
            y = self._y(value)
            self._draw.line((_LEFT, y, _WIDTH - _RIGHT, y), fill=_GRID, width=2)
            text = format_number(value, self._evidence.unit)
            self._draw.text((_LEFT - 12, y), text, fill=_MUTED, font=self._font, anchor="rm")
        steps = sorted(
            {
                round(self._first + (self._last - self._first) * index / _NUM_TICKS)
                for index in range(_NUM_TICKS + 1)
            }
        )
        for step in steps:
            is_named = step == steps[0] or self._evidence.axis == "minute"
            text = _name_place(self._evidence, step) if is_named else str(step)
            place = (self._x(step), _HEIGHT - _BOTTOM + 14)
            self._draw.text(place, text, fill=_MUTED, font=self._font, anchor="ma")

    def _draw_level(self, value: float, name: str, colour: str) -> None:
        if not self._low <= value <= self._high:
            return
        y = self._y(value)
        for x in range(_LEFT, _WIDTH - _RIGHT, 2 * _DASH):
            self._draw.line((x, y, min(x + _DASH, _WIDTH - _RIGHT), y), fill=colour, width=3)
        place = (_WIDTH - _RIGHT - 4, y - 4)
        text = f"{name} {format_number(value, self._evidence.unit)}"
        self._draw.text(place, text, fill=colour, font=self._font, anchor="rd")
