"""How the samples of a group, which share their prompt, are routed to replicas.

Each replica has a prefix cache of its own. A group of G samples on k replicas computes its prompt
k times and finds it G - k times: its expected hit rate is 1 - k / G.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.analysis.flops import count_flops
from longpole_server.model.facts import EngineWindow, TrajectoryFacts

# Part of a GPU's peak rate that prefill usually reaches.
PREFILL_EFFICIENCY = 0.5


@dataclass(frozen=True, slots=True)
class GroupRouting:
    """Groups with two samples or more, each of which names its replica.

    Attributes:
        num_groups, num_samples: Groups, and the samples in them.
        mean_replicas: Replicas that a mean group is spread over.
        spread_ratio: Part of the groups on more than one replica, 0..1.
        expected_hit_ratio: Prompt tokens that are found in a prefix cache as the groups are
            routed, 0..1, by prompt length where it is reported.
        best_hit_ratio: The same with each group on one replica.
        seen_hit_ratio: What the engines report; None when they do not. Later turns of a sample
            find the earlier ones, so that it may well be larger than expected.
        prefill_ratio: Part of gen that goes into prefill, 0..1, at the expected hit rate; None
            when not known.
    """

    num_groups: int
    num_samples: int
    mean_replicas: float
    spread_ratio: float
    expected_hit_ratio: float
    best_hit_ratio: float
    seen_hit_ratio: float | None = None
    prefill_ratio: float | None = None

    @property
    def recoverable_ratio(self) -> float | None:
        """Part of gen that routing each group to one replica would give back."""
        if self.prefill_ratio is None or self.expected_hit_ratio >= 1.0:
            return None
        kept = (1 - self.best_hit_ratio) / (1 - self.expected_hit_ratio)
        return self.prefill_ratio * max(0.0, 1 - kept)


def measure_group_routing(
    samples: TrajectoryFacts,
    engine_windows: Sequence[EngineWindow] = (),
    prefill_ratio: float | None = None,
) -> GroupRouting | None:
    """Measure how groups are spread over replicas.

    Args:
        samples: Training samples of a step.
        engine_windows: What the engines say of the same gen.
        prefill_ratio: Part of gen that goes into prefill, where it is known (`estimate_prefill_s`
            over gen).

    Returns:
        None without groups, or with fewer than two replicas: nothing is spread then.
    """
    members: dict[str, list[int]] = {}
    for row, group in enumerate(samples.group_ids):
        if group is not None and samples.replicas[row] is not None:
            members.setdefault(group, []).append(row)
    groups = [rows for rows in members.values() if len(rows) > 1]
    if not groups or len(set(samples.replicas) - {None}) < 2:
        return None
    spread = [len({samples.replicas[row] for row in rows}) for rows in groups]
    prompts = _prompt_tokens(samples, groups)
    asked = math.fsum(len(rows) * prompt for rows, prompt in zip(groups, prompts, strict=True))
    computed = math.fsum(count * prompt for count, prompt in zip(spread, prompts, strict=True))
    return GroupRouting(
        num_groups=len(groups),
        num_samples=sum(map(len, groups)),
        mean_replicas=sum(spread) / len(groups),
        spread_ratio=sum(count > 1 for count in spread) / len(groups),
        expected_hit_ratio=1 - computed / asked,
        best_hit_ratio=1 - math.fsum(prompts) / asked,
        seen_hit_ratio=seen_hit_ratio(engine_windows),
        prefill_ratio=prefill_ratio,
    )


def seen_hit_ratio(engine_windows: Sequence[EngineWindow]) -> float | None:
    """Return the prefix hit rate of all engines, by prompt tokens where every one reports them."""
    known = [window for window in engine_windows if window.prefix_hit_ratio is not None]
    if not known:
        return None
    weights = [window.prompt_tokens for window in known]
    if all(weight is not None for weight in weights) and any(weights):
        total = math.fsum(weight or 0.0 for weight in weights)
    else:
        weights, total = [1.0] * len(known), float(len(known))
    found = (
        (window.prefix_hit_ratio or 0.0) * (weight or 0.0)
        for window, weight in zip(known, weights, strict=True)
    )
    return math.fsum(found) / total


def estimate_prefill_s(
    model_config: Mapping[str, object] | None,
    samples: TrajectoryFacts,
    hit_ratio: float,
    gpu_count: int | None,
    peak_flops_per_s: float | None,
    efficiency: float = PREFILL_EFFICIENCY,
) -> float | None:
    """Estimate how long the rollout's GPUs together compute on prompts.

    Args:
        model_config: Hugging Face configuration of the model.
        samples: Training samples of a step.
        hit_ratio: Part of the prompt tokens that a cache already holds.
        gpu_count: GPUs that generate.
        peak_flops_per_s: Dense peak rate of one of them.
        efficiency: Part of the peak that prefill reaches.

    Returns:
        Seconds; None when one of these is not known.
    """
    prompts = [tokens for tokens in samples.input_tokens if tokens]
    if not prompts or not gpu_count or not peak_flops_per_s:
        return None
    count = count_flops(model_config, prompts)
    if count.flops is None:
        return None
    # A forward pass is a third of a training pass.
    return count.flops / 3 * (1 - hit_ratio) / (gpu_count * peak_flops_per_s * efficiency)


def _prompt_tokens(samples: TrajectoryFacts, groups: Sequence[Sequence[int]]) -> list[float]:
    """Return the tokens of each group's prompt; where one is not reported, all count alike."""
    alike = [1.0] * len(groups)
    if not len(samples.input_tokens):
        return alike
    # Later turns may count as input too: the shortest is nearest to the prompt.
    known = [[tokens for row in rows if (tokens := samples.input_tokens[row])] for rows in groups]
    return [float(min(tokens)) for tokens in known] if all(known) else alike
