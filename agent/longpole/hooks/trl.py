"""TRL's trainers: `callbacks=[LongpoleCallback()]` records a GRPO or RLOO training.

The callback sees steps and scalars; what happens within a step is seen by TRL's own profiling
blocks, and samples where their rewards are computed.
"""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import longpole
from longpole.hooks import taking

if TYPE_CHECKING:
    from longpole.windows import StageWindow, StepWindow

_log = logging.getLogger(__name__)

_STAGES: Mapping[str, str] = {
    "vLLM.generate": "gen",
    "transformers.generate": "gen",
    "transformers.generate_batch": "gen",
    "sync_weights": "update_weights",
    "_calculate_rewards": "reward",
    "_get_per_token_logps_and_entropies": "old_log_prob",
}
_LOSS = "compute_loss"
_PREPARE = "_prepare_inputs"
_UPDATE = "update_actor"
_TRAINERS = ("trl.trainer.grpo_trainer.GRPOTrainer", "trl.trainer.rloo_trainer.RLOOTrainer")
_OUTSIDE = {"_save_checkpoint": "save_checkpoint", "evaluate": "testing"}


class _Recording:
    """The windows that are open now. One training runs in a process at a time."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_patched = False
        self.step: StepWindow | None = None
        self.update: StageWindow | None = None
        self.generated_ns: tuple[int, int] | None = None
        self.num_batches = 0

    def open_update(self) -> None:
        if self.update is None and self.step is not None:
            self.update = longpole.stage(_UPDATE)
            self.update.__enter__()

    def close_update(self) -> None:
        update, self.update = self.update, None
        if update is not None:
            update.__exit__(None, None, None)

    def open_step(self, iteration: int) -> None:
        self.close_step()
        self.num_batches = 0
        self.step = longpole.step(iteration)
        self.step.__enter__()

    def close_step(self) -> None:
        self.close_update()
        step, self.step = self.step, None
        if step is not None:
            step.__exit__(None, None, None)


_recording = _Recording()


class LongpoleCallback:
    """A `transformers.TrainerCallback`. Never raises, never waits for the network.

    Args:
        run_id: The run; default `trl/<run name>`, and for that the output directory's name.
        declared: More of `longpole.init`: `project`, `name`, `algorithm`, `endpoint`, ...
    """

    def __init__(self, run_id: str | None = None, **declared: Any) -> None:
        self._run_id = run_id
        self._declared = declared

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the run."""
        _guard(self._begin, args, kwargs.get("model"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a step: logs of it carry its number when it is over."""
        if _recording.is_on:
            _guard(lambda: _recording.open_step(int(state.global_step) + 1))

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the backward pass of a micro-batch."""
        _guard(_recording.close_update)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the step."""
        _guard(_recording.close_step)

    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record scalars."""
        if _recording.is_on and logs:
            _guard(lambda: longpole.log(int(state.global_step), logs))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the run."""
        _guard(self._end)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Answer the events that say nothing here, as transformers' own base class does."""
        if name.startswith("on_"):
            return _ignore
        raise AttributeError(name)

    def _begin(self, args: Any, model: Any) -> None:
        name = getattr(args, "run_name", None) or Path(str(args.output_dir)).name
        config = getattr(model, "config", None)
        kind = type(args).__name__.removesuffix("Config").lower()
        declared: dict[str, Any] = {
            "run_id": self._run_id or f"trl/{name}",
            "name": name,
            "system": "trl",
            "system_version": getattr(sys.modules.get("trl"), "__version__", None),
            "algorithm": kind,
            "mode": "sync",
            "gpu_count": _count_gpus(args),
            "model_name": getattr(config, "_name_or_path", None),
            "model_config": config,
            "config": _read_settings(args),
            **self._declared,
        }
        taking.take("trl")
        longpole.init(**declared)
        _recording.is_on = True
        if not _recording.is_patched:
            _recording.is_patched = True
            _watch_blocks()
            _watch_trainers()

    def _end(self) -> None:
        if _recording.is_on:
            _recording.close_step()
            _recording.is_on = False
            longpole.shutdown("finished")


def _ignore(*_: Any, **__: Any) -> None:
    return None


def _count_gpus(args: Any) -> int | None:
    device = getattr(args, "device", None)
    if getattr(device, "type", "cpu") == "cpu":
        return None
    world_size = getattr(args, "world_size", None)
    return world_size if isinstance(world_size, int) else None


def _read_settings(args: Any) -> dict[str, object]:
    named = (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "steps_per_generation",
        "num_generations",
        "num_iterations",
        "max_prompt_length",
        "max_completion_length",
        "beta",
        "learning_rate",
        "use_vllm",
        "vllm_mode",
        "gradient_checkpointing",
        "bf16",
    )
    values = {name: getattr(args, name, None) for name in named}
    return {name: value for name, value in values.items() if value is not None}


def _watch_blocks() -> None:
    """Record TRL's profiling blocks as stages: every trainer of TRL times itself with them."""
    profiling = sys.modules.get("trl.extras.profiling")
    context: Any = getattr(profiling, "ProfilingContext", None)
    if context is None:
        _log.warning("longpole: this version of TRL has no profiling blocks; no stages are told")
        return
    enter, leave = context.__enter__, context.__exit__

    @wraps(enter)
    def recorded_enter(self: Any) -> Any:
        _guard(_enter_block, self)
        return enter(self)

    @wraps(leave)
    def recorded_leave(self: Any, *args: Any) -> Any:
        answer = leave(self, *args)
        _guard(_leave_block, self)
        return answer

    context.__enter__, context.__exit__ = recorded_enter, recorded_leave


def _enter_block(block: Any) -> None:
    if not _recording.is_on:
        return
    name = str(block.name).partition(".")[2] or str(block.name)
    if name == _LOSS:
        _recording.open_update()
        return
    if name == _PREPARE:
        _recording.close_update()
    # Within the update these blocks are a part of it: the forward pass of the loss.
    stage = None if _recording.update is not None else _STAGES.get(name)
    if stage is None:
        return
    window = longpole.stage(stage)
    window.__enter__()
    block.longpole_window = window, stage, time.time_ns()


def _leave_block(block: Any) -> None:
    opened = getattr(block, "longpole_window", None)
    if opened is None:
        return
    block.longpole_window = None
    window, stage, start_ns = opened
    window.__exit__(None, None, None)
    if stage == "gen":
        _recording.generated_ns = start_ns, time.time_ns()


def _watch_trainers() -> None:
    for path in _TRAINERS:
        module, _, name = path.rpartition(".")
        trainer: Any = getattr(sys.modules.get(module), name, None)
        if trainer is None:
            continue
        if "_calculate_rewards" in vars(trainer):
            trainer._calculate_rewards = _record_rewards(trainer._calculate_rewards)
        for method, stage in _OUTSIDE.items():
            if callable(getattr(trainer, method, None)):
                setattr(trainer, method, _record_stage(getattr(trainer, method), stage))


def _record_stage(method: Callable[..., Any], stage: str) -> Callable[..., Any]:
    @wraps(method)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _recording.is_on:
            return method(self, *args, **kwargs)
        with longpole.stage(stage):
            return method(self, *args, **kwargs)

    return recorded


def _record_rewards(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def recorded(
        self: Any, inputs: Any, prompts: Any, completions: Any, completion_ids: Any, *rest: Any
    ) -> Any:
        start_ns = time.time_ns()
        rewards = method(self, inputs, prompts, completions, completion_ids, *rest)
        if _recording.is_on:
            _guard(_record_samples, self, completion_ids, rewards, start_ns)
        return rewards

    return recorded


def _record_samples(
    trainer: Any, completion_ids: Sequence[Any], rewards: Any, scored_from_ns: int
) -> None:
    """Record the samples of one generation batch: they were generated and scored together."""
    end_ns = time.time_ns()
    generated = _recording.generated_ns or (scored_from_ns, scored_from_ns)
    _recording.num_batches += 1
    # Rewards are gathered over all ranks; ours follow those of the ranks before.
    rank = int(getattr(trainer.accelerator, "process_index", 0))
    first = rank * len(completion_ids)
    totals = _weigh(trainer, rewards)[first : first + len(completion_ids)]
    size = max(1, int(getattr(trainer, "num_generations", 1)))
    cap = getattr(trainer, "max_completion_length", None)
    is_training = bool(getattr(trainer.model, "training", True))
    step = int(trainer.state.global_step) + 1
    parts = (
        ("generate", "generate", *generated),
        ("score", "score", scored_from_ns, end_ns),
    )
    for index, ids in enumerate(completion_ids):
        place = first + index
        group = f"{step}/{_recording.num_batches}/{place // size}"
        is_cut = isinstance(cap, int) and len(ids) >= cap
        longpole.trajectory(
            f"{group}/{place % size}" if is_training else f"val/{group}/{place % size}",
            start_ns=generated[0],
            end_ns=end_ns,
            phase="train" if is_training else "validation",
            group_id=group,
            output_tokens=len(ids),
            turns=1,
            status="truncated" if is_cut else "success",
            reward=totals[index] if index < len(totals) else None,
            parts=parts,
        )


def _weigh(trainer: Any, rewards: Any) -> list[float]:
    weights = getattr(trainer, "reward_weights", None)
    weighted = rewards if weights is None else rewards * weights.to(rewards.device).unsqueeze(0)
    return cast("list[float]", weighted.nansum(dim=1).tolist())


def _guard(call: Callable[..., None], *args: Any) -> None:
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _log.debug("longpole: %r", error)
