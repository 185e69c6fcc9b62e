"""Pages as engines' documentation, sources and reports show them, of all their generations.

What counts is that no value changes its scale, that one engine is one set of series, and that
copies are left out.
"""

import pytest

from longpole_agent.sources.engine_pages import make_engine_points
from longpole_agent.sources.exposition import read_page
from longpole_agent.targets import Target

# SGLang, as its documentation shows a page: no rank, no type of engine.
SGLANG_FIRST = """
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 8.128902e+06
# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.28
# HELP sglang:cache_hit_rate The cache hit rate
# TYPE sglang:cache_hit_rate gauge
sglang:cache_hit_rate{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.007507552643049313
# HELP sglang:func_latency_seconds Function latency in seconds
# TYPE sglang:func_latency_seconds histogram
sglang:func_latency_seconds_sum{name="generate_request"} 4.514771912145079
sglang:func_latency_seconds_bucket{le="0.05",name="generate_request"} 14006.0
sglang:func_latency_seconds_bucket{le="+Inf",name="generate_request"} 14007.0
sglang:func_latency_seconds_count{name="generate_request"} 14007.0
# HELP sglang:num_running_reqs The number of running requests
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 162.0
# HELP sglang:num_queue_reqs The number of requests in the waiting queue
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0
"""
_RANKS = 'engine_type="unified",model_name="glm",moe_ep_rank="{tp}",pp_rank="0",tp_rank="{tp}"'
SGLANG_TENSOR_PARALLEL = "\n".join(
    f"sglang:num_queue_reqs{{{_RANKS.format(tp=rank)}}} {value} 1790347303000"
    for rank, value in ((0, 3.0), (1, 11.0))
)
# Data parallel attention: tensor ranks are counted through, each engine has two of eight.
SGLANG_DATA_PARALLEL = "\n".join(
    f'sglang:num_running_reqs{{dp_rank="{rank // 2}",{_RANKS.format(tp=rank)}}} {10 + rank}.0'
    for rank in range(8)
)
SGLANG_DISAGGREGATED = """
sglang:num_running_reqs{engine_type="decode",model_name="m",pp_rank="0",tp_rank="0"} 40.0
sglang:num_decode_transfer_queue_reqs{engine_type="decode",model_name="m",tp_rank="0"} 2.0
sglang:kv_transfer_latency_ms{engine_type="decode",model_name="m",tp_rank="0"} 18.5
"""
# Several engines behind slime's router.
SGLANG_ROUTER = """
# TYPE sglang_token_usage gauge
sglang_token_usage{worker_addr="http://10.0.0.7:30000",engine_type="unified",tp_rank="0"} 0.25
sglang_token_usage{worker_addr="http://10.0.0.8:30000",engine_type="unified",tp_rank="0"} 0.75
"""
# vLLM's router names its engines in another label.
VLLM_ROUTER = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{server="http://10.0.0.7:8000"} 3.0
vllm:num_requests_running{server="http://10.0.0.8:8000"} 9.0
"""
VLLM_FIRST = """
# HELP vllm:gpu_cache_usage_perc GPU KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="mistral-7b"} 0.5
vllm:cpu_cache_usage_perc{model_name="mistral-7b"} 0.0
# TYPE vllm:avg_generation_throughput_toks_per_s gauge
vllm:avg_generation_throughput_toks_per_s{model_name="mistral-7b"} 252.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="mistral-7b"} 4.0
vllm:request_success_total{finished_reason="length",model_name="mistral-7b"} 3.0
"""
VLLM_V1 = """
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="org/model"} 0.62
vllm:kv_cache_usage_perc{engine="1",model_name="org/model"} 0.12
# TYPE vllm:gpu_prefix_cache_queries counter
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="org/model"} 5000.0
vllm:gpu_prefix_cache_queries_created{engine="0",model_name="org/model"} 1.75e+09
# TYPE vllm:engine_sleep_state gauge
vllm:engine_sleep_state{engine="0",model_name="org/model",sleep_state="awake"} 1.0
vllm:num_requests_running 3
"""
# What Ray's page of a node shows of vLLM's engines, and a server of two models.
_RAY = 'Component="core_worker",NodeAddress="10.0.0.7",WorkerId="{worker}"'
VLLM_IN_RAY = "\n".join(
    f'ray_vllm_kv_cache_usage_perc{{{_RAY.format(worker=worker)},engine="0"}} {value}'
    for worker, value in (("aa11", 0.25), ("bb22", 0.5))
)
TWO_MODELS = """
vllm:num_requests_running{engine="0",model_name="org/small"} 3.0
vllm:num_requests_running{engine="0",model_name="org/large"} 7.0
"""
# Several processes of an engine that share a page.
SGLANG_PROCESSES = "\n".join(
    f'sglang:token_usage{{dp_rank="{rank}",engine_type="unified",pid="91{rank}",'
    f'pp_rank="0",tp_rank="{rank}"}} 0.{rank + 1}'
    for rank in range(2)
)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            VLLM_IN_RAY,
            [("h:1/aa11", 0.25), ("h:1/bb22", 0.5)],
        ),
        (TWO_MODELS, [("h:1/small", 3.0), ("h:1/large", 7.0)]),
        (SGLANG_PROCESSES, [("h:1", 0.1), ("h:1", 0.2)]),
        (SGLANG_ROUTER, [("h:1", 0.25), ("h:1", 0.75)]),
        (VLLM_ROUTER, [("h:1", 3.0), ("h:1", 9.0)]),
    ],
    ids=["ray", "models", "sglang processes", "router", "vllm router"],
)
def test_engines_that_share_a_page_are_replicas_of_their_own(
    page: str, expected: list[tuple[str, float]]
) -> None:
    points, _ = make_engine_points(read_page(page), Target("e", "h:1"), "", 5)
    replicas = [dict(point.resource)["service.instance.id"] for point in points]
    assert list(zip(replicas, (point.value for point in points), strict=True)) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            SGLANG_FIRST,
            [
                ("sglang:prompt_tokens_total", "counter", 8_128_902.0),
                ("sglang:token_usage", "gauge", 0.28),
                ("sglang:cache_hit_rate", "gauge", 0.007507552643049313),
                ("sglang:func_latency_seconds_sum", "counter", 4.514771912145079),
                ("sglang:func_latency_seconds_count", "counter", 14007.0),
                ("sglang:num_running_reqs", "gauge", 162.0),
                ("sglang:num_queue_reqs", "gauge", 2826.0),
            ],
        ),
        (SGLANG_TENSOR_PARALLEL, [("sglang:num_queue_reqs", "gauge", 3.0)]),
        (
            SGLANG_DATA_PARALLEL,
            [("sglang:num_running_reqs", "gauge", 10.0 + rank) for rank in (0, 2, 4, 6)],
        ),
        (
            SGLANG_DISAGGREGATED,
            [
                ("sglang:num_running_reqs", "gauge", 40.0),
                ("sglang:num_decode_transfer_queue_reqs", "gauge", 2.0),
                ("sglang:kv_transfer_latency_ms", "gauge", 18.5),
            ],
        ),
        (
            SGLANG_ROUTER,
            [("sglang_token_usage", "gauge", 0.25), ("sglang_token_usage", "gauge", 0.75)],
        ),
        (
            VLLM_FIRST,
            [
                ("vllm:gpu_cache_usage_perc", "gauge", 0.5),
                ("vllm:cpu_cache_usage_perc", "gauge", 0.0),
                ("vllm:avg_generation_throughput_toks_per_s", "gauge", 252.0),
                ("vllm:num_preemptions_total", "counter", 4.0),
                ("vllm:request_success_total", "gauge", 3.0),
            ],
        ),
        (
            VLLM_V1,
            [
                ("vllm:kv_cache_usage_perc", "gauge", 0.62),
                ("vllm:kv_cache_usage_perc", "gauge", 0.12),
                ("vllm:gpu_prefix_cache_queries_total", "counter", 5000.0),
                ("vllm:engine_sleep_state", "gauge", 1.0),
                ("vllm:num_requests_running", "gauge", 3.0),
            ],
        ),
    ],
    ids=[
        *("sglang first", "sglang tp", "sglang dp", "sglang pd", "sglang router"),
        *("vllm 0.6", "vllm 0.8 to 0.11"),
    ],
)
def test_values_keep_their_scale_and_copies_are_left_out(
    page: str, expected: list[tuple[str, str, float]]
) -> None:
    points, num_left_out = make_engine_points(read_page(page), Target("e", "h:1"), "", 5)
    assert [(point.metric, point.kind, point.value) for point in points] == expected
    assert num_left_out == 0
