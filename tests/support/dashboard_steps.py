"""Builders of model objects for tests of figures: say what matters, the rest is filled in."""

from longpole_server.model.run import OpenStage
from longpole_server.model.step import OutsideStage, StageTime, Step

S = 1_000_000_000
START_NS = 1_700_000_000 * S


def make_step(
    number: int = 1,
    stages: dict[str, float] | None = None,
    *,
    unattributed_s: float | None = 1.0,
    outside: dict[str, float] | None = None,
    attempt: int = 1,
    is_open: bool = False,
    spans: bool = True,
    start_ns: int | None = None,
    throughput: float | None = 400.0,
    mfu_actor: float | None = None,
) -> Step:
    """Return a step whose stages follow each other; its seconds are their sum plus the rest."""
    seconds = {"gen": 60.0, "update_actor": 20.0} if stages is None else stages
    start = START_NS + number * 200 * S if start_ns is None else start_ns
    duration_s = sum(seconds.values()) + (unattributed_s or 0.0)
    clock, times = start, list[StageTime]()
    for name, length_s in seconds.items():
        end = clock + int(length_s * S)
        times.append(
            StageTime(
                stage=name,
                exclusive_s=length_s,
                inclusive_s=length_s,
                share_ratio=None if is_open else length_s / duration_s,
                start_ns=clock if spans else None,
                end_ns=end if spans else None,
                includes=(),
                source="span" if spans else "scalar",
                windows=((clock, end),) if spans else (),
            )
        )
        clock = end
    return Step(
        run_id="run",
        step=number,
        attempt=attempt,
        start_ns=start,
        end_ns=None if is_open else start + int(duration_s * S),
        duration_s=None if is_open else duration_s,
        closed_by=None if is_open else "loop",
        stages=tuple(times),
        unattributed_s=None if is_open else unattributed_s,
        outside=tuple(OutsideStage(name, length_s) for name, length_s in (outside or {}).items()),
        throughput_tokens_per_s_per_gpu=None if is_open else throughput,
        mfu_actor=mfu_actor,
    )


def make_open_stage(step: int, stage: str, since_ns: int) -> OpenStage:
    """Return an open stage with a usual length of a minute."""
    return OpenStage(step, stage, since_ns, since_ns, usual_s=60.0, usual_max_s=80.0)
