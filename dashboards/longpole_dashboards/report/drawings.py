"""Charts as SVG text, which every browser and most mail readers show without any script."""

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from longpole_dashboards.figures.bars import StepBar, order_stages
from longpole_dashboards.formats import format_duration
from longpole_dashboards.theme import ROLES, stage_colour, stage_label

WIDTH_PX = 1_000
_LEFT_PX, _BOTTOM_PX, _TOP_PX = 56, 18, 6
_INK = ROLES["light"]
_NUM_TICKS = 4


def draw_stage_bars(bars: Sequence[StepBar], height_px: int = 240) -> str:
    """Return the stages of every step as stacked bars, in seconds."""
    closed = [bar for bar in bars if bar.duration_s is not None]
    top_s = max((sum(bar.seconds.values()) for bar in closed), default=0.0)
    if not top_s:
        return ""
    stages = order_stages({name for bar in closed for name in bar.seconds})
    inner_px = height_px - _BOTTOM_PX - _TOP_PX
    slot_px = (WIDTH_PX - _LEFT_PX) / len(closed)
    parts = [_ticks(top_s, height_px, " s")]
    for at, bar in enumerate(closed):
        y = float(height_px - _BOTTOM_PX)
        for stage in stages:
            seconds = bar.seconds.get(stage)
            if not seconds:
                continue
            size_px = seconds / top_s * inner_px
            y -= size_px
            words = f"{bar.label}: {stage_label(stage)} {format_duration(seconds)}"
            parts.append(
                f'<rect x="{_LEFT_PX + at * slot_px:.1f}" y="{y:.1f}" '
                f'width="{max(0.5, slot_px * 0.86):.1f}" height="{size_px:.1f}" '
                f'fill="{stage_colour(stage)}"><title>{escape(words)}</title></rect>'
            )
    parts += _step_labels([bar.first_step for bar in closed], height_px)
    return _svg(parts, height_px, "Stage shares of every step")


def stage_legend(bars: Sequence[StepBar]) -> str:
    """Return the names and colours of the stages in the bars."""
    stages = order_stages({name for bar in bars for name in bar.seconds})
    return "".join(
        f'<span class="key"><i style="background:{stage_colour(stage)}"></i>'
        f"{escape(stage_label(stage))}</span>"
        for stage in stages
    )


def draw_line(
    steps: Sequence[int],
    values: Sequence[float | None],
    unit: str,
    title: str,
    height_px: int = 130,
) -> str:
    """Return one number per step as a line; it breaks where a step did not report it."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    top = max(*known, 0.0) * 1.08 or 1.0
    inner_px = height_px - _BOTTOM_PX - _TOP_PX
    slot_px = (WIDTH_PX - _LEFT_PX) / max(1, len(values))
    pieces, piece = list[str](), list[str]()
    for at, value in enumerate([*values, None]):
        if value is None or not math.isfinite(value):
            if piece:
                pieces.append(" ".join(piece))
            piece = []
            continue
        x = _LEFT_PX + (at + 0.5) * slot_px
        y = height_px - _BOTTOM_PX - max(0.0, value) / top * inner_px
        piece.append(f"{x:.1f},{y:.1f}")
    lines = [
        f'<polyline points="{points}" fill="none" stroke="{_INK.accent}" stroke-width="1.6"/>'
        for points in pieces
    ]
    return _svg([_ticks(top, height_px, unit), *lines, *_step_labels(steps, height_px)],
                height_px, title)  # fmt: skip


def draw_heat(values: NDArray[np.float32], top: float, title: str) -> str:
    """Return rows over time as a picture inside the text; white where nothing was measured."""
    if not values.size:
        return ""
    stops = np.array([list(bytes.fromhex(stop[1:])) for stop in _INK.heat], dtype=np.float64)
    levels = np.linspace(0, len(stops) - 1, 255)
    parts = [np.interp(levels, np.arange(len(stops)), stops[:, part]) for part in (0, 1, 2)]
    palette = np.stack(parts, axis=1).astype(np.uint8)
    shares = np.minimum(np.maximum(np.nan_to_num(values / np.float32(top)), 0), 1)
    codes = np.where(np.isfinite(values), shares * 254 + 1, 0).astype(np.uint8)
    colours = b"\xff\xff\xff" + palette.tobytes()
    png = base64.b64encode(_png(codes, colours)).decode()
    height_px = int(max(60, min(320, values.shape[0] * 8)))
    return (
        f'<img alt="{escape(title)}" src="data:image/png;base64,{png}" '
        f'style="width:100%;height:{height_px}px;image-rendering:pixelated">'
    )


def _png(codes: NDArray[np.uint8], palette: bytes) -> bytes:
    """Return an indexed picture: PNG's own format, section 11 of its specification."""
    height, width = codes.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)
    rows[:, 1:] = codes
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def _svg(parts: Sequence[str], height_px: int, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH_PX} {height_px}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _ticks(top: float, height_px: int, unit: str) -> str:
    inner_px = height_px - _BOTTOM_PX - _TOP_PX
    rough = top / _NUM_TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    gap = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    lines = list[str]()
    for number in range(int(top / gap) + 1):
        y = height_px - _BOTTOM_PX - number * gap / top * inner_px
        lines.append(
            f'<line x1="{_LEFT_PX}" x2="{WIDTH_PX}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{_INK.grid}"/>'
            f'<text x="{_LEFT_PX - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{number * gap:.4g}{escape(unit)}</text>"
        )
    return "".join(lines)


def _step_labels(steps: Sequence[int], height_px: int) -> list[str]:
    every = max(1, len(steps) // 12)
    slot_px = (WIDTH_PX - _LEFT_PX) / max(1, len(steps))
    return [
        f'<text x="{_LEFT_PX + (at + 0.5) * slot_px:.1f}" y="{height_px - 4}" '
        f'text-anchor="middle">{"step " if not at else ""}{step}</text>'
        for at, step in enumerate(steps)
        if at % every == 0
    ]
