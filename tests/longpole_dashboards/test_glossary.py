from longpole_dashboards.glossary import SOURCES, format_metric, metric_label, not_reported


def test_missing_data_names_the_source_that_would_provide_it() -> None:
    for source, words in SOURCES.items():
        assert words in not_reported(source)
    assert not_reported("gpus", "GPUs").startswith("GPUs: not reported")


def test_metrics_have_names_people_know() -> None:
    assert metric_label("perf/mfu/actor") == "MFU, actor update"
    assert metric_label("share/update_actor") == "share of update actor"
    assert metric_label("rollout/slowest_of_gen") == "slowest sample, of gen"
    assert metric_label("share/update_actor/lead") == "lead of update actor"
    assert metric_label("some/new_metric") == "some new metric"


def test_fractions_are_percentages() -> None:
    assert format_metric("share/gen", 0.614, "1") == "61.4 %"
    assert format_metric("perf/mfu/actor", 0.36, "1") == "36.0 %"
    assert format_metric("rollout/slowest_to_mean_time", 3.1, "1") == "3.10 ×"
    assert format_metric("rollout/slowest_of_gen", 0.97, "1") == "97.0 %"
    assert format_metric("rollout/slowest_of_gen", None, "1") == "–"
    assert format_metric("gen", 61.4, "s") == "61.4 s"
