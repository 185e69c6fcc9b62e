from fastapi import FastAPI
from starlette.testclient import TestClient

from longpole_dashboards.addresses import report_address
from longpole_dashboards.reading import Reader
from longpole_dashboards.report.route import register_report
from support.dashboard_fake_service import LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9


def client() -> TestClient:
    api = FastAPI()
    register_report(api, Reader(FakeService(NOW_NS)), lambda: NOW_NS)
    return TestClient(api)


def test_a_report_is_saved_under_the_name_of_its_run() -> None:
    answer = client().get(report_address(LIVE_RUN, "Europe/Berlin"))
    assert answer.status_code == 200
    assert "math-grpo-qwen3-8b-report.html" in answer.headers["content-disposition"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "times in Europe/Berlin" in answer.text


def test_who_names_no_run_or_none_that_is_there_hears_so() -> None:
    assert client().get("/report").status_code == 400
    answer = client().get("/report?run=nobody")
    assert answer.status_code == 404
    assert "nobody" in answer.text
    assert client().get(report_address(LIVE_RUN, "no/zone")).status_code == 200
