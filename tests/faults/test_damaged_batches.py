"""Batches that are cut, changed, mixed up or sent again, at the doors and on disk."""

import asyncio
import gzip
import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from longpole.spool import SpoolError
from longpole_agent.batch import Signal
from longpole_agent.receiver.form import check_form
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.room import Room
from longpole_server.errors import StoreError
from longpole_server.ingest.http import create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.signals import SIGNALS, parse_request
from support import otlp_builders as otlp
from support.agent_asgi import call
from support.agent_upstream import FakeServer
from support.agent_waiting import wait_until
from support.fault_journal import run_trial
from support.fault_ledger import TRAJECTORIES, make_request
from support.fault_load import Address, send_http
from support.fault_programs import make_agent
from support.otlp_pipeline import RecordingWriter, running_pipeline
from support.otlp_strategies import requests, to_otlp_json

MAX_BYTES = 1 << 16
PROTOBUF = "application/x-protobuf"
REFUSALS = {400, 413, 415}
many = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def damage(draw: st.DrawFn, body: bytes) -> bytes:
    """A body as a broken sender or wire makes it of a good one."""
    at = draw(st.integers(0, len(body)))
    match draw(st.sampled_from(["cut", "change", "insert", "drop", "double", "noise"])):
        case "cut":
            return body[:at]
        case "change":
            return body[:at] + bytes([draw(st.integers(0, 255))]) + body[at + 1 :]
        case "insert":
            return body[:at] + draw(st.binary(max_size=40)) + body[at:]
        case "drop":
            return body[:at] + body[at + draw(st.integers(1, 20)) :]
        case "double":
            return body[at:] + body
        case _:
            return draw(st.binary(max_size=300))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Signal, bytes, dict[str, str]]:
    """A request of any kind, damaged before or after it was compressed, or both."""
    signal: Signal = draw(st.sampled_from(SIGNALS))
    message = draw(requests(signal))
    headers = {"content-type": "application/x-protobuf"}
    body = message.SerializeToString()
    if draw(st.booleans()):
        body = json.dumps(to_otlp_json(message)).encode()
        headers["content-type"] = "application/json"
    if draw(st.booleans()):
        body = damage(draw, body)
    if draw(st.booleans()):
        body = gzip.compress(body)
        headers["content-encoding"] = "gzip"
    return signal, damage(draw, body) if draw(st.booleans()) else body, headers


def test_no_body_harms_the_server(tmp_path: Path):
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        app: Any = Starlette(routes=create_otlp_routes(pipeline, OtlpLimits(MAX_BYTES)))

        def post(signal: str, body: bytes, headers: dict[str, str]) -> int:
            # Starlette asks for more of the scope than the agent's application.
            async def answer() -> int:
                async def scoped(scope: Any, receive: Any, send: Any) -> None:
                    await app({**scope, "query_string": b"", "root_path": ""}, receive, send)

                answered = await call(scoped, "POST", f"/v1/{signal}", body, headers)
                assert answered is not None
                return answered.status

            return asyncio.run(answer())

        @many
        @given(damaged())
        def check(request: tuple[Signal, bytes, dict[str, str]]) -> None:
            assert post(*request) in REFUSALS | {200}

        check()
        assert pipeline.drain(60.0)
        assert pipeline.stats.num_lost_requests == 0
        before = len(writer.records.trajectories)
        assert post("traces", make_request("traces", 7), {"content-type": PROTOBUF}) == 200
        assert pipeline.drain(60.0)
        assert len(writer.records.trajectories) == before + TRAJECTORIES


def test_no_body_harms_the_agent_and_what_it_takes_the_server_takes():
    stored: list[tuple[Signal, bytes, str, str]] = []

    async def store(signal: Signal, body: bytes, content_type: str, encoding: str) -> None:
        check_form(signal, body, content_type, encoding)
        stored.append((signal, body, content_type, encoding))

    app = OtlpHttpApp(store, Room(1 << 20), MAX_BYTES, dict)

    @many
    @given(damaged())
    def check(request: tuple[Signal, bytes, dict[str, str]]) -> None:
        signal, body, headers = request
        answer = asyncio.run(call(app, "POST", f"/v1/{signal}", body, headers))
        assert answer is not None
        assert answer.status in REFUSALS | {200}

    check()
    assert stored
    for signal, body, content_type, encoding in stored:
        if content_type == PROTOBUF:
            parse_request(signal, gzip.decompress(body) if encoding else body)


def test_copies_that_arrive_at_once_are_stored_once(tmp_path: Path):
    writer = RecordingWriter()
    with (
        running_pipeline(tmp_path, writer, max_batch_bytes=50) as pipeline,
        ThreadPoolExecutor(16) as threads,
    ):
        numbers = [number for number in range(50) for _ in range(4)]
        random.Random(1).shuffle(numbers)
        futures = [
            threads.submit(pipeline.accept, "traces", b"%d" % number, f"a/b/{number}")
            for number in numbers
        ]
        for future in futures:
            future.result()
        assert pipeline.drain(60.0)
    assert Counter(writer.bodies) == Counter(str(number) for number in range(50))
    assert pipeline.stats.num_duplicates == 150


def write_journal(directory: Path, num_requests: int) -> Sequence[str]:
    """Accept requests that no store takes, so that journal and range stay on disk."""
    writer = RecordingWriter()
    writer.fail()
    with running_pipeline(directory, writer, max_batch_bytes=200) as pipeline:
        for number in range(num_requests):
            pipeline.accept("traces", b"body %d" % number, f"a/b/{number}")
        wait_until(lambda: bool(writer.tries))
    return [f"body {number}" for number in range(num_requests)]


def test_damage_on_disk_costs_what_it_hits_and_repeats_nothing(tmp_path: Path):
    sound = tmp_path / "sound"
    bodies = write_journal(sound, 40)
    files = sorted(
        path.relative_to(sound)
        for path in sound.rglob("*")
        if path.is_file() and path.name != "lock"
    )
    assert len(files) >= 3

    @settings(max_examples=25, deadline=None)
    @given(st.sampled_from(files), st.data())
    def check(file: Path, data: st.DataObject) -> None:
        with TemporaryDirectory(dir=tmp_path) as folder:
            copy = Path(folder) / "copy"
            shutil.copytree(sound, copy)
            content = (copy / file).read_bytes()
            (copy / file).write_bytes(data.draw(st.composite(lambda draw: damage(draw, content))()))
            writer = RecordingWriter()
            try:
                with running_pipeline(copy, writer) as pipeline:
                    pipeline.accept("traces", b"after it", "a/b/after")
                    assert pipeline.drain(60.0)
                    assert pipeline.stats.num_lost_requests == 0
            except (SpoolError, StoreError) as error:
                # Refusing to begin is right as well, if it says what is the matter.
                assert "another version" in str(error)
                return
            counts = Counter(writer.bodies)
            assert set(counts) <= {*bodies, "after it"}
            assert set(counts.values()) == {1}
            assert counts["after it"] == 1
            if file.parts[0] != "journal":
                assert set(counts) == {*bodies, "after it"}

    check()


@pytest.mark.integration
def test_a_receiver_that_is_down_costs_the_oldest_beyond_the_bound(tmp_path: Path):
    server = FakeServer()
    server.answer = lambda _: (503, {"Retry-After": "1"})
    agent = make_agent(
        tmp_path / "agent", server.url, "--interval-s", "60", "--spool-bytes", str(1 << 20)
    )
    agent.start()
    address = Address()
    address.ports = agent.wait_for_ports()
    url = f"http://127.0.0.1:{address.ports['http']}/health"
    try:
        bodies = [padded(number) for number in range(60)]
        for body in bodies:
            assert send_http(address, "traces", 0, None, body) == "acknowledged"
        spool = read_health(url)["spool"]
        assert spool["bytes"] <= 1 << 20
        assert spool["dropped"] > 0
        agent.kill()
        server.answer = lambda _: (200, {})
        agent.start()
        address.ports = agent.wait_for_ports()
        url = f"http://127.0.0.1:{address.ports['http']}/health"
        wait_until(lambda: read_health(url)["spool"]["records"] == 0)
        assert agent.stop() == 0
        delivered = list(
            {one.batch_id: one.body for one in server.accepted_at("/v1/traces")}.values()
        )
        # The newest are there, in order; what is missing is what was counted.
        assert delivered == bodies[-len(delivered) :]
        assert len(bodies) - len(delivered) <= spool["dropped"]
    finally:
        agent.kill()
        server.close()


def padded(number: int) -> bytes:
    """A request of about 40 KB."""
    sender = otlp.process("run")
    return otlp.traces((sender, [otlp.span(f"{number}" + "x" * 40_000, 0.0, 1.0)]))


def read_health(url: str) -> dict[str, Any]:
    """What the agent says of itself."""
    return httpx.get(url, timeout=60.0).json()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=160))
def test_kills_and_damage_in_any_order_cost_what_they_hit(lives: bytes) -> None:
    with TemporaryDirectory() as folder:
        run_trial(Path(folder), lives)
