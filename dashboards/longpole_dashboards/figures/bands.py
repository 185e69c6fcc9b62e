"""Stage windows of steps as bands on a time axis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from longpole_server.model.run import OpenStage
from longpole_server.model.step import Step


@dataclass(frozen=True, slots=True)
class Band:
    """A window of one stage; `is_open` ends at the present."""

    stage: str
    step: int
    start_ns: int
    end_ns: int
    is_open: bool = False
    is_outside: bool = False


def stage_bands(steps: Sequence[Step], open_stage: OpenStage | None, now_ns: int) -> Iterator[Band]:
    """Yield every known window: of stages, between steps, and of the stage that is open now.

    Scalars say how long a stage took but not when, so they have no band.
    """
    for step in steps:
        for stage in step.stages:
            for start_ns, end_ns in stage.windows:
                yield Band(stage.stage, step.step, start_ns, end_ns)
        for outside in step.outside:
            if outside.start_ns is not None and outside.end_ns is not None:
                yield Band(
                    outside.stage, step.step, outside.start_ns, outside.end_ns, is_outside=True
                )
    if open_stage is not None and open_stage.step is not None and open_stage.stage != "step":
        yield Band(open_stage.stage, open_stage.step, open_stage.since_ns, now_ns, is_open=True)
