"""Judges drawn runs and compares the verdict with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.diagnosis import diagnose, make_baseline
from longpole_server.model.diagnosis import Diagnosis
from longpole_sim.fitting import fits
from longpole_sim.scenario import Scenario
from longpole_sim.variation import Example
from support.offline_variants import FULL, SCALARS, VARIANTS, Observed, Recording

UNEXPLAINED, UNKNOWN = "rollout.unexplained", "update.unknown"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was said of one run, and what is true.

    Attributes:
        truth, said: Verdict, with its cause where there is one.
        accepted: Further verdicts that are right where the inner evidence is absent.
        visible: Those of them that the definitions give for what the data show.
        missed_findings, undue_findings: With full data only.
    """

    scenario: str
    seed: int
    variant: str
    truth: str
    said: str
    accepted: frozenset[str]
    confidence: str | None
    summary: str
    visible: frozenset[str] = frozenset()
    missed_findings: tuple[str, ...] = ()
    undue_findings: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether the verdict is true, or conservative where no more can be known."""
        return self.said == self.truth or self.said in self.accepted

    @property
    def is_wrong_high(self) -> bool:
        """Whether something else than the truth was said with high confidence.

        The confidence is the verdict's: a cause that stays open behind a true one is no mistake.
        """
        if self.said == f"{self.truth.partition(' > ')[0]} > {UNEXPLAINED}":
            return False
        return self.said not in {self.truth, *self.visible} and self.confidence == "high"

    def describe(self) -> str:
        """Return one line for people."""
        return (
            f"{self.scenario} seed {self.seed} [{self.variant}]: {self.truth}, said {self.said} "
            f"({self.confidence}): {self.summary}"
        )


def judge_example(
    example: Example, seed: int, variants: Sequence[str] = VARIANTS
) -> list[Judgement]:
    """Judge a drawn run by each variant of its data."""
    recording = Recording(example.run, example.plans)
    return [_judge(example, seed, recording.observe(variant)) for variant in variants]


def _judge(example: Example, seed: int, observed: Observed) -> Judgement:
    variant = observed.variant
    diagnosis = diagnose_example(example, observed)
    truth = example.truth
    scenario = example.run.scenario
    said = name_verdict(diagnosis.verdict or "none", diagnosis.cause, truth.cause)
    codes = {finding.code for finding in diagnosis.findings}
    is_full = variant == FULL
    return Judgement(
        scenario.name,
        seed,
        variant,
        name_verdict(truth.verdict, truth.cause, truth.cause),
        said,
        accepted_verdicts(example, observed),
        diagnosis.confidence,
        diagnosis.summary,
        _visible_verdicts(example, observed),
        tuple(code for code in scenario.findings if is_full and code not in codes),
        tuple(sorted(_undue(codes, scenario))) if is_full else (),
    )


def _undue(codes: set[str], scenario: Scenario) -> set[str]:
    """Return findings that the scenario forbids or does not fit."""
    alarms = {code for code in codes if not fits(code, scenario)}
    return alarms | (codes & set(scenario.no_findings))


def diagnose_example(example: Example, observed: Observed) -> Diagnosis:
    """Judge all steps; where something changed, those after it against those before."""
    change = example.run.scenario.change
    if change is None:
        return diagnose(observed.run, observed.steps)
    before = [facts for facts in observed.steps if facts.step.step < change.step]
    after = [facts for facts in observed.steps if facts.step.step >= change.step]
    first = example.run.scenario.first_step
    return diagnose(observed.run, after, make_baseline(before), attempt_starts={1: first})


def name_verdict(verdict: str, cause: str | None, true_cause: str | None) -> str:
    """Return verdict and cause in one; a cause counts where the truth has one."""
    return f"{verdict} > {cause}" if true_cause is not None else verdict


def accepted_verdicts(example: Example, observed: Observed) -> frozenset[str]:
    """Return what is right beside the truth, since the data cannot show more."""
    truth = example.truth.verdict
    if observed.variant == FULL:
        return frozenset()
    if truth.startswith("rollout."):
        return frozenset(_of_rollout(truth, observed))
    if truth.startswith("update."):
        return frozenset(_of_update(example, observed))
    if truth.startswith("async."):
        return frozenset(_of_pools(example, observed))
    return _visible_verdicts(example, observed)


def _of_rollout(truth: str, observed: Observed) -> set[str]:
    accepted: set[str] = set()
    has_loop = any(
        "timing_s/agent_loop/generate_sequences/max" in step.scalars for step in observed.steps
    )
    decidable = observed.variant == SCALARS and has_loop
    if truth == "rollout.imbalance":
        # verl's agent loop reports the slowest sample and nothing by replica: a slow replica looks
        # like a sample that takes long.
        accepted.add("rollout.long_tail")
        decidable = False
    if truth == "rollout.truncation" and observed.variant == SCALARS:
        decidable = decidable or observed.run.response_length_cap is not None
    return accepted if decidable else accepted | {UNEXPLAINED}


def _of_pools(example: Example, observed: Observed) -> set[str]:
    truth, cause = example.truth.verdict, example.truth.cause
    if truth == "async.serial":
        # Without the rollout's own times it is a trainer that waits.
        return {"async.trainer_starved"}
    if truth == "async.trainer_starved":
        causes = [UNEXPLAINED]
        if cause == "rollout.imbalance":
            causes.append("rollout.long_tail")
        return {f"{truth} > {code}" for code in causes}
    if observed.variant != SCALARS or example.run.scenario.mode != "fully_async":
        # Only verl's fully asynchronous trainer logs its buffer; to others the trainer's own
        # stages are all there is.
        return {UNKNOWN, "update.compute", "update.inefficient", "logprob", "balanced"}
    return set()


def _of_update(example: Example, observed: Observed) -> set[str]:
    scenario, run = example.run.scenario, observed.run
    knows_model = run.model_config is not None
    accepted: set[str] = set(_visible_verdicts(example, observed))
    if observed.variant != SCALARS:
        accepted.add(UNKNOWN)
    if scenario.reported_mfu != "true" and not knows_model:
        accepted.add(UNKNOWN)
    if example.truth.verdict == "update.inefficient" and scenario.inner_of_stage > 1.3:
        # What lies around the passes shows only where the model is known.
        accepted |= {UNKNOWN, "update.compute"}
    if scenario.model.is_moe and not knows_model:
        # The same figure is low for a dense model and healthy for a mixture of experts.
        accepted |= {UNKNOWN, "update.compute", "update.inefficient"}
    return accepted


def _visible_verdicts(example: Example, observed: Observed) -> frozenset[str]:
    """Return what the definitions give where the data hide what tells the truth."""
    truth = example.truth.verdict
    if truth == "update.imbalance" and not _shows_ranks(example, observed):
        return frozenset({UNKNOWN, "update.compute", "update.inefficient"})
    if truth == "sync.sleep_wake" and not _has_spans(observed):
        # verl has no timer for it: what is seen of it is time that no stage covers.
        return frozenset({"overhead.unattributed", "balanced"})
    return frozenset()


def _shows_ranks(example: Example, observed: Observed) -> bool:
    """Return whether anything shows that one rank holds up the others."""
    if example.run.scenario.fault is not None:
        return any(facts.gpus for facts in observed.steps)
    names = {"global_seqlen/balanced_max", "global_seqlen/mean"}
    return all(names <= facts.scalars.keys() for facts in observed.steps)


def _has_spans(observed: Observed) -> bool:
    return any(stage.source == "span" for facts in observed.steps for stage in facts.step.stages)
