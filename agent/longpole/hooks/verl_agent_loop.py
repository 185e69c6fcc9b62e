"""verl's agent loops, old and new: one trajectory a sample, with its times, tokens and reward.

The worker runs many samples at once on one event loop; a context variable says whose part a timer
measures.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import longpole
from longpole.hooks import verl_settings as settings
from longpole.hooks.verl_replicas import Served, served, watch_clients

if TYPE_CHECKING:
    from collections.abc import Generator

    from longpole.trajectories import Part

_log = logging.getLogger(__name__)

_KIND_OF_TIMER = {
    "generate_sequences": "generate",
    "tool_calls": "tool",
    "compute_score": "score",
}
_WORKERS = ("AgentLoopWorker", "AgentLoopWorkerBase")
_MARK = "_longpole_postprocess"
_ENDED_BY_LENGTH = frozenset({"length", "max_tokens"})


@dataclass(slots=True)
class _Sample:
    start_ns: int
    parts: "list[Part]" = field(default_factory=list["Part"])
    outputs: Sequence[Any] = ()
    served: Served = field(default_factory=Served)


_current: ContextVar[_Sample | None] = ContextVar("longpole_sample", default=None)


def _watch_timers(module: ModuleType) -> None:
    simple_timer = getattr(module, "simple_timer", None)
    if simple_timer is None:
        raise LookupError("no simple_timer")

    @wraps(simple_timer)
    @contextmanager
    def recorded_timer(name: str, *args: Any, **kwargs: Any) -> "Generator[None, None, None]":
        sample, kind = _current.get(), _KIND_OF_TIMER.get(name)
        start_ns = time.time_ns()
        try:
            with simple_timer(name, *args, **kwargs):
                yield
        finally:
            if sample is not None and kind is not None:
                sample.parts.append((kind, name, start_ns, time.time_ns()))

    module.__dict__["simple_timer"] = recorded_timer


def _watch_workers(module: ModuleType) -> None:
    worker: Any = next(
        (
            found
            for name in _WORKERS
            if isinstance(found := module.__dict__.get(name), type)
            and "_run_agent_loop" in vars(found)
        ),
        None,
    )
    if worker is None:
        raise LookupError("no agent-loop worker")
    run: Callable[..., Awaitable[Any]] = worker._run_agent_loop

    @wraps(run)
    async def recorded_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        sample = _begin(self)
        if sample is None:
            return await run(self, *args, **kwargs)
        token, served_token = _current.set(sample), served.set(sample.served)
        status = "error"
        try:
            answer = await run(self, *args, **kwargs)
            status = "success"
            return answer
        finally:
            _current.reset(token)
            served.reset(served_token)
            _guard(_record, self, sample, status, _find_trajectory(args, kwargs), kwargs)

    worker._run_agent_loop = recorded_run


def _begin(worker: Any) -> _Sample | None:
    try:
        if not hasattr(worker, _MARK):
            _adopt(worker)
        return _Sample(time.time_ns())
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)
        return None


def _adopt(worker: Any) -> None:
    """Open this process's session, and keep what its post-processing is given, once a worker."""
    setattr(worker, _MARK, True)
    config = getattr(worker, "config", None)
    longpole.init(
        project=settings.read(config, "trainer.project_name"),
        name=settings.read(config, "trainer.experiment_name"),
        system="verl",
        system_version=settings.find_version(),
        role="agent_loop",
    )
    postprocess = getattr(worker, "_agent_loop_postprocess", None)
    if postprocess is None:
        return

    @wraps(postprocess)
    async def recorded_postprocess(output: Any, *args: Any, **kwargs: Any) -> Any:
        sample = _current.get()
        if sample is not None:
            sample.outputs = (
                cast("Sequence[Any]", output) if isinstance(output, list) else (output,)
            )
        return await postprocess(output, *args, **kwargs)

    worker._agent_loop_postprocess = recorded_postprocess


def _find_trajectory(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    return _as_mapping(kwargs.get("trajectory", args[1] if len(args) > 1 else None))


def _as_mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _record(
    worker: Any,
    sample: _Sample,
    status: str,
    trajectory: Mapping[str, Any],
    named: Mapping[str, Any],
) -> None:
    end_ns = time.time_ns()
    outputs = sample.outputs
    last = outputs[-1] if outputs else None
    extra_fields = _as_mapping(getattr(last, "extra_fields", None))
    config = getattr(worker, "config", None)
    index, rollout = trajectory.get("sample_index"), trajectory.get("rollout_n")
    uid, session = named.get("uid"), named.get("session_id", rollout)
    step = trajectory.get("step")
    is_validation = bool(trajectory.get("validate"))
    group_id = uid if uid is not None else f"{step}/{index}"
    cap = settings.read(config, "actor_rollout_ref.rollout.response_length")
    if status == "success" and _is_truncated(outputs, cap):
        status = "truncated"
    # With generation ahead of training, which step trains on a sample shows when it ends.
    mode = settings.find_mode(config)
    longpole.trajectory(
        f"{'val/' if is_validation else ''}{group_id}/{session}",
        start_ns=sample.start_ns,
        end_ns=end_ns,
        step=None if step is None or mode not in {None, "sync"} else int(step),
        phase="validation" if is_validation else "train",
        group_id=str(group_id),
        input_tokens=_count(outputs[:1], "prompt_ids"),
        output_tokens=_count_generated(outputs),
        turns=getattr(last, "num_turns", None),
        preemptions=getattr(getattr(last, "metrics", None), "num_preempted", None),
        status=status,
        reward=getattr(last, "reward_score", None),
        policy_version_start=extra_fields.get("min_global_steps"),
        policy_version_end=extra_fields.get("max_global_steps"),
        parts=sample.parts,
        replica=sample.served.replica,
        request_ids=sample.served.request_ids,
    )


def _count(outputs: Sequence[Any], name: str) -> int | None:
    lengths = [len(ids) for output in outputs if (ids := getattr(output, name, None)) is not None]
    return sum(lengths) if lengths else None


def _count_generated(outputs: Sequence[Any]) -> int | None:
    """Return the tokens the model wrote: those of tools and environments are masked out."""
    total = None
    for output in outputs:
        mask = getattr(output, "response_mask", None)
        ids = getattr(output, "response_ids", None)
        if mask is not None:
            total = (total or 0) + int(sum(mask))
        elif ids is not None:
            total = (total or 0) + len(ids)
    return total


def _is_truncated(outputs: Sequence[Any], cap: object) -> bool:
    for output in outputs:
        if getattr(output, "stop_reason", None) in _ENDED_BY_LENGTH:
            return True
        ids = getattr(output, "response_ids", None)
        if ids is not None and isinstance(cap, int) and len(ids) >= cap:
            return True
    return False


def _guard(call: Callable[..., None], *args: Any) -> None:
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)


WATCHED: Mapping[str, Callable[[ModuleType], None]] = {
    "verl.utils.profiler.performance": _watch_timers,
    "verl.workers.rollout.llm_server": watch_clients,
    "verl.experimental.agent_loop.agent_loop": _watch_workers,
}
