import pytest

from longpole_server.model.facts import SyncPhaseFacts
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import StageSpan
from longpole_server.service.conversions import (
    find_pools_mode,
    gpus_between,
    make_run_facts,
    make_sync_phases,
    parse_model_config,
)
from support.server_runs import RunScript

RUN = RunScript("run")


def hold(
    uuid: str, role: str = "hybrid", since_s: float = 0.0, until_s: float | None = None
) -> RunGpu:
    until_ns = None if until_s is None else RUN.at(until_s)
    return RunGpu("run", 1, "node-0", uuid, 0, role, RUN.at(since_s), until_ns, "gpu_ids", "H100")


def test_what_the_run_declares_wins_over_what_was_joined():
    start = RUN.start(gpu_count=16, mode="fully_async").run_starts[0]
    facts = make_run_facts(start, [hold("a")])
    assert (facts.gpu_count, facts.mode, facts.gpu_model) == (16, "fully_async", "H100")


def test_joined_gpus_fill_what_was_not_declared():
    facts = make_run_facts(RUN.start().run_starts[0], [hold("a"), hold("b"), hold("a")])
    assert (facts.gpu_count, facts.mode) == (2, None)
    assert make_run_facts(RUN.start().run_starts[0], []).gpu_count is None


def test_separate_pools_are_an_asynchronous_run():
    pools = [hold("a", "trainer"), hold("b", "rollout")]
    assert find_pools_mode(pools) == "separate_async"
    assert find_pools_mode([hold("a", "trainer"), hold("a", "rollout")]) is None
    assert make_run_facts(RUN.start().run_starts[0], pools).mode == "separate_async"
    assert make_run_facts(RUN.start(mode="sync").run_starts[0], pools).mode == "sync"


@pytest.mark.parametrize(
    ("config", "cap"),
    [
        ({"response_length_cap": "1024"}, 1024),
        ({"data.max_response_length": "2048.0"}, 2048),
        ({"max_response_length": "many"}, None),
        ({}, None),
    ],
)
def test_the_response_cap_is_found_under_its_names(config: dict[str, str], cap: int | None):
    facts = make_run_facts(RUN.start(config=config).run_starts[0], [])
    assert facts.response_length_cap == cap


def test_a_model_configuration_must_be_an_object():
    assert parse_model_config('{"hidden_size": 4096}') == {"hidden_size": 4096}
    for text in (None, "", "[1]", "{broken", "null"):
        assert parse_model_config(text) is None


def test_gpus_of_a_range_are_listed_once_each():
    held = [hold("a", until_s=10.0), hold("b", since_s=20.0), hold("a", since_s=30.0)]
    assert [gpu.gpu_uuid for gpu in gpus_between(held, RUN.at(0), RUN.at(5))] == ["a"]
    assert [gpu.gpu_uuid for gpu in gpus_between(held, RUN.at(12), RUN.at(15))] == []
    assert {gpu.gpu_uuid for gpu in gpus_between(held, RUN.at(0), None)} == {"a", "b"}


def sync_span(
    start_s: float,
    end_s: float,
    *,
    phase: str | None = None,
    pid: int = 1,
    is_loop: bool = False,
    method: str | None = None,
    num_bytes: int | None = None,
) -> StageSpan:
    return StageSpan(
        "run",
        1,
        1,
        "step" if is_loop else "update_weights",
        "rl.sync",
        RUN.at(start_s),
        RUN.at(end_s),
        "trace",
        f"{pid}-{start_s}-{phase}",
        host="node-0",
        pid=pid,
        is_loop=is_loop,
        sync_phase=phase,
        sync_method=method,
        sync_bytes=num_bytes,
    )


def test_phases_are_those_of_the_process_that_owns_the_ledger():
    spans = [
        sync_span(0, 100, is_loop=True),
        sync_span(50, 90, method="nccl", num_bytes=10**9),
        sync_span(50, 52, phase="release_kv"),
        sync_span(52, 80, phase="transfer"),
        sync_span(80, 82, phase="transfer"),
        # The rollout side tells of the same transfer.
        sync_span(52, 82, phase="transfer", pid=2),
    ]
    assert make_sync_phases(spans) == (
        SyncPhaseFacts("release_kv", 2.0, "nccl", None),
        SyncPhaseFacts("transfer", 30.0, "nccl", 10**9),
    )


def test_phases_of_another_process_when_the_owner_tells_none():
    spans = [
        sync_span(0, 100, is_loop=True),
        sync_span(50, 60, phase="transfer", pid=2),
        sync_span(50, 70, phase="transfer", pid=3),
    ]
    assert make_sync_phases(spans) == (SyncPhaseFacts("transfer", 20.0),)


def test_bytes_without_phases_are_kept():
    spans = [sync_span(50, 90, method="disk", num_bytes=7)]
    assert make_sync_phases(spans) == (SyncPhaseFacts("transfer", 0.0, "disk", 7),)
    assert make_sync_phases([]) == ()
