"""The HTTP API's contract: exact keys of every route, whatever is or is not reported."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

RUN_ID = "project/seven of nine"
OTHER_RUN_ID = "project/other"


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
    "tokens_total tokens_response response_length_mean response_length_max "
    "throughput_tokens_per_s_per_gpu mfu_actor mfu_infer mfu_step "
    "gpu_count verdict confidence notes"
)
STAGE_KEYS = keys(
    "stage exclusive_s inclusive_s share_ratio start_ns end_ns includes source windows"
)
STEP_DETAIL_KEYS = STEP_KEYS | keys(
    "gaps gpus replicas lanes sync_phases diagnosis previous following usual_s "
    "long_tail long_tail_reason energy stragglers"
)
TRAJECTORY_KEYS = keys(
    "run_id attempt trajectory_id step phase group_id start_ns end_ns duration_s "
    "generate_s tool_s score_s queue_s paused_s input_tokens output_tokens turns "
    "preemptions status reward policy_version_start policy_version_end replica"
)
DIAGNOSIS_KEYS = keys(
    "schema run window step_s verdict cause confidence summary recoverable_s_per_step "
    "recoverable_s_per_step_range recoverable_gpu_hours_per_day recoverable_formula shares outside "
    "throughput mfu evidence sources findings next data_quality annotations "
    "decomposition steps"
)
COMPARED_WINDOW_KEYS = keys(
    "run_id name from to num_judged excluded attempts verdict num_verdict tokens gpus step_s "
    "outside_s throughput loop_throughput"
)
GPU_KEYS = keys(
    "host gpu_uuid gpu_index model ts_ns utilization_ratio memory_used_bytes "
    "memory_total_bytes sm_active_ratio tensor_active_ratio power_watts "
    "temperature_celsius run_id role how parent_uuid mig_profile"
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
    assert all(set(run) == RUN_KEYS for run in page["runs"])
    run = next(run for run in page["runs"] if run["run_id"] == RUN_ID)
    assert set(run) == RUN_KEYS
    assert run["state"] == "live"
    assert (run["first_step"], run["last_step"], run["num_steps"]) == (1, 3, 3)
    assert run["mode_source"] == "inferred"
    assert run["staleness_max"] is None
    assert set(run["open_stage"]) == keys(
        "step stage since_ns seen_ns usual_s usual_max_s step_since_ns"
    )
    assert (run["open_stage"]["step"], run["open_stage"]["stage"]) == (4, "gen")


def test_alerts_of_a_run_that_is_watched_are_counted(client: TestClient, run_path: str):
    for run in (*get(client, "/api/v1/runs")["runs"], get(client, run_path)):
        assert run["open_alerts"] == (None if run["state"] == "imported" else 0)


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
    assert set(page) == {"steps", "next", "annotations"}
    # Too few steps for a vote.
    assert page["annotations"] == []
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


def test_the_long_tail_of_a_step(client: TestClient, run_path: str):
    step = get(client, f"{run_path}/steps/2")
    tail = step["long_tail"]
    assert step["long_tail_reason"] is None
    assert set(tail) == keys(
        "num_samples gen_s span_s most_running idle_ratio rollout_gpus waste_gpu_s reason "
        "unclaimed_ratio stops by_replica by_group num_groups by_activity time tokens "
        "decode_bandwidth_ratio decode_bandwidth_reason"
    )
    assert tail["num_samples"] == 3
    assert [set(stop) for stop in tail["stops"]] == 3 * [
        keys("ratio saved_s samples_left tokens_left_ratio tokens_begun_ratio groups_left_ratio")
    ]
    assert set(tail["by_replica"][0]) == keys(
        "replica num_samples waste_ratio waste_gpu_s mean_tokens seconds_per_token mean_queue_s "
        "end_s early_s stop_saved_s"
    )
    assert set(tail["time"]) == keys("count mean p50 p90 p95 p99 largest")
    assert tail["decode_bandwidth_ratio"] is None
    assert tail["decode_bandwidth_reason"]
    opened = get(client, f"{run_path}/steps/4")
    assert opened["long_tail"] is None
    assert opened["long_tail_reason"] == "the step has not ended"


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
    assert set(sample) == TRAJECTORY_KEYS | {"spans", "siblings", "gpus", "replica_hosts"}
    assert set(sample["spans"][0]) == keys(
        "kind name start_ns end_ns turn input_tokens output_tokens"
    )
    assert {other["trajectory_id"] for other in sample["siblings"]} == {"t2-0", "t2-2"}


def test_diagnosis(client: TestClient, run_path: str):
    diagnosis = get(client, f"{run_path}/diagnosis")
    assert set(diagnosis) == DIAGNOSIS_KEYS
    assert diagnosis["schema"] == "longpole.diagnosis/1"
    assert sum(diagnosis["shares"].values()) == pytest.approx(1.0, abs=1e-6)
    assert set(diagnosis["run"]) == {"run_id", "name", "system", "mode"}
    assert set(diagnosis["window"]) == {"from", "to", "num_judged", "excluded"}
    assert set(diagnosis["window"]["excluded"][0]) == {"step", "reason"}
    assert "unattributed" in diagnosis["shares"]
    assert set(diagnosis["throughput"]) == keys("tokens_per_s_per_gpu tokens step_s gpus baseline")
    assert set(diagnosis["mfu"]) == {"actor", "actor_stage", "infer", "step"}
    assert {frozenset(figure) for figure in diagnosis["mfu"].values()} == {
        frozenset({"value", "source", "reason"})
    }
    assert {frozenset(row) for row in diagnosis["evidence"]} == {
        frozenset(keys("metric value unit compared_with effect layer source"))
    }
    assert {frozenset(look) for look in diagnosis["next"]} == {frozenset({"text", "keys"})}
    assert {frozenset(step) for step in diagnosis["steps"]} == {
        frozenset(keys("step duration_s verdict confidence shares"))
    }
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


def test_many_metrics_are_columns(client: TestClient, run_path: str):
    page = get(client, f"{run_path}/metrics?names=reward_mean&names=never/logged&from=2")
    assert set(page) == {"metrics", "next"}
    found, missing = page["metrics"]
    assert set(found) == {"name", "steps", "ts_ns", "values"}
    assert (found["name"], found["steps"], found["values"]) == ("reward_mean", [2, 3], [0.2, 0.3])
    assert len(found["ts_ns"]) == 2
    assert missing == {"name": "never/logged", "steps": [], "ts_ns": [], "values": []}
    assert page["next"] is None


def test_all_metrics_come_in_pages(client: TestClient, run_path: str):
    every = get(client, f"{run_path}/metrics")["metrics"]
    assert [metric["name"] for metric in every] == sorted(metric["name"] for metric in every)
    assert "critic/score/mean" in {metric["name"] for metric in every}
    paged: list[Any] = []
    cursor = ""
    while True:
        page = get(client, f"{run_path}/metrics?limit=1{cursor}")
        paged += page["metrics"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert paged == every


@pytest.mark.parametrize("query", ["name=a&names=b", "names=", "limit=0", "from=2&to=1"])
def test_metrics_asked_for_in_no_way_are_refused(client: TestClient, run_path: str, query: str):
    assert client.get(f"{run_path}/metrics?{query}").status_code == 400


def test_gpus(client: TestClient):
    page = get(client, "/api/v1/gpus")
    assert set(page) == {"gpus", "next"}
    assert set(page["gpus"][0]) == GPU_KEYS
    assert page["gpus"][0]["tensor_active_ratio"] is None
    assert page["gpus"][0]["run_id"] == "project/seven of nine"


def test_nodes(client: TestClient):
    page = get(client, "/api/v1/nodes")
    assert set(page) == {"nodes", "next"}
    node = page["nodes"][0]
    assert set(node) == keys(
        "host seen_ns num_gpus runs cpu_utilization_ratio memory_used_bytes memory_total_bytes "
        "network_receive_bytes_per_s network_transmit_bytes_per_s cpu_count disk_read_bytes_per_s "
        "disk_write_bytes_per_s fabric_receive_bytes_per_s fabric_transmit_bytes_per_s "
        "object_store_used_bytes object_store_total_bytes object_store_spilled_bytes "
        "spool_used_ratio agent_dropped_total clock_offset_s"
    )
    assert node["runs"] == ["project/seven of nine"]
    assert node["num_gpus"] > 0


def test_a_comparison_with_another_run(client: TestClient, run_path: str):
    other = quote(OTHER_RUN_ID, safe="")
    compared = get(client, f"{run_path}/compare?with={other}")
    assert set(compared) == keys(
        "schema run_id with_run_id window with_window change decomposition stages distributions "
        "config findings remarks"
    )
    assert compared["schema"] == "longpole.comparison/1"
    assert (compared["run_id"], compared["with_run_id"]) == (RUN_ID, OTHER_RUN_ID)
    for window in (compared["window"], compared["with_window"]):
        assert set(window) == COMPARED_WINDOW_KEYS
    assert compared["window"]["excluded"] == [
        {"step": 1, "reason": "first step of an attempt: it warms up"}
    ]
    assert (compared["window"]["from"], compared["window"]["to"]) == (2, 3)
    change = compared["change"]
    assert set(change) == keys(
        "quantity log_change factor log_change_of_steps factor_of_steps reason"
    )
    # The other run has made twice the tokens in the same time.
    assert change["quantity"] == "tokens_per_s_per_gpu"
    assert change["factor"] == pytest.approx(0.5)
    parts = compared["decomposition"]
    assert {frozenset(part) for part in parts} == {
        frozenset(keys("kind name unit value with_value log_change factor reason"))
    }
    assert sum(part["log_change"] for part in parts) == pytest.approx(
        change["log_change"], abs=1e-9
    )
    assert {part["kind"] for part in parts} == {"tokens", "gpus", "stage", "unattributed"}
    assert {frozenset(stage) for stage in compared["stages"]} == {
        frozenset(
            keys(
                "stage is_outside duration_s with_duration_s change_s ratio_to_step "
                "with_ratio_to_step"
            )
        )
    }
    assert [each["metric"] for each in compared["distributions"]] == [
        "duration_s",
        "output_tokens",
    ]
    for each in compared["distributions"]:
        assert set(each) == keys("metric unit value with_value")
        assert set(each["value"]) == set(each["with_value"]) == keys("count p50 p90 p99 max")
    assert compared["distributions"][0]["value"]["count"] == 6
    assert compared["distributions"][0]["with_value"] == {
        "count": 0,
        "p50": None,
        "p90": None,
        "p99": None,
        "max": None,
    }
    assert compared["config"] == [
        {"key": "group_size", "change": "changed", "value": "8", "with_value": "16"},
        {"key": "system", "change": "added", "value": "verl", "with_value": None},
    ]


def test_a_comparison_of_two_windows_of_one_run(client: TestClient, run_path: str):
    query = f"with={quote(RUN_ID, safe='')}&from=3&to=3&with_from=2&with_to=2"
    compared = get(client, f"{run_path}/compare?{query}")
    assert (compared["window"]["from"], compared["with_window"]["from"]) == (3, 2)
    assert compared["change"]["log_change"] == pytest.approx(0.0)
    assert compared["config"] == []


def test_a_comparison_without_closed_steps_says_why(client: TestClient, run_path: str):
    compared = get(client, f"{run_path}/compare?with={quote(RUN_ID, safe='')}&with_from=90")
    assert compared["change"]["log_change"] is None
    assert compared["change"]["reason"] == "no closed step in the window before"
    assert compared["decomposition"] == []
    assert compared["with_window"]["num_judged"] == 0
    assert (compared["with_window"]["from"], compared["with_window"]["to"]) == (90, None)


def test_discovery_as_the_rl_insight_client_uses_it(client: TestClient):
    assert get(client, "/api/v1/services") == {
        "status": "ok",
        "otlp_port": 80,
        "prometheus_port": None,
        "grafana_port": None,
    }
    moved = client.get("/api/v1/services", headers={"Host": "server:18080"})
    assert moved.json()["otlp_port"] == 18080
    body = {
        "job_name": "rollout",
        "targets": [
            {"target": "10.0.0.7:8000", "labels": {"replica": "0"}},
            {"target": "node-7.cluster:8001"},
        ],
    }
    registered = client.post("/api/v1/prometheus/targets", json=body)
    assert registered.status_code == 200, registered.text
    assert registered.json() == {
        "status": "ok",
        "job_name": "rollout",
        "target_count": 2,
        "prometheus_reloaded": False,
    }
    page = get(client, "/api/v1/scrape-targets?host=node-7&address=10.0.0.7")
    assert set(page) == {"scrape_targets", "next"}
    assert page["next"] is None
    first, second = page["scrape_targets"]
    assert set(first) == set(second) == keys("job_name target labels host seen_ns")
    assert (first["job_name"], first["target"]) == ("rollout", "10.0.0.7:8000")
    assert first["labels"] == {"replica": "0"}
    assert (second["target"], second["labels"]) == ("node-7.cluster:8001", {})
    assert second["host"] is None
    elsewhere = get(client, "/api/v1/scrape-targets?host=node-8")
    assert elsewhere == {"scrape_targets": [], "next": None}


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
    ready = {"ready": True, "parts": {"store": True}, "waits_for": None}
    assert get(client, "/api/v1/ready") == ready
    metrics = client.get("/metrics")
    assert metrics.status_code == 200
    assert metrics.text.splitlines() == [
        "# HELP longpole_things_total things",
        "# TYPE longpole_things_total counter",
        "longpole_things_total 3.0",
    ]


def test_paces_energy_and_processes_are_there_where_nobody_reports_them(
    client: TestClient, run_path: str
):
    paces = get(client, f"{run_path}/stragglers")
    assert (paces["first_step"], paces["last_step"], paces["num_steps"]) == (1, 3, 3)
    energy = get(client, f"{run_path}/energy?from=2&to=2")
    assert [each["step"] for each in energy["steps"]] == [2]
    assert set(energy) == keys("run_id energy_joules gpu_seconds steps")
    assert get(client, "/api/v1/processes?host=node-0") == {"processes": [], "next": None}
    assert client.get("/api/v1/runs/nobody/stragglers").status_code == 404


def test_openapi_names_the_errors_that_are_answered(client: TestClient):
    schema = get(client, "/api/openapi.json")
    assert "HTTPValidationError" not in json.dumps(schema)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert {"400", "404", "503"} <= operation["responses"].keys(), path
    assert schema["paths"]["/api/v1/import"]["post"]["responses"]["422"]["content"]


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
        "/api/v1/runs/{run}/compare",
        "/api/v1/runs/{run}/stragglers",
        "/api/v1/runs/{run}/energy",
        "/api/v1/gpus",
        "/api/v1/nodes",
        "/api/v1/processes",
        "/api/v1/import",
        "/api/v1/services",
        "/api/v1/prometheus/targets",
        "/api/v1/scrape-targets",
    } <= set(schema["paths"])
    schemas = schema["components"]["schemas"]
    for name, expected in {
        "StepDocument": STEP_KEYS,
        "OutsideStage": keys("stage duration_s start_ns end_ns"),
        "Gap": keys("start_ns end_ns stage role gpu_count gpu_seconds"),
        "StageLane": keys("stage role host pid start_ns end_ns is_estimate"),
        "StageEnergy": keys("stage role gpu_count energy_joules is_estimated"),
        "RunStragglers": keys("first_step last_step num_steps gpus replicas"),
        "GpuStanding": keys(
            "gpu_uuid host gpu_index role sm_clock_hz of_best_ratio throttled_ratio reasons "
            "is_straggler power_watts rank num_steps num_slow"
        ),
        "ReplicaStanding": keys(
            "replica num_samples seconds_per_token of_best_ratio like_lengths_ratio is_straggler "
            "num_steps num_slow"
        ),
        "RunEnergy": keys("run_id energy_joules gpu_seconds steps"),
        "StepEnergy": keys(
            "step attempt start_ns end_ns duration_s gpu_count tokens_total energy_joules "
            "joules_per_token is_estimated stages"
        ),
        "SyncPhase": keys("phase start_ns end_ns"),
        "NoteDocument": keys("code severity summary metric from to"),
        "ImportDocument": keys("run_id batch_id num_steps is_derived"),
    }.items():
        assert set(schemas[name]["properties"]) == expected, name
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
