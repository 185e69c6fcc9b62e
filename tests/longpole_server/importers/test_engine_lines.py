"""Engines' log lines: units, versions, counts and sleep."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.engine_lines import EngineLine, read_engine_line
from longpole_server.importers.engine_windows import make_engine_windows

LOGS = Path(__file__).parents[2] / "data" / "logs"


def lines_of(name: str) -> list[EngineLine]:
    raw = (LOGS / name).read_bytes().splitlines(keepends=True)
    return [line for text in raw if (line := read_engine_line(text, 2026)) is not None]


def test_vllms_lines() -> None:
    first, second, idle, freed, asleep, awake, _ = lines_of("vllm_engine.log")
    assert first.values == {
        "vllm:avg_prompt_throughput_toks_per_s": 310.5,
        "vllm:avg_generation_throughput_toks_per_s": 2400.1,
        "vllm:num_requests_running": 24.0,
        "vllm:num_requests_waiting": 2.0,
        "vllm:kv_cache_usage_perc": pytest.approx(0.425),
        "vllm:prefix_cache_hit_rate": pytest.approx(0.61),
    }
    assert first.replica == "engine 0"
    assert first.time_ns == 1_795_970_470 * 10**9
    assert second.values["vllm:num_preemptions_total"] == 3.0
    assert idle.values["vllm:num_requests_running"] == 0.0
    assert freed.values["vllm:sleep_in_use_bytes"] == pytest.approx(1.38 * 2**30)
    assert asleep.values == {"vllm:sleep_seconds": 2.756636}
    assert awake.values == {"vllm:wake_up_seconds": 0.512}


@pytest.mark.parametrize(
    "text",
    [
        # V0.
        (
            "INFO 03-01 10:00:00 a.py:1] Avg prompt throughput: 1.0 tokens/s, Avg generation "
            "throughput: 2.0 tokens/s, Running: 3 reqs, Swapped: 0 reqs, Pending: 4 reqs, GPU KV "
            "cache usage: 50.0%, CPU KV cache usage: 9.0%."
        ),
        # Aggregated over data parallel engines.
        (
            "INFO 03-01 10:00:00 [loggers.py:1] 4 Engines Aggregated: Avg prompt throughput: 1.0 "
            "tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, "
            "GPU KV cache usage: 50.0%, Prefix cache hit rate: 0.0%"
        ),
        # On another device than a GPU, and with what newer versions say between.
        (
            "INFO 03-01 10:00:00 [loggers.py:310] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
            "Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, Deferred: "
            "2 reqs, KV fetch: 7 waiting to start, 8 in progress, 9 completed waiting, "
            "CPU KV cache usage: 50.0%, External prefix cache hit rate: 12.0%"
        ),
    ],
)
def test_other_versions_of_vllm(text: str) -> None:
    line = read_engine_line(text.encode(), 2026)
    assert line is not None
    assert line.values["vllm:num_requests_waiting"] == 4.0
    assert line.values["vllm:kv_cache_usage_perc"] == 0.5


def test_vllms_line_of_one_iteration_is_no_rate() -> None:
    text = (
        "INFO 03-01 10:00:00 [loggers.py:197] Engine 000: Iteration(12): 3 context requests, 300 "
        "context tokens, 4 generation requests, 4 generation tokens, iteration elapsed time: 12.50 "
        "ms, GPU KV cache usage: 12.0%"
    )
    assert read_engine_line(text.encode(), 2026) is None


def test_a_usage_in_another_unit_is_not_used() -> None:
    text = b"Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
    line = read_engine_line(text + b"Running: 3 reqs, GPU KV cache usage: 0.5", 2026)
    assert line is not None
    assert "vllm:kv_cache_usage_perc" not in line.values


def test_sglangs_lines() -> None:
    prefill, decode, retracted, hybrid = lines_of("sglang_engine.log")
    assert prefill.values["sglang:num_queue_reqs"] == 40.0
    assert decode.replica == "TP0"
    assert decode.values["sglang:token_usage"] == 0.42
    assert decode.values["sglang:gen_throughput"] == 3100.55
    assert retracted.values == {"sglang:num_retracted_requests_total": 2.0}
    assert hybrid.replica == "DP1 TP0"
    assert hybrid.values["sglang:token_usage"] == 0.91


def test_a_window_looks_at_the_load_and_not_at_what_comes_after() -> None:
    (window,) = make_engine_windows(lines_of("vllm_engine.log")[:4], 40.0)
    assert window.kv_usage_mean_ratio == pytest.approx((0.425 + 0.55) / 2)
    assert window.running_max == 24.0
    assert window.preemptions == 3.0


@given(text=st.text(max_size=120))
def test_any_line_is_borne(text: str) -> None:
    for mark in ("generation throughput: ", "Decode batch. #running-req: ", "Sleep mode freed "):
        read_engine_line((mark + text).encode(), 2026)


@pytest.mark.parametrize(
    "text",
    [
        "It took 1..4 seconds to fall asleep.",
        "It took 1.4.6 seconds to wake up tags {'kv_cache'}.",
        "Sleep mode freed 5.1.7 GiB memory, 67.88 GiB memory is still in use.",
        "Sleep mode freed 51.57 GiB memory, . GiB memory is still in use.",
        "metrics.py:406] Prefix cache hit rate: GPU: 6.1.2%, CPU: 0.00%",
    ],
)
def test_damaged_numbers_are_no_trouble(text: str) -> None:
    assert read_engine_line(f"INFO 09-15 14:42:21 [x.py:1] {text}\n".encode(), 2026) is None


def test_vllms_warning_that_blocks_were_not_freed():
    line = read_engine_line(
        b"WARNING 03-04 05:06:07 [block_pool.py:310] Failed to reset prefix cache because some "
        b"blocks (37) are not freed yet",
        2026,
    )
    assert line is not None
    assert line.values == {"vllm:prefix_cache_blocks_not_freed": 37.0}
