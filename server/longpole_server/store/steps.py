"""Derived steps as rows and back: scalars in columns, everything nested as JSON."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson
import pyarrow as pa

from longpole_server.model.step import Note, OutsideStage, StageTime, Step
from longpole_server.store.columns import FLOAT, INTEGER, TEXT, TIME, make_array

# Columns that hold a field of a step as it is.
_KINDS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "run_id": TEXT,
        "attempt": INTEGER,
        "step": INTEGER,
        "start_ns": TIME,
        "end_ns": TIME,
        "duration_s": FLOAT,
        "closed_by": TEXT,
        "unattributed_s": FLOAT,
        "tokens_total": INTEGER,
        "throughput_tokens_per_s_per_gpu": FLOAT,
        "mfu_actor": FLOAT,
        "mfu_infer": FLOAT,
        "mfu_step": FLOAT,
        "gpu_count": INTEGER,
        "tokens_response": INTEGER,
        "response_length_mean": FLOAT,
        "response_length_max": FLOAT,
        "verdict": TEXT,
        "confidence": TEXT,
    }
)


def make_step_rows(steps: Sequence[tuple[Step, str]], version: int) -> pa.Table:
    """Return steps and their diagnoses (JSON) as rows of `steps`."""
    columns = {
        name: make_array([getattr(step, name) for step, _ in steps], kind)
        for name, kind in _KINDS.items()
    }
    for name in ("stages", "outside", "notes"):
        columns[name] = make_array([_to_json(getattr(step, name)) for step, _ in steps], TEXT)
    columns["diagnosis"] = make_array([diagnosis for _, diagnosis in steps], TEXT)
    columns["version"] = pa.array([version] * len(steps), pa.uint64())
    return pa.table(columns)


def read_step(row: Mapping[str, Any]) -> Step:
    """Return the step of a row of `steps`; times are nanoseconds."""
    return Step(
        **{name: row[name] for name in _KINDS},
        stages=tuple(_read_stage(stage) for stage in orjson.loads(row["stages"])),
        outside=tuple(OutsideStage(**stage) for stage in orjson.loads(row["outside"])),
        notes=tuple(Note(**note) for note in orjson.loads(row["notes"])),
    )


def _read_stage(stage: dict[str, Any]) -> StageTime:
    stage["includes"] = tuple(stage["includes"])
    stage["windows"] = tuple(map(tuple, stage["windows"]))
    return StageTime(**stage)


def _to_json(value: object) -> str:
    return orjson.dumps(value).decode()
