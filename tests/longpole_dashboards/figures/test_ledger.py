# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

from longpole_dashboards.figures.ledger import step_ledger
from support.dashboard_steps import make_step
from support.plotly_figures import check_figure


def test_stages_and_unattributed_add_up_to_the_step() -> None:
    step = make_step(1, {"gen": 60.0, "ref": 4.0}, unattributed_s=1.0)
    figure: Any = check_figure(step_ledger(step, {}, theme="dark"))
    assert sum(figure.data[0].x) == step.duration_s
    assert list(figure.layout.yaxis.ticktext) == ["gen", "ref", "unattributed"]


def test_the_usual_is_marked_only_where_it_is_known() -> None:
    figure: Any = check_figure(step_ledger(make_step(1), {"gen": 50.0}, theme="dark"))
    assert list(figure.data[1].x) == [50.0]
    details = {row[0]: row[3] for row in figure.data[0].customdata}
    assert details["gen"] == "+20 %"
    assert details["update actor"] == "no earlier step"


def test_labels_say_seconds_and_share() -> None:
    step = make_step(1, {"gen": 60.0, "adv": 0.5}, unattributed_s=None)
    figure: Any = check_figure(step_ledger(step, {}, theme="dark"))
    words = [text.split() for text in figure.data[2].text]
    assert words == [["60.0", "s", "99", "%"], ["500", "ms", "0.8", "%"]]


def test_without_stages_the_source_is_named() -> None:
    figure: Any = check_figure(step_ledger(make_step(1, {}, unattributed_s=None), {}, theme="dark"))
    assert "longpole.stage()" in figure.layout.annotations[0].text.replace("<br>", " ")
