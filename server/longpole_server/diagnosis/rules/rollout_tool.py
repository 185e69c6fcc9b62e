"""rollout.tool: the samples that finish last spend their time in tools."""

from longpole_server.diagnosis.exposed_end import END_THRESHOLDS, prove_end
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import NextLook


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None:
        return None
    return prove_end(
        view, "rollout/tool_of_end", inside.tool_of_end, inside.tool_saving_s, "in tools"
    )


RULE = Rule(
    code="rollout.tool",
    family=ROLLOUT,
    title="the rollout waits for tools",
    proof="Tool time (union of parallel calls) is at least half of the exposed end: the "
    "last-finishing 1 % of samples, at least 3.",
    recoverable="how much earlier the last sample would end without its tool time",
    reads=("timing_s/agent_loop/slowest/tool_calls", "trajectory tool_s"),
    thresholds=END_THRESHOLDS,
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
