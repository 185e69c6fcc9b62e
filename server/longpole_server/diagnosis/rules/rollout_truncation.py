"""rollout.truncation: a good part of the samples runs into the length cap."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent

_LIMIT = "rollout.truncation.ratio"


def _judge(view: View) -> Proof | None:
    ratio = view.truncated_ratio
    if ratio is None or ratio < view.limits[_LIMIT]:
        return None
    cap = view.run.response_length_cap
    where = "the length cap" if cap is None else f"the cap of {cap:,} tokens"
    source = "trajectories" if view.inside_source == "trajectories" else "scalars"
    saving_s = view.inside.truncation_saving_s if view.inside is not None else None
    return Proof(
        f"{percent(ratio)} of the samples run into {where}",
        (inner("truncated_ratio", ratio, "1", source, threshold(view, _LIMIT)),),
        inner_agrees=True,
        recoverable=None if saving_s is None else Recoverable(0.0, saving_s / 2, saving_s),
    )


RULE = Rule(
    code="rollout.truncation",
    family=ROLLOUT,
    title="the rollout decodes samples up to the length cap",
    proof="A quarter or more of the training samples end at the known cap.",
    recoverable="half of what gen takes beyond its last complete sample: nobody knows where the "
    "others would have ended; from nothing to all of it",
    reads=("response_length/clip_ratio", "trajectory status", "response length cap"),
    thresholds=(_LIMIT,),
    sources=("trajectories", "response_cap"),
    next=(
        Advice(
            "Check whether the cap is where answers are lost or where they ramble.",
            ("response.cap",),
        ),
        Advice("Filter, mask or penalise overlong samples.", ("overlong", "filter")),
        Advice("Stop hopeless samples early."),
        Advice("Reward shorter answers."),
    ),
    judge=_judge,
)
