"""The public calls.

None of them raises into the trainer or waits for the network, except `flush` and `shutdown`,
which wait for as long as they are told.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from longpole.declaration import Declaration
from longpole.errors import LongpoleError
from longpole.process import Process
from longpole.stats import Stats
from longpole.values import to_iteration, to_number
from longpole.windows import INERT_STAGE, INERT_STEP, StageWindow, StepWindow

if TYPE_CHECKING:
    from longpole.trajectories import Part

_process = Process()


def init(
    run_id: str | None = None,
    project: str | None = None,
    *,
    name: str | None = None,
    system: str | None = None,
    system_version: str | None = None,
    algorithm: str | None = None,
    mode: str | None = None,
    role: str | None = None,
    attempt: int | None = None,
    gpu_count: int | None = None,
    gpu_ids: Sequence[str] | None = None,
    model_name: str | None = None,
    model_config: Mapping[str, object] | None = None,
    staleness_bound: float | None = None,
    staleness_basis: str | None = None,
    config: Mapping[str, object] | None = None,
    endpoint: str | None = None,
    token: str | None = None,
    instance: str | None = None,
    host: str | None = None,
    **unknown: object,
) -> None:
    """Begin recording this process. Once per process; never raises.

    Open steps and stages are announced again every `LONGPOLE_HEARTBEAT_S` seconds (10). The run is
    announced and ended by its controller alone. A process forked later records on its own, as none;
    one that is spawned calls `init` itself, with its own `role`.

    Every rank of a program started by torchrun, accelerate, deepspeed or mpirun may call `init`
    alike. Rank 0 is the controller, the others are trainers that follow it: their stages and
    trajectories are sent, `step` only says which step these belong to, and `log` is left to rank 0.

    Args:
        run_id: The run; default `LONGPOLE_RUN_ID`, else `<project>/<name>` when both are known,
            else the receiver makes one up from service and host.
        project: Project for people; default `LONGPOLE_PROJECT`.
        name: Name of the run for people; default `LONGPOLE_RUN_NAME`.
        system: Training framework, such as `verl`.
        system_version: Its version.
        algorithm: `ppo`, `grpo`, ...
        mode: `sync`, `colocate_async`, `one_step_off`, `fully_async` or `separate_async`.
        role: What this process does: `controller`, `trainer`, `rollout`, `hybrid`, `critic`, `ref`,
            `reward` or `agent_loop`; default by rank, else `controller`, which runs the loop. A
            process with a role named here follows no rank: all that it records is sent.
        attempt: Which start of the run this is; default `LONGPOLE_RUN_ATTEMPT`, else the receiver
            counts.
        gpu_count: All GPUs the run holds.
        gpu_ids: UUIDs of this process's GPUs; default `CUDA_VISIBLE_DEVICES` if it names UUIDs.
        model_name: Name of the model.
        model_config: Its Hugging Face configuration, for FLOPs.
        staleness_bound: Allowed lag of samples behind the policy.
        staleness_basis: What the lag counts: `versions`, `sample_fraction`, `tokens`, `scheduling`.
        config: Settings that explain a verdict, from the controller; nested keys are joined by
            dots, secrets redacted.
        endpoint: OTLP/HTTP receiver; default `LONGPOLE_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT`,
            `http://127.0.0.1:4318`.
        token: Bearer token; default `LONGPOLE_TOKEN`, or the content of `LONGPOLE_TOKEN_FILE`.
        instance: Name of this rollout replica.
        host: Name of this machine; default `LONGPOLE_HOST_NAME`, else the system's.
        unknown: Is left out with a warning: a misspelled argument does not end a training.
    """
    if unknown:
        named = ", ".join(sorted(unknown))
        _process.complaints.report("unknown_argument", "init knows no argument %s", named)
    declaration = Declaration(
        run_id=run_id,
        project=project,
        name=name,
        system=system,
        system_version=system_version,
        algorithm=algorithm,
        mode=mode,
        role=role,
        attempt=attempt,
        gpu_count=gpu_count,
        gpu_ids=gpu_ids,
        model_name=model_name,
        model_config=model_config,
        staleness_bound=staleness_bound,
        staleness_basis=staleness_basis,
        instance=instance,
        host=host,
    )
    try:
        _process.open(declaration, config or {}, endpoint, token)
    except LongpoleError as error:
        _process.complaints.report("init_failed", "recording is off: %s", error)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _process.complaints.report("init_failed", "recording is off: %r", error)


def step(iteration: int) -> StepWindow:
    """Return the window of one training step, for `with longpole.step(i):`."""
    session = _process.session or _process.resume("step")
    return INERT_STEP if session is None else session.windows.build_step(iteration)


def stage(
    name: str,
    *,
    step: int | None = None,
    method: str | None = None,
    bytes: int | None = None,  # noqa: A002 - the public word for it
    delta_ratio: float | None = None,
) -> StageWindow:
    """Return the window of a stage, for `with longpole.stage("gen"):`. Stages nest.

    Args:
        name: `gen`, `reward`, `old_log_prob`, `update_actor`, `update_weights`, ... or the
            framework's own word for it.
        step: The step it belongs to; default the open step, else the last one of this process.
        method: How a weight sync moves weights, such as `nccl`.
        bytes: How much it moves.
        delta_ratio: The ratio of weights it moves, 0..1.
    """
    session = _process.session or _process.resume("stage")
    if session is None:
        return INERT_STAGE
    try:
        return session.windows.build_stage(name, step, method, bytes, delta_ratio)
    except Exception as error:  # noqa: BLE001 - the trainer's values may raise anything
        _process.complaints.report("invalid_stage", "stage() is not recorded: %r", error)
        return INERT_STAGE


def sync_phase(name: str) -> StageWindow:
    """Return the window of a phase of the weight sync around it, such as `transfer`."""
    session = _process.session or _process.resume("sync_phase")
    return INERT_STAGE if session is None else session.windows.build_sync_phase(name)


def trajectory(
    trajectory_id: str | None = None,
    *,
    start_ns: int,
    end_ns: int,
    step: int | None = None,
    phase: str = "train",
    group_id: str | None = None,
    generate_s: float | None = None,
    tool_s: float | None = None,
    score_s: float | None = None,
    queue_s: float | None = None,
    paused_s: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    turns: int | None = None,
    preemptions: int | None = None,
    status: str | None = None,
    reward: float | None = None,
    policy_version_start: int | None = None,
    policy_version_end: int | None = None,
    replica: str | None = None,
    parts: "Sequence[Part]" = (),
    request_ids: Sequence[str] = (),
) -> None:
    """Record one finished sample. Cheap: it is encoded later, on another thread.

    Args:
        trajectory_id: Its name in the trainer; made up when missing.
        start_ns: When it began, UTC nanoseconds (`time.time_ns()`).
        end_ns: When it ended.
        step: The step that trains on it; default the open step, if it ends within.
        phase: `train` or `validation`.
        group_id: Samples of one prompt share it.
        generate_s: Seconds of generation; likewise `tool_s`, `score_s`, `queue_s`, `paused_s`.
        tool_s: Seconds in tools and environments.
        score_s: Seconds of scoring.
        queue_s: Seconds waiting for an engine; default the sum of the `queue` parts.
        paused_s: Seconds held back, such as during a weight sync.
        input_tokens: Tokens read by the model.
        output_tokens: Tokens generated.
        turns: Turns of the conversation.
        preemptions: How often an engine evicted it; negative means unknown.
        status: `success`, `truncated`, `aborted`, `filtered`, `dropped_stale` or `error`.
        reward: Its reward.
        policy_version_start: Version of the weights it began with.
        policy_version_end: Version it ended with.
        replica: The rollout replica that served it.
        parts: Where its time went: `(kind, name, start_ns, end_ns)` with kind `generate`, `tool`,
            `score` or `queue`; the name matters for tools. The first 256 are sent.
        request_ids: What engines call the requests it made: their spans are linked to it by these.
    """
    session = _process.session or _process.resume("trajectory")
    if session is None:
        return
    try:
        # Tensors are read here: on another thread their values may have changed, and reading
        # from a GPU there may break a graph capture here.
        if reward is not None and type(reward) is not float:
            reward = to_number(reward)
        if output_tokens is not None and type(output_tokens) is not int:
            output_tokens = to_iteration(output_tokens)
        if input_tokens is not None and type(input_tokens) is not int:
            input_tokens = to_iteration(input_tokens)
        if step is None:
            open_step = session.windows.open_step
            if open_step is not None and open_step.start_ns <= end_ns:
                step = open_step.iteration
        frozen_parts = tuple(parts) if parts else ()
        # In the order of `trajectories.Trajectory`.
        record = (
            trajectory_id,
            start_ns,
            end_ns,
            step,
            phase,
            group_id,
            generate_s,
            tool_s,
            score_s,
            queue_s,
            paused_s,
            input_tokens,
            output_tokens,
            turns,
            preemptions,
            status,
            reward,
            policy_version_start,
            policy_version_end,
            replica,
            tuple(request_ids) if request_ids else (),
            frozen_parts,
        )
        session.trajectories.append(record, len(frozen_parts))
    except Exception as error:  # noqa: BLE001 - the trainer's values may raise anything
        _process.complaints.report("invalid_trajectory", "trajectory() was not recorded: %r", error)


def log(step: int, metrics: Mapping[str, object]) -> None:
    """Record scalars of a step under the trainer's own names.

    Numbers, NumPy scalars and tensors of one element are sent; anything else, and infinities, are
    counted as skipped. So is everything on a rank that follows rank 0: one run has one value of a
    name and step.
    """
    session = _process.session or _process.resume("log")
    if session is None:
        return
    iteration = step if type(step) is int else to_iteration(step)
    if iteration is None:
        _process.complaints.report("invalid_step", "log(%r, ...) is no whole number", step)
        return
    now_ns = time.time_ns()
    append = session.points.append
    try:
        if not session.sends_points:
            session.points.skip(len(metrics))
            _process.complaints.report(
                "follows_rank_0",
                "log() is skipped on this rank, for rank 0 logs; with init(role=...) it is sent",
            )
            return
        for name, value in metrics.items():
            if type(value) is float or type(value) is int:
                append((now_ns, iteration, name, value))
            else:
                append((now_ns, iteration, name, to_number(value)))
    except Exception as error:  # noqa: BLE001 - a mapping of the trainer's may raise anything
        _process.complaints.report("invalid_metrics", "log() takes names and numbers: %r", error)


def log_value(step: int, name: str, value: object) -> bool:
    """Record one scalar as `log` does, if a session is open that sends them; tell whether it is."""
    session = _process.session
    if session is None or not session.sends_points:
        return False
    if type(value) is not float and type(value) is not int:
        value = to_number(value)
    session.points.append((time.time_ns(), step, name, value))
    return True


def autolog() -> None:
    """Record what wandb, TensorBoard, MLflow, swanlab and trackio are told, as `log` would.

    Call it after `init`, or before: what is logged before `init` is left out. Of slime, OpenRLHF,
    NeMo-RL, AReaL, SkyRL, ROLL and prime-rl what they log is taken where they log it, whatever
    logger they use, under their own steps. Of others steps are `training_step` among the metrics,
    else those that the calls name, else `global_step` among the metrics, else the logger's count.
    """
    try:
        from longpole.hooks.frameworks import watch_frameworks
        from longpole.hooks.scalars import watch_loggers

        watch_frameworks()
        watch_loggers()
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _process.complaints.report("internal", "autolog() failed: %r", error)


def is_recording() -> bool:
    """Tell whether a session is open in this process, or will be with the first record."""
    return _process.is_open


def flush(timeout_s: float = 5.0) -> bool:
    """Wait until everything recorded so far was sent; returns whether all of it was accepted."""
    session = _process.session
    try:
        return session is None or session.flush(timeout_s)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _process.complaints.report("internal", "flush() failed: %r", error)
        return False


def shutdown(status: str | None = None, timeout_s: float = 5.0) -> None:
    """Send what is left within `timeout_s` and stop recording; the controller ends the run.

    Called by itself when the process ends, but not when a signal kills it: then the run is lost.

    Args:
        status: `finished` or `crashed`. Default: `crashed` after an unhandled exception and while
            one is handled, as in the `finally:` of a failing loop, else `finished`. Ctrl-C and
            `sys.exit(0)` are no failures; `sys.exit(1)` is one where it can be seen, not when
            nothing but the end of the process calls this.
        timeout_s: Bound of the call.
    """
    try:
        _process.close(None if status is None else str(status), timeout_s)
    except Exception as error:  # noqa: BLE001 - the trainer must not see any failure of ours
        _process.complaints.report("internal", "shutdown() failed: %r", error)


def stats() -> Stats:
    """Return what was sent, dropped, skipped and misused so far."""
    return _process.count()
