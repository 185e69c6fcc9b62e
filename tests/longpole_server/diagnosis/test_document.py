import json

from longpole_server.diagnosis import diagnose, diagnosis_document
from longpole_server.model.facts import RunFacts
from support.diagnosis_schema import KEYS
from support.steps import read_facts


def test_no_key_is_left_out():
    for diagnosis in (diagnose(RunFacts("run", "run"), []), diagnose(*read_facts(LOG))):
        document = diagnosis_document(diagnosis)
        assert set(document) == set(KEYS)
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        assert "unattributed" in diagnosis_document(diagnosis)["shares"]  # pyright: ignore[reportOperatorIssue]


LOG = "verl_console_long_tail.log"


def test_shape():
    document = json.loads(json.dumps(diagnosis_document(diagnose(*read_facts(LOG)))))
    assert document["schema"] == "longpole.diagnosis/1"
    assert set(document["run"]) == {"run_id", "name", "system", "mode"}
    assert set(document["window"]) == {"from", "to", "num_judged", "excluded"}
    assert set(document["throughput"]) == {
        "tokens_per_s_per_gpu",
        "tokens",
        "step_s",
        "gpus",
        "baseline",
    }
    assert set(document["mfu"]) == {"actor", "actor_stage", "infer", "step"}
    for figure in document["mfu"].values():
        assert set(figure) == {"value", "source", "reason"}
        assert (figure["value"] is None) == (figure["source"] is None)
        assert (figure["value"] is None) == (figure["reason"] is not None)
    for row in document["evidence"]:
        assert set(row) == {
            "metric",
            "value",
            "unit",
            "compared_with",
            "effect",
            "layer",
            "source",
        }
    for step in document["steps"]:
        assert set(step) == {"step", "duration_s", "verdict", "confidence", "shares"}
        assert abs(sum(step["shares"].values()) - 1) < 1e-6
    assert all(set(look) == {"text", "keys"} for look in document["next"])
    assert abs(sum(document["shares"].values()) - 1) < 1e-6
