import pytest
from starlette.testclient import TestClient

TARGETS = "/api/v1/prometheus/targets"


def list_jobs(client: TestClient, query: str) -> set[str]:
    answer = client.get(f"/api/v1/scrape-targets?{query}")
    assert answer.status_code == 200, answer.text
    return {target["job_name"] for target in answer.json()["scrape_targets"]}


@pytest.mark.parametrize(
    ("base_url", "port"),
    [
        ("http://127.0.0.1:8470", 8470),
        ("http://[::1]:8470", 8470),
        ("http://longpole.example", 80),
        ("https://longpole.example", 443),
    ],
)
def test_otlp_is_taken_where_the_client_asked(client: TestClient, base_url: str, port: int):
    answer = client.get(f"{base_url}/api/v1/services")
    assert answer.json()["otlp_port"] == port


def test_a_loopback_page_belongs_to_the_node_that_the_request_names(client: TestClient):
    body = {"job_name": "of-node", "host": "node-a", "targets": ["127.0.0.1:9092"]}
    assert client.post(TARGETS, json=body).status_code == 200
    assert list_jobs(client, "host=node-a") == {"of-node"}
    assert "of-node" not in list_jobs(client, "host=node-b")


@pytest.mark.parametrize("query", ["", "?host=", "?host=" + "h" * 256])
def test_an_agent_names_its_host(client: TestClient, query: str):
    answer = client.get(f"/api/v1/scrape-targets{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "bad_request"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "bad_request"),
        (b"[]", 400, "bad_request"),
        (b'{"targets": []}', 400, "bad_request"),
        (b'{"targets": ["http://node-7:9092"]}', 400, "bad_request"),
        (b'{"targets": ["node-7:9092"], "labels": {"__scheme__": "https"}}', 400, "bad_request"),
        (b" " * ((1 << 20) + 1), 413, "too_large"),
    ],
)
def test_what_is_refused_says_why(client: TestClient, body: bytes, status: int, code: str):
    answer = client.post(TARGETS, content=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["code"] == code
