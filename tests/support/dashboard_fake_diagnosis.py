"""Diagnoses of pretend runs."""

from collections.abc import Sequence
from statistics import median

from longpole.conventions import stages
from longpole_server.model.diagnosis import (
    Diagnosis,
    Entity,
    Evidence,
    Finding,
    Mfu,
    NextLook,
    Outside,
    Reference,
    StepVerdict,
    Throughput,
)
from longpole_server.model.step import Confidence, Note, Step
from support.dashboard_workload import RunSpec


def make_diagnosis(spec: RunSpec, closed: Sequence[Step]) -> Diagnosis:
    """Return what a diagnosis of these steps says."""
    closed = [step for step in closed if step.duration_s is not None]
    verdict, confidence = make_verdict(spec) if closed else (None, None)
    total = sum(step.duration_s or 0.0 for step in closed)
    shares: dict[str, float] = {}
    for step in closed:
        for stage in step.stages:
            shares[stage.stage] = shares.get(stage.stage, 0.0) + stage.exclusive_s / total
        shares["unattributed"] = (
            shares.get("unattributed", 0.0) + (step.unattributed_s or 0.0) / total
        )
    rates = [s.throughput_tokens_per_s_per_gpu or 0.0 for s in closed]
    outside_s = sum(out.duration_s for step in closed for out in step.outside)
    return Diagnosis(
        run_id=spec.run_id,
        run_name=spec.name,
        system="verl",
        mode=spec.mode,
        first_step=closed[0].step if closed else None,
        last_step=closed[-1].step if closed else None,
        num_judged=len(closed),
        excluded=(),
        verdict=verdict,
        cause="rollout.unexplained" if verdict == "async.trainer_starved" else None,
        confidence=confidence,
        summary=_summary_sentence(verdict),
        recoverable_s_per_step=21.4 if verdict == "rollout.long_tail" else None,
        recoverable_gpu_hours_per_day=85.0 if verdict == "rollout.long_tail" else None,
        shares=shares,
        outside=(
            {"testing": Outside(outside_s / len(closed), outside_s / total)} if outside_s else {}
        ),
        throughput=Throughput(median(rates) if rates else None, None, None, spec.gpu_count, None),
        mfu={
            "actor": Mfu(0.363, "reported")
            if spec.has_mfu
            else Mfu(None, None, "the model's configuration is not known"),
        },
        evidence=_evidence(verdict, shares),
        findings=_findings(spec, closed),
        next=_next_looks(verdict),
        data_quality=(
            Note("time.estimated", "info", "The log has no times; the axis is estimated."),
        )
        if spec.time_estimated
        else (),
        steps=tuple(
            StepVerdict(step.step, step.duration_s or 0.0, verdict, confidence, {})
            for step in closed
        ),
    )


def make_verdict(spec: RunSpec) -> tuple[str, Confidence]:
    """Return what the run waits for, and how sure that is."""
    if spec.mode != "sync":
        return "async.trainer_starved", "medium"
    if not spec.has_trajectories:
        return "rollout.unexplained", "low"
    return "rollout.long_tail", "high"


def _summary_sentence(verdict: str | None) -> str:
    sentences = {
        "rollout.long_tail": (
            "Generation takes 60 % of every step, and its last 36 % is spent on 13 of 256 samples: "
            "15 GPUs idle while the longest answers finish."
        ),
        "rollout.unexplained": (
            "Generation takes 60 % of every step. Nothing inside it is reported, so the cause is "
            "not known."
        ),
        "async.trainer_starved": (
            "The trainer waits 35 % of every step for samples; the rollout side is the bottleneck."
        ),
    }
    return sentences.get(verdict or "", "No step has been judged yet.")


def _evidence(verdict: str | None, shares: dict[str, float]) -> tuple[Evidence, ...]:
    if verdict == "rollout.long_tail":
        gen = shares.get(stages.GEN, 0.0)
        return (
            Evidence(
                "share/gen", gen, "1", Reference("threshold", 0.4), "supports", "outer", "spans"
            ),
            Evidence(
                "rollout/slowest_of_gen",
                0.97,
                "1",
                Reference("threshold", 0.85),
                "supports",
                "inner",
                "trajectories",
            ),
            Evidence(
                "rollout/slowest_to_mean_time",
                3.1,
                "1",
                Reference("threshold", 1.5),
                "supports",
                "inner",
                "trajectories",
            ),
            Evidence(
                "rollout/slowest_to_mean_tokens",
                3.0,
                "1",
                Reference("threshold", 1.5),
                "supports",
                "inner",
                "trajectories",
            ),
            Evidence(
                "perf/mfu/actor",
                0.363,
                "1",
                Reference("baseline", 0.359),
                "supports",
                "other_side",
                "scalars",
            ),
            Evidence(
                "preemptions",
                0.7,
                "1",
                Reference("threshold", 5.0),
                "contradicts",
                "inner",
                "trajectories",
            ),
        )
    if verdict is None:
        return ()
    stage = stages.TRAINER_WAIT if verdict.startswith("async") else stages.GEN
    value = shares.get(stage, 0.0)
    return (
        Evidence(
            f"share/{stage}", value, "1", Reference("threshold", 0.2), "supports", "outer", "spans"
        ),
    )


def _next_looks(verdict: str | None) -> tuple[NextLook, ...]:
    if verdict != "rollout.long_tail":
        return (NextLook("Report trajectories to see inside generation.", ()),) if verdict else ()
    return (
        NextLook(
            "Partial rollout: stopping at 90 % of the samples ends generation 21.4 s earlier.",
            ("algorithm.partial_rollout",),
        ),
        NextLook("Batch by expected length, or abort overlong samples early.", ("data.sampler",)),
        NextLook(
            "Let the trainer start while the tail finishes: an asynchronous pipeline.",
            ("async_training.staleness_threshold", "trainer.mode"),
        ),
    )


def _findings(spec: RunSpec, closed: Sequence[Step]) -> tuple[Finding, ...]:
    if not closed or not spec.has_gpus:
        return ()
    first, last = closed[0].step, closed[-1].step
    return (
        Finding(
            "gpu.idle",
            "info",
            None,
            first,
            last,
            "All GPUs stand idle for 2.1 s a step while rewards are computed.",
        ),
        Finding(
            "straggler.gpu",
            "warning",
            Entity("gpu", f"{spec.hosts[0]}/3"),
            first,
            last,
            f"GPU 3 on {spec.hosts[0]} runs at 87 % of the others' clock under load.",
        ),
    )
