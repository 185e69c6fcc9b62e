from hypothesis import given
from hypothesis import strategies as st

from longpole_server.delivery.slack_blocks import make_blocks, make_fallback
from longpole_server.model.alert import AlertEvent
from support.alert_events import make_event, make_notice
from support.fake_slack import find_problems

long_texts = st.text(min_size=1, max_size=3).map(lambda text: text * 1_000) | st.text(max_size=9)
events = st.builds(
    make_event,
    st.integers(1, 10**6),
    kind=st.sampled_from(["firing", "repeated", "resolved"]),
    rule=long_texts,
    severity=st.sampled_from(["info", "warning", "critical"]),
    run_name=long_texts,
    entity_kind=st.sampled_from(["run", "gpu"]),
    entity_id=long_texts,
    summary=long_texts,
    cause=long_texts,
    first_look=long_texts,
    value=st.floats(allow_nan=True),
)


@given(st.lists(events, min_size=1, max_size=20))
def test_no_message_breaks_slacks_limits(found: list[AlertEvent]):
    notice = make_notice(*found)
    blocks = make_blocks(notice)
    assert find_problems({"text": make_fallback(notice), "blocks": blocks}) == []


def test_nothing_in_a_text_is_markup():
    notice = make_notice(make_event(summary="<!channel> & <http://x|y>"))
    (_, section, *_) = make_blocks(notice)
    assert "&lt;!channel&gt; &amp; &lt;http://x|y&gt;" in section["text"]["text"]
    assert section["text"]["text"].endswith(
        "<http://dashboard/run?id=team%2Frun&alert=alert-1&from=0&to=4#run-health"
        "|Open the dashboard>"
    )


def test_names_neither_style_nor_link_nor_call_anybody():
    name = "*bold* `code` ~gone~ _aside_ snake_case <!here> #general"
    notice = make_notice(make_event(summary=name, entity_kind="gpu", entity_id=name))
    (_, section, context, _) = make_blocks(notice)
    text = section["text"]["text"]
    title, summary, *_ = text.split("\n")
    assert [title.count(mark) for mark in "*`~"] == [2, 0, 0], "the title's own alone"
    assert "snake_case" in summary
    assert not set("*`~<") & set(summary)
    assert "_aside_" not in summary
    assert section["text"]["verbatim"] is context["elements"][0]["verbatim"] is True
    assert "<!here" not in make_fallback(notice)


@given(st.sampled_from("&<>"), st.integers(1, 3_000))
def test_the_link_of_a_message_is_never_cut(letter: str, count: int):
    text = letter * count
    event = make_event(summary=text, cause=text, first_look=text, rule=text)
    (_, section, *_) = make_blocks(make_notice(event))
    assert section["text"]["text"].endswith("#run-health|Open the dashboard>")
    assert not section["text"]["text"].count("&amp…")
    assert find_problems({"text": make_fallback(make_notice(event)), "blocks": [section]}) == []
