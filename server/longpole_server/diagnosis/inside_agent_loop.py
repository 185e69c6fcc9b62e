"""The inside of gen from the aggregates of verl's agent loop."""

import math
from collections.abc import Mapping

from longpole_server.diagnosis.inside_gen import InsideGen, add_recomputed, divide, read_usable

AGENT_LOOP = "timing_s/agent_loop/"


def look_into_agent_loop(scalars: Mapping[str, float], gen_s: float | None) -> InsideGen:
    """Read verl's aggregates: seconds a sample, summed over its turns, and the slowest sample."""

    def read(name: str) -> float | None:
        return read_usable(scalars, AGENT_LOOP + name)

    generate_max = read("generate_sequences/max") or 0.0
    slowest_tool = read("slowest/tool_calls")
    slowest_score = read("slowest/compute_score")
    decode_s = read("slowest/generate_sequences")
    if decode_s is None:
        decode_s = generate_max
    slowest_s = decode_s + (slowest_tool or 0.0) + (slowest_score or 0.0)
    mean_s = math.fsum(
        read(f"{part}/mean") or 0.0
        for part in ("generate_sequences", "tool_calls", "compute_score")
    )
    mean_tokens = read_usable(scalars, "response_length/mean")
    found = InsideGen(
        slowest_s=slowest_s,
        mean_s=mean_s or None,
        slowest_of_gen=divide(slowest_s, gen_s),
        slowest_tokens=read("slowest/response_length"),
        mean_tokens=mean_tokens,
        tool_of_end=divide(slowest_tool, slowest_s),
        score_of_end=divide(slowest_score, slowest_s),
        tool_saving_s=_shorter_by(slowest_tool, slowest_s, generate_max),
        half_tool_saving_s=_shorter_by(slowest_tool, slowest_s, generate_max, part=0.5),
        usual_tool_saving_s=_beyond_mean(
            slowest_tool, read("tool_calls/mean"), slowest_s, generate_max
        ),
        score_saving_s=_shorter_by(slowest_score, slowest_s, generate_max),
        half_score_saving_s=_shorter_by(slowest_score, slowest_s, generate_max, part=0.5),
        usual_score_saving_s=_beyond_mean(
            slowest_score, read("compute_score/mean"), slowest_s, generate_max
        ),
        preempted_most=_largest(read("num_preempted/max"), read("slowest/num_preempted")),
        tokens_per_s=divide(mean_tokens, read("generate_sequences/mean")),
    )
    prompt = read_usable(scalars, "prompt_length/mean")
    return add_recomputed(found, read("num_preempted/mean"), prompt, mean_tokens)


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _beyond_mean(
    spent_s: float | None, mean_s: float | None, slowest_s: float, others_s: float
) -> float | None:
    """Return what the slowest sample saves if it spends no more than the mean one."""
    if spent_s is None or mean_s is None:
        return None
    return _shorter_by(max(0.0, spent_s - mean_s), slowest_s, others_s)


def _shorter_by(
    spent_s: float | None, slowest_s: float, others_s: float, part: float = 1.0
) -> float | None:
    """Return what the slowest sample saves, until another one that only decodes is the slowest."""
    if spent_s is None:
        return None
    return max(0.0, min(part * spent_s, slowest_s - others_s))
