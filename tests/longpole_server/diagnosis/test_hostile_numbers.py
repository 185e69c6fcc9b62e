"""Whatever numbers a trainer logs, the diagnosis is made, and is strict JSON."""

import json
import math
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis import diagnose, diagnosis_document, make_baseline
from longpole_server.model.facts import RunFacts, StepFacts
from support import verl_logs
from support.steps import inputs

KINDS = ("first", "0.9-v0", "0.9-v1", "one_step_off", "fully_async", "separate_async")
CALLS = {kind: verl_logs.merged(verl_logs.log_calls(kind, 2, critic=True)) for kind in KINDS}
NUMBERS = st.one_of(
    st.sampled_from(
        [0.0, -0.0, -1.0, 5e-324, 1e-300, 1e-9, 1e9, 1e18, 1e300, sys.float_info.max, math.inf]
    ),
    st.just(math.nan),
    st.floats(),
)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_any_numbers(data: st.DataObject, kind: str):
    run = RunFacts("run", "run", system="verl", gpu_model="NVIDIA H100 80GB HBM3")
    scalars = dict(CALLS[kind][2])
    names = data.draw(st.lists(st.sampled_from(sorted(scalars)), unique=True, max_size=8))
    scalars |= {name: data.draw(NUMBERS, label=name) for name in names}
    steps = [
        StepFacts(assemble_step(inputs((), scalars, run=run, step=step)), scalars)
        for step in range(1, 8)
    ]
    diagnosis = diagnose(run, steps, make_baseline(steps))
    document = json.loads(json.dumps(diagnosis_document(diagnosis), allow_nan=False))
    if document["window"]["num_judged"]:
        assert abs(sum(document["shares"].values()) - 1) < 1e-6
        assert all(0 <= share <= 1 for share in document["shares"].values())
    for facts in steps:
        for number in (facts.step.tokens_total, facts.step.start_ns, facts.step.end_ns):
            assert number is None or abs(number) < 2**63
