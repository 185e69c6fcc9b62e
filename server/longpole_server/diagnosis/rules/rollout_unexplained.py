"""rollout.unexplained: gen is long and nothing inside it says why."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Evidence, NextLook


def _judge(view: View) -> Proof:
    inside = view.inside
    if inside is None:
        return Proof(
            "nothing reports what happens inside it: neither trajectories nor engine metrics nor "
            "agent-loop figures"
        )
    rows: list[Evidence] = []
    source = view.inside_source or ""
    parts: list[str] = []
    if inside.slowest_of_gen is not None:
        rows.append(
            inner("rollout/slowest_of_gen", inside.slowest_of_gen, "1", source, None, "contradicts")
        )
        parts.append(f"the slowest sample fills {percent(inside.slowest_of_gen)} of it")
    if inside.time_ratio is not None:
        rows.append(
            inner(
                "rollout/slowest_to_mean_time", inside.time_ratio, "1", source, None, "contradicts"
            )
        )
        parts.append(f"takes {times(inside.time_ratio)} the mean")
    seen = " and ".join(parts) or "what its samples report is not enough"
    return Proof(f"no cause inside it is proven ({seen})", tuple(rows))


RULE = Rule(
    code="rollout.unexplained",
    family=ROLLOUT,
    title="the rollout is long for an unknown reason",
    proof="Nothing inside gen is known, or nothing known explains it.",
    recoverable="not estimated",
    reads=("trajectories", "timing_s/agent_loop/*"),
    next=(
        NextLook(
            "Send trajectories (`longpole.trajectory`): they show slow samples, tools and scoring."
        ),
        NextLook("Let engines be scraped: running and waiting requests, KV cache, preemptions."),
        NextLook("Look at what gen hides: concatenation on the controller, scheduling, wake-up."),
    ),
    judge=_judge,
)
