"""Whatever times spans come with, the steps made of them are steps."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import RunFacts, StepInputs
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

WILD_NS = st.sampled_from(
    [0, 1, 1_760_000_000, 1_760_000_000_000, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
)
MONTH_S = 31 * 86_400
STAGES = ("gen", "reward", "old_log_prob", "update_actor", "update_weights", "testing", "magic")


@st.composite
def stage_spans(draw: st.DrawFn) -> otlp.Span:
    """Draw a stage of step 1, of which one end or both may be wild."""
    start_s, end_s = sorted((draw(st.floats(-20, 120)), draw(st.floats(-20, 120))))
    span = otlp.stage(
        draw(st.sampled_from(STAGES)), 1, start_s, end_s, trace=b"t" * 16, parent=b"l" * 8
    )
    which = draw(st.sampled_from(("none", "none", "start", "end", "both", "swapped")))
    if which in {"start", "both"}:
        span.start_time_unix_nano = draw(WILD_NS)
    if which in {"end", "both"}:
        span.end_time_unix_nano = draw(WILD_NS)
    if which == "swapped":
        span.start_time_unix_nano, span.end_time_unix_nano = otlp.at(end_s), otlp.at(start_s)
    return span


@settings(max_examples=120)
@given(
    st.lists(stage_spans(), max_size=8),
    st.sampled_from(("sound", "none", "wild start", "wild end")),
    st.data(),
)
def test_a_step_of_wild_spans_adds_up_and_lies_in_our_time(
    spans: list[otlp.Span], loop: str, data: st.DataObject
):
    if loop != "none":
        whole = otlp.loop(1, 0, 100, trace=b"t" * 16, id=b"l" * 8)
        if loop == "wild start":
            whole.start_time_unix_nano = data.draw(WILD_NS)
        if loop == "wild end":
            whole.end_time_unix_nano = data.draw(WILD_NS)
        spans = [*spans, whole]
    # Late, twice and in any order.
    sent = data.draw(st.permutations([*spans, *spans[:2]]))
    feed, records = Feed(), Records()
    for span in sent:
        feed.normalizer.normalize(
            "traces", otlp.traces((otlp.process(), [span])), otlp.at(130), records
        )

    step = assemble_step(
        StepInputs(
            RunFacts("run", "run"),
            attempt=1,
            step=1,
            spans=records.stage_spans,
            successor_start_ns=otlp.at(110),
        )
    )

    assert feed.normalizer.stats.num_skipped == 0
    if step.duration_s is None:
        return
    assert step.duration_s <= MONTH_S
    if records.stage_spans:
        assert abs(step.start_ns - otlp.at(0)) <= MONTH_S * otlp.NS
    if loop == "sound":
        assert (step.start_ns, step.end_ns) == (otlp.at(0), otlp.at(100))
    if step.stages:
        parts = [*(stage.exclusive_s for stage in step.stages), step.unattributed_s or 0.0]
        assert min(parts) >= 0
        assert math.fsum(parts) == pytest.approx(step.duration_s, rel=1e-12, abs=1e-9)
