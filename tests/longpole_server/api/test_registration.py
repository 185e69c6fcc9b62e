import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.api.registration import read_registration
from longpole_server.errors import BadRequestError
from longpole_server.model.discovery import Registration


def read(document: object, address: str | None = None) -> Registration:
    return read_registration(json.dumps(document).encode(), address)


def test_what_the_client_sends():
    found = read(
        {
            "job_name": "rollout",
            "targets": [
                {"target": "10.0.0.7:8000", "labels": {"replica": "0"}},
                {"target": "10.0.0.8:8000"},
            ],
        },
        "10.0.0.1",
    )
    assert found == Registration(
        "rollout", (("10.0.0.7:8000", {"replica": "0"}), ("10.0.0.8:8000", {})), None, "10.0.0.1"
    )


def test_a_trainer_that_names_no_job_has_the_trainers_one():
    assert read({"targets": ["10.0.0.7:9092"]}) == Registration(
        "trainer_metrics", (("10.0.0.7:9092", {}),)
    )


def test_labels_of_the_request_hold_for_all_targets():
    found = read(
        {
            "host": "node-7",
            "project": "math",
            "experiment_name": "grpo",
            "labels": {"replica": 0, "kind": "vllm"},
            "targets": ["a:1", {"target": "b:1", "labels": {"replica": 1}}],
        }
    )
    shared = {"kind": "vllm", "project": "math", "experiment_name": "grpo"}
    assert found.host == "node-7"
    assert found.targets == (
        ("a:1", {**shared, "replica": "0"}),
        ("b:1", {**shared, "replica": "1"}),
    )


@pytest.mark.parametrize(
    "body",
    [
        "null",
        "[]",
        '"text"',
        "{}",
        '{"targets": null}',
        '{"targets": "a:1"}',
        '{"targets": {"target": "a:1"}}',
        '{"targets": [7]}',
        '{"targets": [{}]}',
        '{"targets": [{"target": 7}]}',
        '{"targets": [{"target": "a:1", "labels": []}]}',
        '{"targets": [{"target": "a:1", "labels": {"x": {}}}]}',
        '{"targets": [{"target": "a:1", "labels": {"x": null}}]}',
        '{"targets": ["a:1"], "labels": "x"}',
        '{"targets": ["a:1"], "job_name": 7}',
        '{"targets": ["a:1"], "host": ["node"]}',
    ],
)
def test_another_form_is_refused(body: str):
    with pytest.raises(BadRequestError) as raised:
        read_registration(body.encode(), None)
    assert "is expected" in raised.value.hint


@given(st.binary(max_size=60) | st.sampled_from((b"", b"{", b'{"targets": [NaN]}', b"\xff")))
def test_what_is_no_json_is_refused(body: bytes):
    with pytest.raises(BadRequestError):
        read_registration(body, None)
