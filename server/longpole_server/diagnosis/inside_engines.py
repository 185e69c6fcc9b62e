"""The inside of gen as far as the engines tell: by slots, not by samples."""

from dataclasses import replace

from longpole.conventions import metrics
from longpole_server.diagnosis.engines import Engines
from longpole_server.diagnosis.inside_gen import (
    InsideGen,
    add_recomputed,
    divide,
    is_usable,
    read_usable,
)
from longpole_server.model.facts import StepFacts


def add_engines(
    inside: InsideGen, engines: Engines, facts: StepFacts, gen_s: float | None
) -> InsideGen:
    """Fill in what samples do not say from what the engines say."""
    mean_tokens = inside.mean_tokens
    if mean_tokens is None:
        mean_tokens = _usable_metric("response_length_mean", facts)
    if inside.recomputed_ratio is None:
        inside = _add_recomputed_of_engines(inside, engines, facts, mean_tokens)
    if inside.tokens_per_s is None:
        inside = replace(inside, tokens_per_s=engines.tokens_per_s_per_request)
    # Slots tell about samples only where each sample has one from the beginning.
    if inside.slowest_s is None and not engines.waiting_mean and engines.fill_ratio:
        busy_s = engines.busy_s if engines.busy_s is not None else engines.seconds
        mean_s = engines.fill_ratio * engines.seconds
        inside = replace(
            inside,
            slowest_s=busy_s,
            mean_s=min(mean_s, busy_s),
            slowest_of_gen=divide(busy_s, gen_s if gen_s is not None else engines.seconds),
            slowest_tokens=_usable_metric("response_length_max", facts),
            mean_tokens=mean_tokens,
            idle_ratio=1 - engines.fill_ratio,
        )
    return inside


def _add_recomputed_of_engines(
    inside: InsideGen, engines: Engines, facts: StepFacts, mean_tokens: float | None
) -> InsideGen:
    generated = engines.generated_tokens
    if engines.recomputed_tokens is not None and generated:
        ratio = engines.recomputed_tokens / generated
        return replace(
            inside, recomputed_ratio=ratio, recomputed_ratio_low=ratio, recomputed_ratio_high=ratio
        )
    if engines.preemptions is None or not generated or not mean_tokens:
        return inside
    num_samples = generated / mean_tokens
    prompt = read_usable(facts.scalars, "prompt_length/mean")
    return add_recomputed(inside, engines.preemptions / num_samples, prompt, mean_tokens)


def _usable_metric(name: str, facts: StepFacts) -> float | None:
    value = metrics.read_metric(name, facts.scalars)
    return value if is_usable(value) else None
