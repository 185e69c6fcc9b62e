"""Lines become updates of a run; a follower that starts again says what is new and no more."""

import json
from pathlib import Path

from longpole.conventions.metrics import STEP_SECONDS
from longpole_server.importers.following import (
    AttemptNumbers,
    Backlog,
    Follower,
    KnownStep,
    Update,
    survey_backlog,
)
from longpole_server.importers.reading import parse_lines

LOGS = Path(__file__).parents[2] / "data" / "logs"


def verl(step: int, seconds: float = 10.0) -> bytes:
    data = {"timing_s/step": seconds, "timing_s/gen": seconds * 0.8}
    return json.dumps({"step": step, "data": data}).encode() + b"\n"


def follow(
    lines: list[bytes], known: dict[int, KnownStep] | None = None, backlog: Backlog | None = None
) -> list[Update]:
    backlog = backlog or Backlog({}, None)
    follower = Follower(AttemptNumbers(known or {}, backlog), backlog, "run")
    return list(follower.follow(parse_lines(iter(lines), follower.summary)))


def survey(tmp_path: Path, lines: list[bytes]) -> Backlog:
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    return survey_backlog(path)


def numbers(updates: list[Update]) -> list[tuple[int, int]]:
    return [(update.step.attempt, update.step.step) for update in updates]


def test_each_line_comes_at_once() -> None:
    updates = follow([verl(1), verl(2), verl(3)])
    assert numbers(updates) == [(1, 1), (1, 2), (1, 3)]
    assert all(update.time_ns is None for update in updates)


def test_a_step_that_comes_again_otherwise_is_another_attempt() -> None:
    assert numbers(follow([verl(1), verl(2), verl(1, 11.0), verl(2, 12.0)])) == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]


def test_what_was_in_the_file_has_the_times_that_it_had(tmp_path: Path) -> None:
    lines = [verl(1), verl(2)]
    backlog = survey(tmp_path, lines)
    modified_ns = (tmp_path / "log").stat().st_mtime_ns
    updates = follow([*lines, verl(3)], backlog=backlog)
    assert [update.time_ns for update in updates] == [modified_ns - 10**10, modified_ns, None]


def test_the_same_content_has_the_same_id() -> None:
    first, again = follow([verl(1), verl(2)]), follow([verl(1), verl(2), verl(3)])
    assert [update.content_id for update in first] == [update.content_id for update in again[:2]]
    assert len({update.content_id for update in again}) == 3


def test_what_the_server_has_is_not_said_again(tmp_path: Path) -> None:
    lines = [verl(1), verl(2), verl(3)]
    known = {1: KnownStep(1, 10.0), 2: KnownStep(1, 10.0)}
    updates = follow(lines, known, survey(tmp_path, lines))
    assert numbers(updates) == [(1, 3)]


def test_after_a_truncation_that_nobody_saw_it_is_another_attempt(tmp_path: Path) -> None:
    lines = [verl(1, 7.0), verl(2, 7.5)]
    known = {step: KnownStep(1, 10.0) for step in (1, 2, 3)}
    assert numbers(follow(lines, known, survey(tmp_path, lines))) == [(2, 1), (2, 2)]


def test_after_a_rotation_that_nobody_saw_it_is_the_same_attempt(tmp_path: Path) -> None:
    lines = [verl(4), verl(5)]
    known = {step: KnownStep(2, 10.0) for step in (1, 2, 3)}
    assert numbers(follow(lines, known, survey(tmp_path, lines))) == [(2, 4), (2, 5)]


def test_the_file_of_a_second_attempt_is_recognised(tmp_path: Path) -> None:
    lines = [verl(1, 7.0), verl(2, 7.5), verl(3, 7.25)]
    known = {1: KnownStep(2, 7.0), 2: KnownStep(2, 7.5)}
    assert numbers(follow(lines, known, survey(tmp_path, lines))) == [(2, 3)]


def test_seconds_that_roll_logs_a_step_late_come_when_they_are_known() -> None:
    lines = (LOGS / "roll_console.log").read_bytes().splitlines(keepends=True)
    updates = follow(lines)
    assert numbers(updates) == [(1, 0), (1, 0), (1, 1), (1, 1), (1, 2)]
    assert [update.step.scalars.get(STEP_SECONDS) for update in updates] == [
        None,
        90.25,
        None,
        89.5,
        None,
    ]


def test_times_with_a_zone_are_kept_and_those_without_are_not() -> None:
    timed = (LOGS / "prime_rl_trainer.jsonl").read_bytes().splitlines(keepends=True)
    assert follow(timed)[0].time_ns == 1_795_970_472_100_000_000
    local = (LOGS / "openrlhf_console.log").read_bytes().splitlines(keepends=True)
    assert follow(local)[0].time_ns is None


def test_a_torn_line_is_not_said() -> None:
    assert numbers(follow([verl(1), verl(2)[:30]])) == [(1, 1)]
