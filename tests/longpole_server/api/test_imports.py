from pathlib import Path

from starlette.testclient import TestClient

SAMPLES = Path(__file__).parents[2] / "data"
MODIFIED_NS = 1_700_000_000_000_000_000


def test_a_log_becomes_a_run(client: TestClient):
    log = (SAMPLES / "verl_file_balanced.jsonl").read_bytes()
    path = f"/api/v1/import?name=verl_file_balanced.jsonl&modified_ns={MODIFIED_NS}"
    first = client.post(path, content=log)
    assert first.status_code == 200, first.text
    document = first.json()
    assert set(document) == {"run_id", "batch_id", "num_steps", "is_derived"}
    assert document["run_id"] == "import/verl_file_balanced"
    assert document["is_derived"] is True
    steps = client.get("/api/v1/runs/import%2Fverl_file_balanced/steps").json()["steps"]
    assert len(steps) == document["num_steps"]
    assert client.post(path, content=log).json() == document
    assert client.get("/api/v1/runs/import%2Fverl_file_balanced/steps").json()["steps"] == steps


def test_the_run_can_be_named(client: TestClient):
    log = (SAMPLES / "verl_file_balanced.jsonl").read_bytes()
    document = client.post("/api/v1/import?run=mine/one", content=log).json()
    assert document["run_id"] == "mine/one"
    assert client.get("/api/v1/runs/mine%2Fone").json()["state"] == "imported"


def test_what_cannot_be_imported_is_refused(client: TestClient):
    num_runs = len(client.get("/api/v1/runs").json()["runs"])
    for content, status, code in (
        (b"", 400, "bad_request"),
        (b"\x00\x01\x02" * 99, 422, "unreadable_log"),
        (b"nothing to see here\n" * 9, 422, "unreadable_log"),
        (b"x" * ((1 << 20) + 1), 413, "too_large"),
    ):
        answer = client.post("/api/v1/import?name=x.log", content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    refused = client.post("/api/v1/import?run=a/steps/3", content=b"x")
    assert refused.status_code == 400
    assert len(client.get("/api/v1/runs").json()["runs"]) == num_runs
