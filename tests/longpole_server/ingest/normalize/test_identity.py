import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.ingest.normalize.identity import (
    ROUTE_WORDS,
    find_run_id,
    invent_run_id,
    make_addressable,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rl.run.id": "exp/7", "project": "p", "experiment_name": "e"}, "exp/7"),
        ({"project": "verl_examples", "experiment_name": "gsm8k"}, "verl_examples/gsm8k"),
        ({"rl.project": "p", "experiment_name": "e"}, "p/e"),
        ({"rl.project": "p", "rl.run.name": "n"}, "p/n"),
        ({"rl.run.id": "", "rl.project": "p", "rl.run.name": "n"}, "p/n"),
        ({"rl.run.id": " / "}, None),
        ({"rl.project": "p"}, None),
        ({"service.name": "trainer"}, None),
    ],
)
def test_the_run_id_is_the_declared_one_else_project_and_name(
    values: dict[str, str], expected: str | None
) -> None:
    assert find_run_id(values) == expected


def test_a_process_without_a_run_gets_one_of_service_and_host() -> None:
    assert invent_run_id("vllm", "node3") == "vllm@node3"
    assert invent_run_id("", "") == "unknown_service@unknown_host"


@pytest.mark.parametrize(
    ("run_id", "expected"),
    [
        ("exp", "exp"),
        ("a/b/c", "a/b/c"),
        ("a/steps", "a/steps_"),
        ("metrics", "metrics_"),
        ("a/steps/5", "a/steps_/5"),
        ("a/trajectories/x", "a/trajectories_/x"),
        ("steps/a/b", "steps/a/b"),
        ("a/compare/b", "a/compare/b"),
        ("/a/", "a"),
        ("a\nb", "a_b"),
        ("x" * 300, "x" * 256),
        ("größe/läuft", "größe/läuft"),
    ],
)
def test_an_id_that_reads_like_a_route_is_changed(run_id: str, expected: str) -> None:
    assert make_addressable(run_id) == expected


@given(st.text(min_size=1))
def test_an_addressable_id_stays_as_it_is(run_id: str) -> None:
    once = make_addressable(run_id)

    assert make_addressable(once) == once
    assert once.rsplit("/", 1)[-1] not in ROUTE_WORDS
