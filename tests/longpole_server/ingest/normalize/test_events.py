import pytest

from longpole_server.model.records import UNKNOWN_STEP, RunEnd, StageStart
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed


def test_an_open_stage() -> None:
    records = Feed().event(
        otlp.process(),
        "rl.stage.start",
        15,
        **{"rl.loop.iteration": 3, "rl.stage": "generate_sequences", "rl.start_ns": otlp.at(5)},
    )

    assert records.stage_starts == [
        StageStart("run", 1, 3, "gen", otlp.at(5), otlp.at(15), "node0", 100, "controller")
    ]
    assert [start.declared for start in records.run_starts] == [False]


@pytest.mark.parametrize(("sent", "kept"), [("step", "step"), ("gen", "gen"), ("mine", "mine")])
def test_stages_get_their_canonical_name(sent: str, kept: str) -> None:
    (start,) = Feed().event(otlp.process(), "rl.stage.start", 1, **{"rl.stage": sent}).stage_starts

    assert (start.stage, start.step, start.start_ns) == (kept, UNKNOWN_STEP, otlp.at(1))


def test_the_end_of_a_run() -> None:
    records = Feed().event(otlp.process(), "rl.run.end", 9, **{"rl.status": "Crashed"})

    assert records.run_ends == [RunEnd("run", 1, otlp.at(9), "crashed")]


def test_an_end_without_a_status_is_a_good_one() -> None:
    records = Feed().event(otlp.process(), "rl.run.end", 9)

    assert records.run_ends[0].status == "finished"


def test_the_event_name_may_be_an_attribute() -> None:
    records = Feed().event(otlp.process(), "", 9, **{"event.name": "rl.run.end"})

    assert len(records.run_ends) == 1


def test_other_logs_are_counted_and_left_out() -> None:
    feed = Feed()

    records = feed.event(otlp.process(), "something.else", 9)

    assert len(records) == 0
    assert feed.normalizer.stats.num_ignored == 1
