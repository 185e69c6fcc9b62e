from collections.abc import Mapping, Sequence

from longpole_server.model.step import Step
from longpole_server.read.step_memory import Edition, StepMemory


def make_step(edition: Edition) -> Step:
    attempt, number, version = edition
    return Step("run", number, attempt, version, None, None, None, (), None, ())


class Source:
    def __init__(self, gone: Sequence[Edition] = ()) -> None:
        self.asked: list[Sequence[Edition]] = []
        self.gone = gone

    def read(self, editions: Sequence[Edition]) -> Mapping[Edition, Step]:
        self.asked.append(list(editions))
        return {each: make_step(each) for each in editions if each not in self.gone}


def test_only_new_and_changed_steps_are_read() -> None:
    memory, source = StepMemory(), Source()
    first = [(1, 1, 10), (1, 2, 10)]
    assert memory.recall("run", first, source.read) == [make_step(each) for each in first]
    then = [(1, 1, 10), (1, 2, 20), (1, 3, 20)]
    assert memory.recall("run", then, source.read) == [make_step(each) for each in then]
    assert source.asked == [first, [(1, 2, 20), (1, 3, 20)]]


def test_runs_and_attempts_are_told_apart() -> None:
    memory, source = StepMemory(), Source()
    memory.recall("run", [(1, 1, 10)], source.read)
    memory.recall("other", [(1, 1, 10)], source.read)
    memory.recall("run", [(2, 1, 10)], source.read)
    assert len(source.asked) == 3


def test_a_step_that_is_gone_is_left_out() -> None:
    memory = StepMemory()
    source = Source(gone=[(1, 2, 10)])
    assert len(memory.recall("run", [(1, 1, 10), (1, 2, 10)], source.read)) == 1


def test_it_is_bounded() -> None:
    memory, source = StepMemory(max_steps=2), Source()
    memory.recall("run", [(1, 1, 1), (1, 2, 1), (1, 3, 1)], source.read)
    memory.recall("run", [(1, 2, 1), (1, 3, 1)], source.read)
    assert len(source.asked) == 1
    memory.recall("run", [(1, 1, 1)], source.read)
    assert len(source.asked) == 2
