"""What the samples that finish last spend their time on: the proof that tools and scoring share."""

from longpole_server.diagnosis.proof import Proof, Recoverable, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent

# Every rule proven here is decided by these.
END_THRESHOLDS = ("rollout.end.ratio", "rollout.end.sample_ratio", "rollout.end.span_ratio")


END_FORMULA = (
    "half of what gen would end earlier by without it; at most all of that, at least what it would "
    "end earlier by if no sample spent more on it than the usual one (the median; from aggregates, "
    "the mean)"
)


def estimate_end(
    all_s: float | None, half_s: float | None, usual_s: float | None
) -> Recoverable | None:
    """Return what less of one kind of work gives back, None when it is not known.

    Args:
        all_s: How much earlier gen would end without it.
        half_s: At half of it.
        usual_s: If no sample spent more on it than the usual one.
    """
    if all_s is None:
        return None
    return Recoverable.around(all_s / 2 if half_s is None else half_s, usual_s or 0.0, all_s)


def prove_end(
    view: View, metric: str, of_end: float | None, recoverable: Recoverable | None, spent: str
) -> Proof | None:
    """Return the proof that one kind of work holds up the end of gen, None when it does not.

    Args:
        view: The window; its inside must be known.
        metric: Name of the evidence row.
        of_end: Share (0..1) of the last samples' time that the work takes, None unknown.
        recoverable: By how much gen would end earlier without it, None unknown.
        spent: Ends the sentence "... spend N % of their time ".
    """
    inside = view.inside
    if inside is None or of_end is None or inside.slowest_of_gen is None:
        return None
    if of_end < view.limits["rollout.end.ratio"]:
        return None
    if inside.slowest_of_gen < view.limits["rollout.end.span_ratio"]:
        return None
    source = view.inner_source
    end_limit = threshold(view, "rollout.end.ratio")
    span_limit = threshold(view, "rollout.end.span_ratio")
    return Proof(
        f"the samples that finish last spend {percent(of_end)} of their time {spent}",
        (
            inner(metric, of_end, "1", source, end_limit),
            inner("rollout/slowest_of_gen", inside.slowest_of_gen, "1", source, span_limit),
        ),
        inner_agrees=True,
        recoverable=recoverable,
    )
