import math

from longpole_server.model.records import UNKNOWN_STEP, EngineSample, MetricPoint
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed


def test_a_scalar_belongs_to_the_step_it_names() -> None:
    metric = otlp.gauge("val-core/openai/gsm8k/acc/mean@1", [(5, 0.5, {"rl.loop.iteration": 3})])

    records = Feed().metrics(otlp.process(), [metric], at_s=5)

    assert records.metric_points == [
        MetricPoint("run", 1, 3, "val-core/openai/gsm8k/acc/mean@1", 0.5, otlp.at(5))
    ]
    assert [start.run_id for start in records.run_starts] == ["run"]


def test_a_scalar_without_a_step_belongs_to_the_one_that_goes_on() -> None:
    feed = Feed()
    metric = otlp.gauge("loss", [(5, 1, {})])

    before = feed.metrics(otlp.process(), [metric], at_s=5)
    feed.event(otlp.process(), "rl.stage.start", 6, rl__stage="step", **{"rl.loop.iteration": 4})
    after = feed.metrics(otlp.process(), [metric], at_s=7)

    assert [point.step for point in before.metric_points] == [UNKNOWN_STEP]
    assert [point.step for point in after.metric_points] == [4]


def test_labels_tell_series_of_one_name_apart() -> None:
    metric = otlp.counter(
        "rl.train.loss",
        [
            (5, 1.0, {"rl.loss.type": "policy", "rl.loop.iteration": 1}),
            (5, 2.0, {"rl.loss.type": 'va"l', "rl.loop.iteration": 1}),
        ],
    )

    records = Feed().metrics(otlp.process(), [metric], at_s=5)

    assert [point.name for point in records.metric_points] == [
        'rl.train.loss{rl.loss.type="policy"}',
        'rl.train.loss{rl.loss.type="va\\"l"}',
    ]


def test_nan_is_kept_and_no_value_is_not() -> None:
    metric = otlp.gauge("loss", [(1, math.nan, {}), (2, None, {}), (3, 2, {})])

    points = Feed().metrics(otlp.process(), [metric], at_s=5).metric_points

    assert [math.isnan(point.value) or point.value for point in points] == [True, 2.0]


def test_spellings_of_an_engine_series_are_one() -> None:
    sender = otlp.process(role="rollout", service__instance__id="r0")
    metrics = [
        otlp.gauge("vllm:kv_cache_usage_perc", [(1, 0.1, {})]),
        otlp.gauge("vllm_kv_cache_usage_perc", [(2, 0.2, {"engine": "0", "model_name": "m"})]),
        otlp.gauge(
            "ray_vllm_kv_cache_usage_perc",
            [(3, 0.3, {"engine": "1", "Component": "core_worker", "JobId": "01000000"})],
        ),
        otlp.gauge("vllm/kv_cache_usage_perc", [(4, 0.4, {})]),
        otlp.counter("vllm:num_preemptions", [(5, 5, {})]),
        otlp.counter("vllm:num_preemptions_total", [(6, 6, {})]),
        otlp.gauge("sglang_token_usage", [(7, 0.7, {"tp_rank": 0})]),
        otlp.counter("vllm:request_success", [(8, 8, {"finished_reason": "length"})]),
    ]

    records = Feed().metrics(sender, metrics, at_s=9)

    assert records.engine_samples == [
        EngineSample("run", 1, replica, name, otlp.at(seconds), value)
        for replica, name, seconds, value in [
            ("r0", "vllm:kv_cache_usage_perc", 1, 0.1),
            ("r0", "vllm:kv_cache_usage_perc", 2, 0.2),
            ("r0/1", "vllm:kv_cache_usage_perc", 3, 0.3),
            ("r0", "vllm:kv_cache_usage_perc", 4, 0.4),
            ("r0", "vllm:num_preemptions_total", 5, 5.0),
            ("r0", "vllm:num_preemptions_total", 6, 6.0),
            ("r0", "sglang:token_usage", 7, 0.7),
            ("r0", 'vllm:request_success_total{finished_reason="length"}', 8, 8.0),
        ]
    ]
    assert records.metric_points == []


def test_each_engine_of_a_page_is_a_replica() -> None:
    """Data parallel engines, halves of disaggregated serving, engines behind a router."""
    sender = otlp.process(role="rollout", service__instance__id="r0")
    labels = (
        {"dp_rank": "0", "tp_rank": "0", "moe_ep_rank": "0", "engine_type": "unified"},
        {"dp_rank": "1", "tp_rank": "4", "moe_ep_rank": "4", "engine_type": "unified"},
        {"dp_rank": "1", "tp_rank": "0", "pp_rank": "1"},
        {"tp_rank": "1"},
        {"engine_type": "prefill", "tp_rank": "0"},
        {"engine_type": "decode", "dp_rank": "2", "tp_rank": "8"},
        {"worker_addr": "http://10.0.0.8:30000", "tp_rank": "0"},
        {"server": "http://10.0.0.9:8000"},
    )
    points = [(index, index / 10, each) for index, each in enumerate(labels)]
    records = Feed().metrics(sender, [otlp.gauge("sglang:token_usage", points)], at_s=9)
    assert [(sample.replica, sample.value) for sample in records.engine_samples] == [
        ("r0", 0.0),
        ("r0/1", 0.1),
        ("r0/prefill", 0.4),
        ("r0/2/decode", 0.5),
        ("10.0.0.8:30000", 0.6),
        ("10.0.0.9:8000", 0.7),
    ]
    assert {sample.name for sample in records.engine_samples} == {"sglang:token_usage"}


def test_a_trainers_metric_that_looks_like_an_engines_stays_a_scalar() -> None:
    metrics = [
        otlp.gauge("vllm_kl", [(1, 0.1, {"rl.loop.iteration": 1})]),
        otlp.gauge("vllm/train/num_requests_running", [(1, 3, {"rl.loop.iteration": 1})]),
    ]

    records = Feed().metrics(otlp.process(), metrics, at_s=1)

    assert [point.name for point in records.metric_points] == [
        "vllm_kl",
        "vllm/train/num_requests_running",
    ]
    assert records.engine_samples == []


def test_an_engine_series_that_a_trainer_logs_per_step_is_a_scalar_too() -> None:
    metric = otlp.gauge("vllm/kv_cache_usage_perc", [(1, 0.1, {"rl.loop.iteration": 1})])

    records = Feed().metrics(otlp.process(), [metric], at_s=1)

    assert [point.name for point in records.metric_points] == ["vllm/kv_cache_usage_perc"]
    assert [sample.name for sample in records.engine_samples] == ["vllm:kv_cache_usage_perc"]


def test_histograms_of_engines_are_their_count_and_sum() -> None:
    engine = otlp.histogram("vllm:e2e_request_latency_seconds", 5, count=4, total=8.0)
    other = otlp.histogram("http.server.duration", 5, count=4, total=8.0)

    records = Feed().metrics(otlp.process(), [engine, other], at_s=5)

    assert [(sample.name, sample.value) for sample in records.engine_samples] == [
        ("vllm:e2e_request_latency_seconds_count", 4.0),
        ("vllm:e2e_request_latency_seconds_sum", 8.0),
    ]
    assert records.metric_points == []


def test_metrics_of_other_programs_are_kept_and_make_no_run() -> None:
    sender = otlp.resource(service__name="api", host__name="node1")

    records = Feed().metrics(sender, [otlp.gauge("requests", [(1, 5, {})])], at_s=1)

    assert [point.run_id for point in records.metric_points] == ["api@node1"]
    assert records.run_starts == records.processes == []
