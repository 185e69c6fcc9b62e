from longpole_server.delivery.notice import make_parts, make_text, make_title
from support.alert_events import make_event, make_notice
from support.alert_histories import at


def test_it_says_run_numbers_cause_and_where_to_look():
    text = make_text(make_notice())
    assert make_title(make_notice()) == "team/run: Loss is not a number"
    assert text == (
        "[critical] Loss is not a number\n"
        "It took 2 s.\n"
        "value 2 s · usual 0.5 s · limit 1 s · since step 4 · first seen 2023-11-14 22:13:30 UTC\n"
        "Likely cause: Something slow.\n"
        "Look first at: The slow thing.\n"
        "http://dashboard/run?id=team%2Frun&alert=alert-1&from=0&to=4#run-health"
    )


def test_alerts_of_one_rule_are_told_as_one():
    events = [
        make_event(number, rule="gpu.lost", entity_kind="gpu", entity_id=f"GPU-{number}")
        for number in range(1, 9)
    ]
    (part,) = make_parts(make_notice(*events))
    assert part.title == "GPU lost (8): GPU-1, GPU-2, GPU-3, GPU-4, GPU-5 and 3 more"


def test_gpus_are_called_by_node_and_index_where_that_is_known():
    events = [
        make_event(number, rule="gpu.lost", entity_kind="gpu", entity_id=f"GPU-{number}")
        for number in (1, 2)
    ]
    (part,) = make_parts(make_notice(*events, names={"GPU-1": "node-7/3"}))
    assert part.title == "GPU lost: node-7/3, GPU-2"


def test_when_all_is_over_the_headline_says_so():
    ends = {
        f"alert-{number}": make_event(
            number, alert_id=f"alert-{number}", kind="resolved", ts_ns=at(190), rule=rule
        )
        for number, rule in ((1, "loss.nan"), (2, "kl.high"))
    }
    events = [make_event(1), make_event(2, rule="kl.high")]
    notice = make_notice(*events, ends=ends)
    assert make_title(notice) == "team/run: over: 2 alerts"
    # An earlier message, brought up to date: it had said that it lasted 0 s.
    assert [part.facts for part in make_parts(notice)] == ["It lasted 3 min."] * 2


def test_three_things_at_once_are_one_message():
    events = [
        make_event(1, severity="warning", rule="kl.high"),
        make_event(2),
        make_event(3, kind="resolved", alert_id="alert-0", rule="gpu.lost", ts_ns=at(70)),
    ]
    notice = make_notice(*events)
    assert make_title(notice) == "team/run: 2 alerts, 1 over"
    assert [part.title for part in make_parts(notice)] == [
        "Loss is not a number",
        "kl.high",
        "over: GPU lost",
    ]


def test_what_is_over_says_how_long_it_lasted():
    notice = make_notice(make_event(kind="resolved", ts_ns=at(190), comment="the run finished"))
    assert notice.is_over
    (part,) = make_parts(notice)
    assert part.facts == "It lasted 3 min (the run finished)."
    assert part.advice == ""


def test_repeats_say_how_often():
    (part,) = make_parts(make_notice(make_event(kind="repeated", count=40, ts_ns=at(400))))
    assert part.title == "still: Loss is not a number"
    assert "seen 40 times, first 2023-11-14 22:13:30 UTC, last" in part.facts


def test_what_belongs_to_no_run_is_the_servers():
    event = make_event(run_id="", run_name="", project="", entity_kind="server")
    assert make_title(make_notice(event)) == "Longpole server: Loss is not a number"


def test_a_digest_names_the_run_of_each_alert():
    events = [
        make_event(1, rule="kl.high", run_id="a", run_name="a"),
        make_event(2, rule="kl.high", run_id="b", run_name="b"),
    ]
    notice = make_notice(*events)
    assert make_title(notice) == "2 runs: 2 alerts"
    assert [part.title for part in make_parts(notice)] == ["kl.high (team/a)", "kl.high (team/b)"]
