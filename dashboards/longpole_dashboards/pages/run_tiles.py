"""The tiles of the run page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

from longpole.conventions import stages
from longpole_dashboards.components.tiles import Tile, tile
from longpole_dashboards.formats import (
    format_count,
    format_duration,
    format_ratio,
)
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages.run_reading import RunReading
from longpole_server.model.step import Step


def render_tiles(reading: RunReading) -> tuple[object, ...]:
    """Return the tiles: the newest step against the median of the earlier ones."""
    closed = reading.closed
    newest = closed[-1] if closed else None
    durations = [step.duration_s for step in closed]
    rates = [step.throughput_tokens_per_s_per_gpu for step in closed]
    gen = [_share(step, stages.GEN, stages.TRAINER_WAIT) for step in closed]
    unattributed = [
        step.unattributed_s / step.duration_s
        if step.unattributed_s is not None and step.duration_s
        else None
        for step in closed
    ]
    staleness = [
        value for _, _, value in reading.get_metrics(("staleness_max",))["staleness_max"].points
    ]
    bound = reading.detail.staleness_bound
    shown = (
        Tile(
            "Step time",
            format_duration(newest.duration_s if newest else None),
            "",
            DEFINITIONS["step_time"],
            durations,
            "down",
        ),
        Tile(
            "Throughput",
            format_count(rates[-1] if rates else None),
            "tokens/s/GPU",
            DEFINITIONS["throughput"],
            rates,
            "up",
            "needs tokens and GPU count",
        ),
        _mfu_tile("MFU, update", "mfu_actor", closed),
        _mfu_tile("MFU, step", "mfu_step", closed),
        Tile(
            "Rollout wait",
            format_ratio(gen[-1] if gen else None),
            "of the step",
            DEFINITIONS["rollout_share"],
            gen,
            "down",
        ),
        Tile(
            "Unattributed",
            format_ratio(unattributed[-1] if unattributed else None, 1),
            "of the step",
            DEFINITIONS["unattributed"],
            unattributed,
            "down",
        ),
        Tile(
            "Staleness, max",
            format_count(staleness[-1] if staleness else None),
            (reading.detail.staleness_basis or "versions")
            + (f", bound {bound:g}" if bound else ""),
            DEFINITIONS["staleness"],
            staleness,
            "neither",
            "synchronous: always 0" if reading.run.mode == "sync" else "not reported",
        ),
    )
    return ([tile(one, reading.view.theme) for one in shown],)


def _mfu_tile(label: str, name: str, closed: Sequence[Step]) -> Tile:
    history = [getattr(step, name) for step in closed]
    value = history[-1] if history else None
    return Tile(
        label,
        format_ratio(value, 1),
        "",
        DEFINITIONS[name],
        history,
        "up",
        "unknown: needs model and GPU",
    )


def _share(step: Step, *names: str) -> float | None:
    if not step.duration_s:
        return None
    found = [stage.exclusive_s for stage in step.stages if stage.stage in names]
    return sum(found) / step.duration_s if found else None
