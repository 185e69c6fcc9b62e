"""What a run's engines reported, as rows of replicas by bins of time."""

from pathlib import Path

import numpy as np
import pytest

from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.model.records import EngineSample, Records
from support.server_runs import RunScript
from support.server_service import opened_bench


def test_gauges_hold_counters_add_up_and_missing_is_missing(tmp_path: Path) -> None:
    with opened_bench(tmp_path) as bench:
        run = RunScript("engines")
        bench.clock.seconds = 60.0
        bench.write(run.start(), run.whole_step(1, 0.0))
        reported = [
            ("replica-a", "vllm:kv_cache_usage_perc", 1.0, 0.5),
            ("replica-a", "vllm:kv_cache_usage_perc", 1.5, 0.9),
            ("replica-a", "vllm:num_requests_running", 1.0, 8.0),
            ("replica-a", "vllm:num_preemptions_total", 1.0, 3.0),
            ("replica-a", "vllm:num_preemptions_total", 5.0, 7.0),
            ("replica-b", "sglang:token_usage", 3.0, 0.2),
        ]
        samples = [
            EngineSample(run.run_id, run.attempt, replica, name, run.at(at_s), value)
            for replica, name, at_s, value in reported
        ]
        bench.write(Records(engine_samples=samples))
        start_ns = run.at(0)
        lanes = bench.service.get_engine_lanes("engines", start_ns, run.at(40), 20)
        assert lanes.replicas == ("replica-a", "replica-b")
        assert lanes.bin_ns == 2 * 10**9
        usage = lanes.kv_usage_ratio
        # The fullest moment of a bin, held for ten seconds.
        assert usage[0, :6].tolist() == [np.float32(0.9)] * 6
        assert np.isnan(usage[0, 6:]).all()
        assert np.isnan(usage[1, 0])
        assert usage[1, 1] == np.float32(0.2)
        assert lanes.running[0, 0] == 8
        assert np.isnan(lanes.running[1]).all()
        assert lanes.preemptions[0, 2] == 4
        assert np.isnan(lanes.waiting).all()
        nothing = bench.service.get_engine_lanes("engines", start_ns, run.at(40), 20, attempt=9)
        assert nothing.replicas == ()
        with pytest.raises(BadRequestError):
            bench.service.get_engine_lanes("engines", start_ns, start_ns, 20)
        with pytest.raises(NotFoundError):
            bench.service.get_engine_lanes("nobody", start_ns, run.at(1), 20)
