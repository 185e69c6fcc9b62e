"""Tiny charts as SVG images: for tiles and table cells."""

from collections.abc import Sequence
from urllib.parse import quote

WIDTH, HEIGHT = 96, 22


def sparkline(values: Sequence[float | None], colour: str, *, filled: bool = True) -> str:
    """Return a data address of a line through `values`, in order; unknown ones break the line.

    Returns an empty string when fewer than two values are known.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    span = (high - low) or abs(high) or 1.0
    step = WIDTH / max(1, len(values) - 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((index * step, HEIGHT - 3 - (value - low) / span * (HEIGHT - 6)))
    paths = "".join(_path(run, colour, filled) for run in runs if len(run) > 1)
    newest = next(run for run in reversed(runs) if run)[-1]
    dot = f'<circle cx="{newest[0]:.1f}" cy="{newest[1]:.1f}" r="1.8" fill="{colour}"/>'
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 0 {WIDTH + 3} {HEIGHT}" '
        f'preserveAspectRatio="none">{paths}{dot}</svg>'
    )
    return f"data:image/svg+xml,{quote(svg)}"


def _path(points: Sequence[tuple[float, float]], colour: str, filled: bool) -> str:
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = ""
    if filled:
        left, right = points[0][0], points[-1][0]
        area = (
            f'<polygon points="{left:.1f},{HEIGHT} {line} {right:.1f},{HEIGHT}" '
            f'fill="{colour}" opacity="0.14"/>'
        )
    return (
        f'{area}<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.4" '
        'stroke-linejoin="round" vector-effect="non-scaling-stroke"/>'
    )
