"""rollout.truncation: a good part of the samples runs into the length cap."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook

_LIMIT = "rollout.truncation.ratio"


def _judge(view: View) -> Proof | None:
    ratio = view.truncated_ratio
    if ratio is None or ratio < view.limits[_LIMIT]:
        return None
    cap = view.run.response_length_cap
    where = "the length cap" if cap is None else f"the cap of {cap:,} tokens"
    source = "trajectories" if view.inside_source == "trajectories" else "scalars"
    return Proof(
        f"{percent(ratio)} of the samples run into {where}",
        (inner("truncated_ratio", ratio, "1", source, threshold(view, _LIMIT)),),
        inner_agrees=True,
    )


RULE = Rule(
    code="rollout.truncation",
    family=ROLLOUT,
    title="the rollout decodes samples up to the length cap",
    proof="A quarter or more of the training samples end at the known cap.",
    recoverable="not estimated: nobody knows where the samples would have ended",
    reads=("response_length/clip_ratio", "trajectory status", "response length cap"),
    thresholds=(_LIMIT,),
    next=(
        NextLook(
            "Check whether the cap is where answers are lost or where they ramble.",
            ("data.max_response_length",),
        ),
        NextLook("Filter or mask overlong samples.", ("algorithm.filter_groups.enable",)),
        NextLook("Stop hopeless samples early."),
        NextLook("Reward shorter answers."),
    ),
    judge=_judge,
)
