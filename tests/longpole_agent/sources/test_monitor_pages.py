from collections.abc import Sequence

import pytest

from longpole_agent.sources.monitor_pages import MonitorPage
from longpole_agent.sources.pages import PageError, PageGoneError
from longpole_agent.sources.source import Point

LABELS = '{experiment_name="ppo",project="proj"}'


class Page:
    """A page whose text the test sets; each pause moves on to the next of `later`."""

    def __init__(self) -> None:
        self.text: str | PageError = ""
        self.later: list[str | PageError] = []
        self.page = MonitorPage(self._fetch, self._fetch, self._pause)

    def _fetch(self, target: str) -> str:
        if isinstance(self.text, PageError):
            raise self.text
        return self.text

    def _pause(self, _: float) -> None:
        if self.later:
            self.text = self.later.pop(0)

    def read(self, ts_ns: int = 5) -> dict[str, tuple[int, float | None]]:
        return {point.metric: (_step(point), point.value) for point in self.points(ts_ns)}

    def points(self, ts_ns: int = 5) -> Sequence[Point]:
        return self.page.read("node:9092", ts_ns)


def _step(point: Point) -> int:
    ((key, step),) = point.attributes
    assert key == "rl.loop.iteration"
    assert isinstance(step, int)
    return step


def show(**gauges: float) -> str:
    return "".join(f"rl_insight_monitor_{name}{LABELS} {value}\n" for name, value in gauges.items())


def test_a_step_is_told_once_under_the_names_verl_gave() -> None:
    page = Page()
    page.text = show(training_global_step=3, timing_s_gen=1.5, actor_lr=1e-6)
    assert page.read() == {
        "training/global_step": (3, 3.0),
        "timing_s/gen": (3, 1.5),
        "actor/lr": (3, 1e-6),
    }
    assert page.read() == {}


def test_points_name_the_run() -> None:
    page = Page()
    page.text = show(training_global_step=1)
    (point,) = page.points(7)
    assert point.ts_ns == 7
    assert set(point.resource) >= {("project", "proj"), ("experiment_name", "ppo")}


def test_a_page_that_is_being_written_is_read_until_it_stands_still() -> None:
    page = Page()
    page.text = show(training_global_step=1, timing_s_gen=1.0)
    page.read()
    page.text = show(training_global_step=1, timing_s_gen=2.0)
    page.later = [show(training_global_step=2, timing_s_gen=2.0)]
    assert page.read() == {"training/global_step": (2, 2.0), "timing_s/gen": (2, 2.0)}


def test_a_page_that_never_stands_still_tells_nothing() -> None:
    page = Page()
    page.text = show(training_global_step=1)
    page.later = [show(training_global_step=1, x=value) for value in range(50)]
    assert page.read() == {}


def test_a_trainer_that_ends_while_its_page_is_read_leaves_its_last_step() -> None:
    """What stands there unchanged may be the step's before: the page may have been cut off."""
    page = Page()
    page.text = show(training_global_step=1, timing_s_gen=1.0, actor_lr=1e-6)
    page.read()
    page.text = show(training_global_step=2, timing_s_gen=2.0, actor_lr=1e-6)
    page.later = [PageGoneError("Connection refused")]
    assert page.read() == {"training/global_step": (2, 2.0), "timing_s/gen": (2, 2.0)}
    with pytest.raises(PageGoneError):
        page.read()


def test_what_a_dying_trainer_set_before_its_step_is_no_earlier_step_s() -> None:
    page = Page()
    page.text = show(training_global_step=1, timing_s_gen=1.0)
    page.read()
    page.text = show(training_global_step=1, timing_s_gen=2.0)
    page.later = [PageGoneError("Connection refused")]
    assert page.read() == {}


def test_a_page_that_is_late_for_once_is_read_again_later() -> None:
    """It may have been in the middle of a step."""
    page = Page()
    page.text = show(training_global_step=2, timing_s_gen=1.0)
    page.later = [PageError("no answer within 2 s")]
    with pytest.raises(PageError):
        page.read()
    page.text = show(training_global_step=2, timing_s_gen=2.0)
    assert page.read() == {"training/global_step": (2, 2.0), "timing_s/gen": (2, 2.0)}


def test_what_an_earlier_step_left_behind_is_not_the_new_one_s() -> None:
    page = Page()
    page.text = show(training_global_step=1, timing_s_testing=9.0, actor_lr=1.0, val_core_a=0.5)
    page.read()
    page.text = show(training_global_step=2, timing_s_testing=9.0, actor_lr=1.0, val_core_a=0.5)
    assert page.read() == {"training/global_step": (2, 2.0), "actor/lr": (2, 1.0)}


def test_what_is_logged_later_in_the_same_step_is_added_to_it() -> None:
    page = Page()
    page.text = show(training_global_step=1, actor_lr=1.0)
    page.read()
    page.text = show(training_global_step=1, actor_lr=1.0, critic_score_mean=0.5)
    assert page.read() == {"critic/score/mean": (1, 0.5)}


def test_before_the_first_step_nothing_is_known() -> None:
    page = Page()
    page.text = show(val_core_toy_acc=0.1)
    assert page.read() == {}


def test_steps_that_nobody_saw_are_counted() -> None:
    page = Page()
    for step in (1, 2, 5):
        page.text = show(training_global_step=step)
        page.read()
    assert page.page.num_missed_steps == 2


def test_gauges_that_describe_samples_are_left_out() -> None:
    page = Page()
    page.text = (
        show(training_global_step=1)
        + 'rl_insight_monitor_agent_loop_traj_info{traj="1"} 1\npython_info{x="y"} 1\n'
        + 'rl_insight_monitor_other{worker="3"} 1\n'
    )
    assert page.read() == {"training/global_step": (1, 1.0)}


def test_the_fully_asynchronous_trainer_counts_versions() -> None:
    page = Page()
    page.text = show(training_global_step=40, fully_async_count_current_param_version=10)
    assert page.read()["training/global_step"] == (10, 40.0)


def test_a_glance_tells_whether_a_new_step_is_there() -> None:
    page = Page()
    page.text = ""
    assert not page.page.has_moved("node:9092")
    page.text = show(training_global_step=1, timing_s_gen=1.0)
    assert page.page.has_moved("node:9092")
    page.read()
    page.text = show(training_global_step=1, timing_s_gen=2.0)
    assert not page.page.has_moved("node:9092")
    page.text = show(training_global_step=2)
    assert page.page.has_moved("node:9092")
