"""A real vLLM server on a CPU under a load of requests: scraped, traced, and linked to samples."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from longpole_agent.sources.exposition import read_page
from support.agent_process import AgentProcess
from support.agent_waiting import wait_until
from support.sdk_client import record_samples
from support.server_process import ServerProcess
from support.trainers import PROGRAMS

pytestmark = [pytest.mark.integration, pytest.mark.trainer("vllm"), pytest.mark.timeout(900)]

RUN = "proj/vllm"
NUM_REQUESTS = 24


@pytest.fixture
def engine(trainer_python: str, agent: AgentProcess, tmp_path: Path) -> Iterator[str]:
    """The address of a server with a tiny model, whose traces go to the agent."""
    model = tmp_path / "model"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run(
        [trainer_python, str(PROGRAMS / "make_tiny_model.py"), str(model), "64"],
        check=True,
        env=environment,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    traces = f"http://127.0.0.1:{agent.ports()['http']}/v1/traces"
    log = (tmp_path / "vllm.log").open("w")
    process = subprocess.Popen(
        [
            trainer_python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
            "--served-model-name", "tiny", "--dtype", "bfloat16", "--max-model-len", "512",
            "--enforce-eager", "--host", "127.0.0.1", "--port", str(port),
            "--otlp-traces-endpoint", traces,
        ],
        stdout=log,
        stderr=log,
        start_new_session=True,
        env={
            **environment,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        },
    )  # fmt: skip
    address = f"127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or _is_ready(address), 400.0)
        assert process.poll() is None, (tmp_path / "vllm.log").read_text()[-4000:]
        yield address
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)
        log.close()


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/health", timeout=2.0).status_code == 200
    except httpx.HTTPError:
        return False


async def _load(address: str) -> list[tuple[str, int, int, int, int]]:
    """Send requests all at once; return id, start, end, and tokens of each."""

    async def ask(client: httpx.AsyncClient, index: int) -> tuple[str, int, int, int, int]:
        request_id = f"sample-{index}"
        start_ns = time.time_ns()
        answer = await client.post(
            "/v1/completions",
            headers={"X-Request-Id": request_id},
            json={"model": "tiny", "prompt": f"count {index}:", "max_tokens": 64},
        )
        answer.raise_for_status()
        usage = answer.json()["usage"]
        end_ns = time.time_ns()
        return request_id, start_ns, end_ns, usage["prompt_tokens"], usage["completion_tokens"]

    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=300.0) as client:
        return await asyncio.gather(*(ask(client, index) for index in range(NUM_REQUESTS)))


def test_engine_is_scraped_and_its_requests_are_linked(
    server: ServerProcess, agent: AgentProcess, engine: str
) -> None:
    registration = {
        "job_name": "vllm",
        "targets": [{"target": engine, "labels": {"replica": "0"}}],
        "labels": {"project": "proj", "experiment_name": "vllm"},
    }
    address = f"http://127.0.0.1:{agent.ports()['http']}"
    answer = httpx.post(f"{address}/api/v1/prometheus/targets", json=registration)
    assert answer.status_code == 200, answer.text
    wait_until(lambda: agent.health()["scrape"]["pages"] > 0)
    samples = asyncio.run(_load(engine))
    record_samples(address, RUN, samples)

    page = server.wait_for(
        "/runs/proj%2Fvllm/steps/1/trajectories?limit=100",
        lambda page: (
            len(page["trajectories"]) == NUM_REQUESTS
            and all(each["queue_s"] is not None for each in page["trajectories"])
        ),
    )
    by_id = {each["trajectory_id"]: each for each in page["trajectories"]}
    assert by_id.keys() == {sample[0] for sample in samples}
    detail = server.get("/runs/proj%2Fvllm/trajectories/sample-3")
    (served,) = [span for span in detail["spans"] if span["name"] == "engine"]
    assert served["output_tokens"] == by_id["sample-3"]["output_tokens"]
    assert detail["start_ns"] <= served["start_ns"] <= served["end_ns"] <= detail["end_ns"]

    text = httpx.get(f"http://{engine}/metrics").text
    shown = {sample.name: sample.value for sample in read_page(text) if sample is not None}
    generated = shown["vllm:generation_tokens_total"]
    assert generated == sum(sample[4] for sample in samples)
    query = (
        "SELECT replica, max(value) FROM engine_samples WHERE run_id = 'proj/vllm' "
        "AND name = 'vllm:generation_tokens_total' GROUP BY replica FORMAT TSV"
    )

    def read() -> str:
        return server.client.get("/clickhouse/", params={"query": query}).text.strip()

    wait_until(lambda: read() == f"replica_0\t{generated:g}")
    series = server.client.get(
        "/clickhouse/",
        params={
            "query": "SELECT uniqExact(name) FROM engine_samples WHERE run_id = 'proj/vllm' "
            "FORMAT TSV"
        },
    ).text
    assert 10 < int(series) < 300
    # The engine's start is told by spans too: they are nobody's stages.
    stages = server.get("/runs/proj%2Fvllm/steps")["steps"][0]["stages"]
    assert [stage["stage"] for stage in stages] == ["gen"]
