"""Where the verdict of a run changed for good: what a chart marks.

Single steps flicker: a validation, one straggler, a share that lies near a limit. The rule, a vote
with memory:

- The verdict of a run is the one that last won a vote, and stays until another wins one.
- A vote is held at each judged step, over the last `SPAN` of them. The step's own verdict wins
  when it holds in at least `MAJORITY` of these.
- Each change of the last `MEMORY` judged steps doubles the span of the next vote, up to
  `MAX_SPAN`: what flips back and forth must hold longer each time (as route flap damping does,
  RFC 2439).
- A change is dated to the step from which the new verdict prevails: of the voters, the latest
  ones with the largest surplus of it.
"""

from collections.abc import Iterable

from longpole_server.model.annotations import VerdictChange

SPAN = 5
MAJORITY = 0.8
MEMORY = 500
MAX_SPAN = 40


def find_changes(verdicts: Iterable[tuple[int, str | None]]) -> tuple[VerdictChange, ...]:
    """Return the verdicts of a run, each with the step from which it holds.

    The first entry is the first verdict that won a vote; a run too short for one has none.

    Args:
        verdicts: (step, verdict) in order; steps without a verdict do not vote.
    """
    voters = [(step, verdict) for step, verdict in verdicts if verdict is not None]
    changes: list[VerdictChange] = []
    # Places among the voters at which votes changed something.
    won_at: list[int] = []
    current: str | None = None
    for place, (_, verdict) in enumerate(voters):
        if verdict == current:
            continue
        span = _span(won_at, place)
        votes = voters[max(0, place + 1 - span) : place + 1]
        if len(votes) < span or sum(vote == verdict for _, vote in votes) < MAJORITY * span:
            continue
        changes.append(VerdictChange(_prevails_from(votes, verdict), verdict, current))
        if current is not None:
            won_at.append(place)
        current = verdict
    return tuple(changes)


def _span(won_at: list[int], place: int) -> int:
    recent = sum(won > place - MEMORY for won in won_at[-MAX_SPAN:])
    return min(MAX_SPAN, SPAN * 2**recent)


def _prevails_from(votes: list[tuple[int, str]], verdict: str) -> int:
    """Return the step from which a verdict has its largest surplus to the end of the votes."""
    surplus, largest = 0, 0
    first = votes[-1][0]
    for step, vote in reversed(votes):
        surplus += 1 if vote == verdict else -1
        if surplus > largest:
            largest, first = surplus, step
    return first
