from longpole_agent.sources.engine_pages import MAX_SERIES, make_engine_points, name_replica
from longpole_agent.sources.exposition import read_page
from longpole_agent.targets import Target

PAGE = """
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 1200
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="1.0"} 2
vllm:e2e_request_latency_seconds_sum{engine="0"} 1.5
vllm:e2e_request_latency_seconds_count{engine="0"} 2
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="5000"} 1
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="0"} 1
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 4
ray_vllm_num_requests_waiting{engine="0"} 1
sglang:token_usage{tp_rank="0"} 0.5
vllm:broken NaN
"""
TARGET = Target("vllm", "10.0.0.7:8000", (("replica", "2"),), 1)


def test_series_of_engines_are_kept_and_buckets_are_not() -> None:
    points, num_left_out = make_engine_points(read_page(PAGE), TARGET, "ray/s/01", 5)
    assert [(point.metric, point.kind, point.value) for point in points] == [
        ("vllm:num_requests_running", "gauge", 3.0),
        ("vllm:generation_tokens_total", "counter", 1200.0),
        ("vllm:e2e_request_latency_seconds_sum", "counter", 1.5),
        ("vllm:e2e_request_latency_seconds_count", "counter", 2.0),
        ("vllm:cache_config_info", "gauge", 1.0),
        ("ray_vllm_num_requests_waiting", "gauge", 1.0),
        ("sglang:token_usage", "gauge", 0.5),
    ]
    assert num_left_out == 0
    assert points[0].attributes == (("engine", "0"), ("model_name", "m"))
    pool = next(point for point in points if point.metric == "vllm:cache_config_info")
    assert dict(pool.attributes) == {"block_size": "16", "engine": "0", "num_gpu_blocks": "5000"}
    assert dict(points[0].resource) == {
        "service.name": "vllm",
        "service.instance.id": "replica_2",
        "longpole.job": "ray/s/01",
    }
    assert dict(points[-1].resource)["service.name"] == "sglang"


def test_a_page_has_bounds() -> None:
    lines = [f'vllm:x{{a="{index}"}} 1' for index in range(MAX_SERIES + 5)]
    lines.append(f'vllm:x{{a="{"y" * 300}"}} 1')
    points, num_left_out = make_engine_points(read_page("\n".join(lines)), TARGET, "", 5)
    assert len(points) == MAX_SERIES
    assert num_left_out == 6


def test_a_registration_may_name_the_run_and_the_replica() -> None:
    labels = (("experiment_name", "e"), ("project", "p"))
    points, _ = make_engine_points(read_page("vllm:x 1"), Target("v", "h:1", labels), "", 5)
    assert dict(points[0].resource) == {
        "service.name": "vllm",
        "service.instance.id": "h:1",
        "project": "p",
        "experiment_name": "e",
    }
    assert name_replica(Target("v", "h:1", (("replica", "decode-3"),))) == "decode-3"
