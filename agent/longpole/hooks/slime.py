"""slime: its scalars as they pass its logging, and its samples by its own option.

`--custom-rollout-log-function-path longpole.hooks.slime.log_rollout` adds each sample; slime logs
as before. Scalars need no option (`LONGPOLE_AUTOLOG`).
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import longpole
from longpole.hooks import taking
from longpole.recording import is_recording

SYSTEM = "slime"
_AXES = ("rollout/step", "train/step", "eval/step")
_TRAIN = "train/step"
_PERF = "perf/"
_NS_PER_S = 1_000_000_000
_STATUSES: Mapping[str, str] = {
    "completed": "success",
    "truncated": "truncated",
    "aborted": "aborted",
    "failed": "error",
}


class _Updates:
    """Optimiser steps since the last rollout's seconds: their own numbers are no rollout's.

    Of the class: one process trains one model.
    """

    sums: ClassVar[dict[str, float]] = {}
    counts: ClassVar[dict[str, int]] = {}


def record_log(args: Any, metrics: Mapping[str, object], step_key: str, *_: object) -> None:
    """Record one call of slime's `log`. Optimiser steps count as a mean, with their rollout."""
    step = metrics.get(step_key)
    if not isinstance(step, int):
        return
    scalars = {name: value for name, value in metrics.items() if name not in _AXES}
    if step_key == _TRAIN:
        _add_update(scalars)
        return
    is_trainer = bool(_Updates.counts)
    if is_trainer and any(name.startswith(_PERF) for name in scalars):
        scalars |= _take_updates()
    role = "controller" if is_trainer else None
    taking.record(SYSTEM, step, scalars, lambda: _declare(args, role))


def _add_update(scalars: Mapping[str, object]) -> None:
    for name, value in scalars.items():
        if isinstance(value, int | float):
            _Updates.sums[name] = _Updates.sums.get(name, 0.0) + value
            _Updates.counts[name] = _Updates.counts.get(name, 0) + 1


def _take_updates() -> dict[str, object]:
    means: dict[str, object] = {
        name: total / _Updates.counts[name] for name, total in _Updates.sums.items()
    }
    _Updates.sums, _Updates.counts = {}, {}
    return means


def _declare(args: Any, role: str | None) -> Mapping[str, Any]:
    return {
        "system": SYSTEM,
        "project": _text(args, "wandb_project") or SYSTEM,
        "name": _text(args, "wandb_group") or _name_directory(args),
        "algorithm": _text(args, "advantage_estimator"),
        # Rollouts are logged by a process of their own.
        "role": role or ("controller" if _is_training_process() else "rollout"),
    }


def _is_training_process() -> bool:
    torch = sys.modules.get("torch.distributed")
    try:
        return bool(torch is not None and torch.is_initialized())
    except Exception:  # noqa: BLE001 - of whatever version it is
        return False


def _text(args: Any, name: str) -> str | None:
    value = getattr(args, name, None)
    return value if isinstance(value, str) and value else None


def _name_directory(args: Any) -> str | None:
    directory = _text(args, "save") or _text(args, "load")
    return None if directory is None else Path(directory).name


def log_rollout(
    rollout_id: int,
    args: Any,
    samples: Sequence[Any],
    rollout_extra_metrics: object = None,
    rollout_time: float = 0.0,
) -> bool:
    """Record the samples of a rollout; return False, by which slime logs them itself as well.

    Args:
        rollout_id: Number of the rollout.
        args: slime's arguments.
        samples: The samples, or lists of them.
        rollout_extra_metrics: Not used.
        rollout_time: Seconds of the rollout: samples say no times of their own.
    """
    taking.guard(_record_samples, rollout_id, args, samples, rollout_time)
    return False


def _record_samples(
    rollout_id: int, args: Any, samples: Sequence[Any], rollout_time: float
) -> None:
    taking.take(SYSTEM)
    if not is_recording():
        longpole.init(**{k: v for k, v in _declare(args, "rollout").items() if v is not None})
    end_ns = time.time_ns()
    start_ns = end_ns - round(max(0.0, rollout_time) * _NS_PER_S)
    for sample in samples:
        parts = cast("Sequence[Any]", sample) if isinstance(sample, list) else (sample,)
        for each in parts:
            _record_sample(rollout_id, args, each, start_ns, end_ns)


def _record_sample(rollout_id: int, args: Any, sample: Any, start_ns: int, end_ns: int) -> None:
    reward = sample.reward
    if isinstance(reward, Mapping):
        reward = cast("Mapping[str, object]", reward).get(_text(args, "reward_key") or "")
    status = getattr(sample.status, "value", sample.status)
    length = sample.response_length
    mask = getattr(sample, "loss_mask", None)
    longpole.trajectory(
        f"{rollout_id}/{sample.index}",
        start_ns=start_ns,
        end_ns=end_ns,
        step=rollout_id,
        group_id=None if sample.group_index is None else str(sample.group_index),
        input_tokens=max(0, len(sample.tokens) - length) if sample.tokens else None,
        # What tools and environments wrote is masked out.
        output_tokens=length if mask is None else int(sum(mask)),
        status=_STATUSES.get(str(status)),
        reward=reward if isinstance(reward, int | float) else None,
    )
