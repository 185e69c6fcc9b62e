"""What the lines of many runs are made of, each in one query for all of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.gpu import RunGpu
from longpole_server.model.run import Pace
from longpole_server.model.step import Step
from longpole_server.read.pool import ClientPool, make_records, make_rows
from longpole_server.store.steps import read_step

# A step of several attempts counts once, as its latest has it.
_CHOSEN = """
    SELECT run_id, attempt, step, closed_by IS NOT NULL AS is_closed,
        throughput_tokens_per_s_per_gpu AS pace, toUnixTimestamp64Nano(end_ns) AS ended_ns
    FROM steps FINAL
    WHERE run_id IN {run_ids:Array(String)}
    ORDER BY run_id, step, attempt DESC
    LIMIT 1 BY run_id, step
"""
# The wide columns are read for the chosen steps only.
_LAST_STEPS = f"""
SELECT * EXCEPT (version, diagnosis) FROM steps FINAL
WHERE run_id IN {{run_ids:Array(String)}} AND (run_id, attempt, step) IN (
    SELECT run_id, attempt, step FROM ({_CHOSEN})
    WHERE is_closed
    ORDER BY run_id, step DESC
    LIMIT {{count:UInt64}} BY run_id
)
ORDER BY run_id, step
"""  # noqa: S608 - only the query above
# With the last closed steps of each attempt, from two narrow columns: step, pace and end.
_EXTENTS = f"""
SELECT
    run_id, attempt, first_step, last_step, num_steps,
    arrayMap(each -> each.1, last_closed), arrayMap(each -> each.2, last_closed),
    arrayMap(each -> each.3, last_closed)
FROM (
    SELECT
        run_id, attempt,
        if(countIf(is_closed) > 0, minIf(step, is_closed), min(step)) AS first_step,
        max(step) AS last_step,
        arrayCount(each -> each >= first_step, groupArray(step)) AS num_steps,
        arraySlice(
            arrayReverseSort(each -> each.1, groupArrayIf((step, pace, ended_ns), is_closed)),
            1, {{num_paces:UInt64}}
        ) AS last_closed
    FROM ({_CHOSEN})
    GROUP BY run_id, attempt
)
ORDER BY run_id, attempt
"""  # noqa: S608 - only the query above
_LAST_SCALARS = f"""
SELECT run_id, name, value FROM metric_points FINAL
WHERE run_id IN {{run_ids:Array(String)}} AND (run_id, attempt, step) IN (
    SELECT run_id, attempt, step FROM ({_CHOSEN})
    WHERE is_closed
    ORDER BY run_id, step DESC
    LIMIT 1 BY run_id
)
"""  # noqa: S608 - only the query above
_GPUS = """
SELECT * FROM run_gpus FINAL
WHERE run_id IN {run_ids:Array(String)} AND (until_ns IS NULL OR until_ns >= since_ns)
ORDER BY run_id, host, gpu_index, gpu_uuid, attempt, since_ns
"""


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last step of a range, and how many there are."""

    first: int
    last: int
    num_steps: int


@dataclass(frozen=True, slots=True)
class RunParts:
    """What the line of a run is made of.

    Attributes:
        steps: Its last closed steps, in order.
        paces: How fast its last closed steps went, in order; of more steps than `steps` has.
        scalars: What its last closed step logged.
        extents: The steps of each attempt, in order; those that a later attempt did again are its.
            What stays open before an attempt's first closed step is no training step: trainers log
            the validation before training under step 0.
        gpus: What it holds or held, by host and index.
    """

    steps: Sequence[Step]
    paces: Sequence[Pace]
    scalars: Mapping[str, float]
    extents: Mapping[int, Extent]
    gpus: Sequence[RunGpu]


def list_run_parts(
    pool: ClientPool, run_ids: Sequence[str], num_steps: int, num_paces: int
) -> Mapping[str, RunParts]:
    """Return what the lines of runs are made of; a run that nothing is known of has empty parts.

    Args:
        pool: Connections.
        run_ids: Which runs: hundreds at most.
        num_steps: Last closed steps of each, with all that is known of them.
        num_paces: Last closed steps of each of which no more than the pace is read.
    """
    named = {"run_ids": list(run_ids)}
    steps: defaultdict[str, list[Step]] = defaultdict(list)
    for row in make_records(pool.query(_LAST_STEPS, {**named, "count": num_steps})):
        step = read_step(row)
        steps[step.run_id].append(step)
    scalars: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for run_id, name, value in make_rows(pool.query(_LAST_SCALARS, named)):
        scalars[run_id][name] = value
    extents: defaultdict[str, dict[int, Extent]] = defaultdict(dict)
    paces: defaultdict[str, dict[int, Pace]] = defaultdict(dict)
    spans = make_rows(pool.query(_EXTENTS, {**named, "num_paces": num_paces}))
    for run_id, attempt, first, last, count, *closed in spans:
        extents[run_id][attempt] = Extent(first, last, count)
        paces[run_id] |= {
            step: Pace(pace, end_ns) for step, pace, end_ns in zip(*closed, strict=True)
        }
    gpus: defaultdict[str, list[RunGpu]] = defaultdict(list)
    for gpu in pool.select(RunGpu, _GPUS, named):
        gpus[gpu.run_id].append(gpu)
    return {
        run_id: RunParts(
            steps[run_id],
            [paces[run_id][step] for step in sorted(paces[run_id])[-num_paces:]],
            scalars[run_id],
            extents[run_id],
            gpus[run_id],
        )
        for run_id in run_ids
    }
