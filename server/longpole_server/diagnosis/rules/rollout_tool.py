"""rollout.tool: the samples that finish last spend their time in tools."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.tool_of_end is None or inside.slowest_of_gen is None:
        return None
    if inside.tool_of_end < view.limits["rollout.end.ratio"]:
        return None
    if inside.slowest_of_gen < view.limits["rollout.end.span_ratio"]:
        return None
    source = view.inside_source or ""
    return Proof(
        f"the samples that finish last spend {percent(inside.tool_of_end)} of their time in tools",
        (
            inner(
                "rollout/tool_of_end",
                inside.tool_of_end,
                "1",
                source,
                threshold(view, "rollout.end.ratio"),
            ),
            inner(
                "rollout/slowest_of_gen",
                inside.slowest_of_gen,
                "1",
                source,
                threshold(view, "rollout.end.span_ratio"),
            ),
        ),
        inner_agrees=True,
        recoverable_s=inside.tool_saving_s,
    )


RULE = Rule(
    code="rollout.tool",
    family=ROLLOUT,
    title="the rollout waits for tools",
    proof="Tool time (union of parallel calls) is at least half of the exposed end: the "
    "last-finishing 1 % of samples, at least 3.",
    recoverable="how much earlier the last sample would end without its tool time",
    reads=("timing_s/agent_loop/slowest/tool_calls", "trajectory tool_s"),
    thresholds=("rollout.end.ratio", "rollout.end.sample_ratio", "rollout.end.span_ratio"),
    next=(
        NextLook("Look at the latency and the concurrency of the tool or sandbox service."),
        NextLook("Set timeouts on tool calls."),
        NextLook(
            "Run more agent loop workers, asynchronously.",
            ("actor_rollout_ref.rollout.agent.num_workers",),
        ),
    ),
    judge=_judge,
)
