# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards.figures.template import message_figure, step_axis, template, wrap
from longpole_dashboards.theme import ROLES
from support.plotly_figures import check_figure


def test_both_themes_have_a_template_of_their_own_colours() -> None:
    for name in ROLES:
        made: Any = template(name)
        assert made["layout"]["hoverlabel"]["bgcolor"] == ROLES[name].raised
        assert made["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"


def test_a_message_stands_alone() -> None:
    figure: Any = check_figure(message_figure("Nothing yet", "light"))
    assert figure.layout.annotations[0].text == "Nothing yet"
    assert figure.layout.xaxis.visible is False


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1))
def test_wrapping_keeps_every_word_in_order(words: list[str]) -> None:
    lines = wrap(" ".join(words), 20).split("<br>")
    assert " ".join(lines).split() == words
    assert all(len(line) <= 20 for line in lines)


def test_an_axis_of_few_steps_has_whole_ticks_and_room() -> None:
    axis = step_axis(5, 7)
    assert axis["dtick"] == 1
    assert axis["range"][1] - axis["range"][0] > 11
    assert "range" not in step_axis(1, 40)
