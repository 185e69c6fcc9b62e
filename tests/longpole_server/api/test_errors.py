import pytest
from starlette.testclient import TestClient


def error_of(client: TestClient, method: str, path: str, status: int, **sent: object) -> str:
    answer = client.request(method, path, **sent)  # type: ignore[arg-type]
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "hint"}
    assert "Traceback" not in answer.text
    return body["error"]["code"]


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/nothing",
        "/api/v2/runs",
        "/v1/nothing",
        "/v1/",
        "/api/v1/runs/nobody",
        "/api/v1/runs/nobody/steps",
        "/api/v1/runs/nobody/steps/1",
        "/api/v1/runs/nobody/steps/1/trajectories",
        "/api/v1/runs/nobody/trajectories/1",
        "/api/v1/runs/nobody/diagnosis",
        "/api/v1/runs/nobody/metrics?name=x",
        "/api/v1/runs/nobody/compare?with=project%2Fother",
        "/api/v1/runs/project%2Fother/compare?with=nobody",
        "/api/v1/runs/nobody/steps/99999999999999999999",
    ],
)
def test_what_does_not_exist_is_404(client: TestClient, path: str):
    assert error_of(client, "GET", path, 404) == "not_found"


@pytest.mark.parametrize(
    "query",
    [
        "/steps?limit=0",
        "/steps?limit=10001",
        "/steps?from=one",
        "/steps?cursor=%21",
        "/steps?cursor=bzE1eA",
        "/steps/1/trajectories?limit=10001",
        "/steps/1/trajectories?sort=random",
        "/metrics?name=",
        "/diagnosis?from=x",
        "/steps?from=3&to=2",
        "/steps?from=9223372036854775808",
        "/compare",
        "/compare?with=",
        "/compare?with=project%2Fother&from=3&to=2",
        "/compare?with=project%2Fother&with_from=3&with_to=2",
        "/compare?with=project%2Fother&with_from=x",
        "/diagnosis?from=3&to=2",
    ],
)
def test_what_makes_no_sense_is_400(client: TestClient, run_path: str, query: str):
    assert error_of(client, "GET", run_path + query, 400) == "bad_request"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/api/v1/runs", "GET"),
        ("DELETE", "/api/v1/runs/a/b/diagnosis", "GET"),
        ("DELETE", "/api/v1/gpus", "GET"),
        ("PUT", "/api/v1/health", "GET"),
        ("GET", "/api/v1/import", "POST"),
        ("PATCH", "/api/v1/silences", "GET, POST"),
    ],
)
def test_another_method_of_a_path_is_405(client: TestClient, method: str, path: str, allowed: str):
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_any_method_of_an_unknown_path_is_404(client: TestClient):
    for method in ("GET", "POST", "DELETE"):
        assert error_of(client, method, "/api/v1/nothing", 404) == "not_found"
