"""rollout.tool: the samples that finish last spend their time in tools."""

from longpole_server.diagnosis.exposed_end import (
    END_FORMULA,
    END_THRESHOLDS,
    estimate_end,
    prove_end,
)
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Advice, Proof, Rule
from longpole_server.diagnosis.view import View


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None:
        return None
    tool = f", most of it in `{inside.slowest_tool}`" if inside.slowest_tool else ""
    return prove_end(
        view,
        "rollout/tool_of_end",
        inside.tool_of_end,
        estimate_end(inside.tool_saving_s, inside.half_tool_saving_s, inside.usual_tool_saving_s),
        f"in tools{tool}",
    )


RULE = Rule(
    code="rollout.tool",
    family=ROLLOUT,
    title="the rollout waits for tools",
    proof="Tool time (union of parallel calls) is at least half of the exposed end: the "
    "last-finishing 1 % of samples, at least 3.",
    recoverable=END_FORMULA,
    reads=("timing_s/agent_loop/slowest/tool_calls", "trajectory tool_s"),
    thresholds=END_THRESHOLDS,
    sources=("trajectories", "agent_loop"),
    next=(
        Advice("Look at the latency and the concurrency of the tool or sandbox service."),
        Advice("Set timeouts on tool calls."),
        Advice("Run more agent loop workers, asynchronously.", ("agent.workers",)),
    ),
    judge=_judge,
)
