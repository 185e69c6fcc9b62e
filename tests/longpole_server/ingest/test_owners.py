"""Whose runs a sender that is bound to projects may name, by what the store says of them."""

from collections.abc import Callable, Sequence

import pytest

from longpole_server.errors import BadRequestError, ForbiddenError
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.normalize.sender import Process
from longpole_server.ingest.owners import MAX_RUNS, Owners
from longpole_server.model.principal import Principal
from longpole_server.model.records import Records, RunStart
from support import otlp_builders as otlp
from support.otlp_pipeline import RECEIVED_NS

RUN = "math/exp-7"
A, B = (Principal(f"token {name}", "ingest", frozenset({name})) for name in ("a", "b"))
OF_A, OF_B = Process("host-a", 100, otlp.at(0)), Process("host-b", 100, otlp.at(50))


def find_in(starts: Sequence[RunStart]) -> Callable[[str], list[RunStart]]:
    """As the store answers: a run, and what has `#` and more behind its id."""
    return lambda run_id: [
        start
        for start in sorted(starts, key=lambda start: (start.run_id, start.attempt))
        if start.run_id == run_id or start.run_id.startswith(f"{run_id}#")
    ]


def collided() -> list[RunStart]:
    """What the server makes of two controllers of one run id that are alive at a time."""
    into, normalizer = Records(), Normalizer()
    for project, process, start_s in (("a", OF_A, 1.0), ("b", OF_B, 50.0), ("a", OF_A, 61.0)):
        sender = otlp.process(RUN, host=process.host, start_s=None, rl__project=project)
        sender.attributes.extend(otlp.attributes({"rl.process.start_ns": process.start_ns}))
        body = otlp.traces((sender, [otlp.loop(round(start_s), start_s, start_s + 60)]))
        normalizer.normalize("traces", body, RECEIVED_NS, into)
    return into.run_starts


def test_an_id_with_a_number_behind_it_does_not_lock_its_run_out() -> None:
    """Who was there first with `math/exp-7#2` kept the owner of `math/exp-7` from sending."""
    squatted = [RunStart(f"{RUN}#2", 1, 1, project="b"), RunStart(RUN, 1, 1, project="a")]
    Owners(A, find_in(squatted)).check(RUN, OF_A, None)
    Owners(A, find_in(squatted[:1])).check(RUN, None, None)
    # Nor is it taken any more, whether its run is known or not.
    for known in (squatted[1:], []):
        with pytest.raises(ForbiddenError, match="given by the server"):
            Owners(B, find_in(known)).check(f"{RUN}#2", OF_B, None)


def test_who_has_an_id_with_a_number_goes_on_with_it() -> None:
    known = find_in([RunStart("sweep#3", 1, 1, project="a")])
    Owners(A, known).check("sweep#3", OF_A, None)
    with pytest.raises(ForbiddenError):
        Owners(B, known).check("sweep#3", OF_B, None)


def test_two_projects_whose_runs_collided_both_go_on_sending() -> None:
    """Both trainers were refused from the moment that both were known."""
    starts = collided()
    assert {start.run_id: start.project for start in starts} == {RUN: "a", f"{RUN}#2": "b"}
    for sender, process in ((A, OF_A), (B, OF_B)):
        Owners(sender, find_in(starts)).check(RUN, process, None)
        Owners(sender, find_in(starts)).check(RUN, process, 1)


@pytest.mark.parametrize(
    ("process", "attempt"),
    [
        (None, None),  # is placed by its host
        (OF_A, None),  # leads the other run
        (OF_B._replace(pid=101), None),
        (OF_B._replace(start_ns=None), None),
        (OF_B, 2),  # would begin an attempt, of whichever run is free
    ],
)
def test_who_leads_no_run_of_its_own_reaches_none_that_collided(
    process: Process | None, attempt: int | None
) -> None:
    with pytest.raises(ForbiddenError, match="'a'"):
        Owners(B, find_in(collided())).check(RUN, process, attempt)


def test_a_request_of_a_million_runs_is_not_a_million_queries() -> None:
    """Each span could name a run of its own, and each was looked up, twice."""
    asked: list[str] = []

    def find(run_id: str) -> list[RunStart]:
        asked.append(run_id)
        return []

    owners = Owners(A, find)
    for number in range(MAX_RUNS):
        for _ in range(3):
            owners.check(f"a/{number}", None, None)
    assert len(asked) == MAX_RUNS
    with pytest.raises(BadRequestError, match=f"more than {MAX_RUNS} runs"):
        owners.check("a/one-too-many", None, None)
    assert len(asked) == MAX_RUNS
    owners.check("a/0", None, None)
