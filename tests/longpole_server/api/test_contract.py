"""The HTTP API's contract: exact keys of every route, whatever is or is not reported."""

from typing import Any

import pytest
from starlette.testclient import TestClient


def keys(text: str) -> set[str]:
    return set(text.split())


RUN_KEYS = keys(
    "run_id name project system system_version algorithm mode mode_source state "
    "attempt started_ns last_seen_ns first_step last_step num_steps gpu_count "
    "step_duration_s throughput_tokens_per_s_per_gpu mfu_step staleness_max verdict "
    "confidence open_alerts open_stage time_estimated"
)
RUN_DETAIL_KEYS = RUN_KEYS | keys(
    "model_name model_config staleness_bound staleness_basis config attempts sources notes"
)
STEP_KEYS = keys(
    "step attempt start_ns end_ns duration_s closed_by stages unattributed_s outside "
    "tokens_total throughput_tokens_per_s_per_gpu mfu_actor mfu_infer mfu_step "
    "gpu_count verdict confidence notes"
)
STAGE_KEYS = keys(
    "stage exclusive_s inclusive_s share_ratio start_ns end_ns includes source windows"
)
STEP_DETAIL_KEYS = STEP_KEYS | keys(
    "gaps gpus replicas lanes sync_phases diagnosis previous following usual_s"
)
TRAJECTORY_KEYS = keys(
    "run_id attempt trajectory_id step phase group_id start_ns end_ns duration_s "
    "generate_s tool_s score_s queue_s paused_s input_tokens output_tokens turns "
    "preemptions status reward policy_version_start policy_version_end replica"
)
DIAGNOSIS_KEYS = keys(
    "schema run window verdict cause confidence summary recoverable_s_per_step "
    "recoverable_gpu_hours_per_day shares outside throughput mfu evidence findings "
    "next data_quality steps"
)
GPU_KEYS = keys(
    "host gpu_uuid gpu_index model ts_ns utilization_ratio memory_used_bytes "
    "memory_total_bytes sm_active_ratio tensor_active_ratio power_watts "
    "temperature_celsius run_id role"
)


def get(client: TestClient, path: str) -> dict[str, Any]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_runs(client: TestClient):
    page = get(client, "/api/v1/runs")
    assert set(page) == {"runs", "next"}
    assert page["next"] is None
    run = page["runs"][0]
    assert set(run) == RUN_KEYS
    assert run["state"] == "live"
    assert (run["first_step"], run["last_step"], run["num_steps"]) == (1, 3, 3)
    assert run["mode_source"] == "inferred"
    assert run["staleness_max"] is None
    assert set(run["open_stage"]) >= {"step", "stage", "since_ns"}
    assert (run["open_stage"]["step"], run["open_stage"]["stage"]) == (4, "gen")


def test_alerts_that_nothing_counts_are_null_and_not_zero(client: TestClient, run_path: str):
    for run in (get(client, "/api/v1/runs")["runs"][0], get(client, run_path)):
        assert run["open_alerts"] is None


def test_one_run(client: TestClient, run_path: str):
    run = get(client, run_path)
    assert set(run) == RUN_DETAIL_KEYS
    assert run["config"] == {"group_size": "8"}
    assert set(run["attempts"][0]) == keys(
        "attempt started_ns ended_ns status first_step last_step num_steps"
    )
    assert run["attempts"][0]["ended_ns"] is None
    assert {source["kind"] for source in run["sources"]} == {"process", "agent"}
    assert set(run["sources"][0]) == {"kind", "host", "pid", "role", "last_seen_ns"}


def test_a_run_id_may_come_with_its_slashes_plain(client: TestClient, run_path: str):
    assert get(client, "/api/v1/runs/project/seven of nine") == get(client, run_path)


def test_steps(client: TestClient, run_path: str):
    page = get(client, f"{run_path}/steps")
    assert set(page) == {"steps", "next"}
    assert [step["step"] for step in page["steps"]] == [1, 2, 3, 4]
    closed, opened = page["steps"][0], page["steps"][3]
    assert set(closed) == set(opened) == STEP_KEYS
    assert (closed["closed_by"], closed["duration_s"]) == ("loop", 10.0)
    assert set(closed["stages"][0]) == STAGE_KEYS
    total_s = sum(stage["exclusive_s"] for stage in closed["stages"]) + closed["unattributed_s"]
    assert total_s == pytest.approx(closed["duration_s"], abs=1e-9)
    assert closed["mfu_actor"] is None
    assert (opened["closed_by"], opened["duration_s"], opened["stages"]) == (None, None, [])


def test_a_range_of_steps_is_inclusive(client: TestClient, run_path: str):
    page = get(client, f"{run_path}/steps?from=2&to=3")
    assert [step["step"] for step in page["steps"]] == [2, 3]
    assert get(client, f"{run_path}/steps?from=90")["steps"] == []


def test_one_step(client: TestClient, run_path: str):
    step = get(client, f"{run_path}/steps/2")
    assert set(step) == STEP_DETAIL_KEYS
    assert (step["previous"], step["following"]) == (1, 3)
    assert step["replicas"] == ["replica-0"]
    assert set(step["gpus"][0]) == keys(
        "run_id attempt host gpu_uuid gpu_index role since_ns until_ns how model"
    )
    assert set(step["diagnosis"]) == DIAGNOSIS_KEYS


def test_an_open_step_is_judged_as_not_closed(client: TestClient, run_path: str):
    step = get(client, f"{run_path}/steps/4")
    assert set(step) == STEP_DETAIL_KEYS
    assert step["diagnosis"]["verdict"] is None


def test_trajectories(client: TestClient, run_path: str):
    page = get(client, f"{run_path}/steps/2/trajectories")
    assert set(page) == {"trajectories", "next"}
    samples = page["trajectories"]
    assert all(set(sample) == TRAJECTORY_KEYS for sample in samples)
    assert [sample["trajectory_id"] for sample in samples] == ["t2-2", "t2-1", "t2-0"]
    assert samples[0]["reward"] is None
    upwards = get(client, f"{run_path}/steps/2/trajectories?sort=duration&limit=2")
    assert [sample["trajectory_id"] for sample in upwards["trajectories"]] == ["t2-0", "t2-1"]


def test_one_trajectory(client: TestClient, run_path: str):
    sample = get(client, f"{run_path}/trajectories/t2-1")
    assert set(sample) == TRAJECTORY_KEYS | {"spans", "siblings"}
    assert set(sample["spans"][0]) == keys(
        "kind name start_ns end_ns turn input_tokens output_tokens"
    )
    assert {other["trajectory_id"] for other in sample["siblings"]} == {"t2-0", "t2-2"}


def test_diagnosis(client: TestClient, run_path: str):
    diagnosis = get(client, f"{run_path}/diagnosis")
    assert set(diagnosis) == DIAGNOSIS_KEYS
    assert diagnosis["schema"] == "longpole.diagnosis/1"
    assert sum(diagnosis["shares"].values()) == pytest.approx(1.0, abs=1e-6)
    assert set(diagnosis["window"]) == {"from", "to", "num_judged", "excluded"}
    part = get(client, f"{run_path}/diagnosis?from=2&to=2")
    assert [step["step"] for step in part["steps"]] == [2]


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("from=100", "from 100 on"),
        ("to=0", "up to 0"),
        ("from=100&to=200", "between 100 and 200"),
        ("from=4", "from 4 on"),
    ],
)
def test_a_diagnosis_of_a_range_without_closed_steps_names_the_range(
    client: TestClient, run_path: str, query: str, where: str
):
    diagnosis = get(client, f"{run_path}/diagnosis?{query}")
    said = f"No closed step {where}: there is nothing to judge."
    assert diagnosis["summary"] == said
    assert said in [note["summary"] for note in diagnosis["data_quality"]]
    asked = dict(pair.split("=") for pair in query.split("&"))
    for bound, number in asked.items():
        assert diagnosis["window"][bound] == int(number)


def test_metrics(client: TestClient, run_path: str):
    series = get(client, f"{run_path}/metrics?name=reward_mean")
    assert set(series) == {"name", "points", "next"}
    assert [set(point) for point in series["points"]] == [{"step", "ts_ns", "value"}] * 3
    assert [point["value"] for point in series["points"]] == [0.1, 0.2, 0.3]


def test_gpus(client: TestClient):
    page = get(client, "/api/v1/gpus")
    assert set(page) == {"gpus", "next"}
    assert set(page["gpus"][0]) == GPU_KEYS
    assert page["gpus"][0]["tensor_active_ratio"] is None
    assert page["gpus"][0]["run_id"] == "project/seven of nine"


def test_pages_lead_to_each_other(client: TestClient, run_path: str):
    seen: list[int] = []
    path = f"{run_path}/steps?limit=3"
    cursor = ""
    while True:
        page = get(client, path + cursor)
        seen += [step["step"] for step in page["steps"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [1, 2, 3, 4]
    samples = get(client, f"{run_path}/steps/2/trajectories?limit=2")
    following = get(client, f"{run_path}/steps/2/trajectories?limit=2&cursor={samples['next']}")
    assert [sample["trajectory_id"] for sample in following["trajectories"]] == ["t2-0"]
    assert following["next"] is None


def test_own_state(client: TestClient):
    assert get(client, "/api/v1/health")["status"] == "ok"
    assert get(client, "/api/v1/ready") == {"ready": True, "parts": {"store": True}}
    metrics = client.get("/metrics")
    assert metrics.status_code == 200
    assert metrics.text.splitlines() == [
        "# HELP longpole_things_total things",
        "# TYPE longpole_things_total counter",
        "longpole_things_total 3.0",
    ]


def test_openapi_names_every_route_and_loads_nothing_from_elsewhere(client: TestClient):
    schema = get(client, "/api/openapi.json")
    assert {
        "/api/v1/runs",
        "/api/v1/runs/{run}",
        "/api/v1/runs/{run}/steps",
        "/api/v1/runs/{run}/steps/{step}",
        "/api/v1/runs/{run}/steps/{step}/trajectories",
        "/api/v1/runs/{run}/trajectories/{trajectory}",
        "/api/v1/runs/{run}/diagnosis",
        "/api/v1/runs/{run}/metrics",
        "/api/v1/gpus",
        "/api/v1/import",
    } <= set(schema["paths"])
    assert set(schema["components"]["schemas"]["StepDocument"]["properties"]) == STEP_KEYS
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
