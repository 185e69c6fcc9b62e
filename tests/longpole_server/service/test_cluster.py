import numpy as np
import pytest

from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.model.records import HostSample, Records
from support.server_runs import BEGIN_NS, RunScript, S, gpu_samples
from support.server_service import ServiceBench


def test_nodes_gpus_and_their_last_minute(bench: ServiceBench) -> None:
    bench.write(
        gpu_samples("GPU-a", 0, 0.0, 100.0, 0.5, "node-a"),
        gpu_samples("GPU-b", 0, 0.0, 10.0, 0.5, "node-b"),
        Records(
            host_samples=[
                HostSample("node-b", BEGIN_NS + 20 * S, 0.3),
                HostSample("node-c", BEGIN_NS + 90 * S, 0.1),
            ]
        ),
    )
    bench.clock.seconds = 100.0
    found = bench.service.get_cluster()
    assert [(node.host, (node.seen_ns - BEGIN_NS) // S) for node in found.nodes] == [
        ("node-a", 99),
        ("node-b", 20),
        ("node-c", 90),
    ]
    states = {state.now.gpu_uuid: state for state in found.gpus}
    assert states["GPU-a"].minute is not None
    assert states["GPU-a"].minute.utilization_ratio == pytest.approx(0.5, abs=0.01)
    assert states["GPU-b"].minute is None


def test_every_gpu_over_time_whoever_holds_it(bench: ServiceBench) -> None:
    bench.write(gpu_samples("GPU-d", 3, 0.0, 100.0, 0.5, "node-d"))
    bench.clock.seconds = 100.0
    found = bench.service.get_cluster_heatmap(
        "utilization_ratio", BEGIN_NS, BEGIN_NS + 100 * S, 100
    )
    row = [lane.gpu_uuid for lane in found.lanes].index("GPU-d")
    assert np.nanmean(found.values[row]) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(BadRequestError):
        bench.service.get_cluster_heatmap("nonsense", 0, 1, 1)


def test_where_the_time_of_a_groups_other_samples_went(bench: ServiceBench, run_id: str) -> None:
    run = RunScript(run_id)
    bench.write(
        run.start(),
        run.whole_step(1, 0.0),
        *(run.sample(f"s{number}", 1.0, 2.0, 1, group_id="g") for number in range(3)),
    )
    found = bench.service.get_sibling_parts(run_id, "s1")
    assert set(found) == {"s0", "s2"}
    with pytest.raises(NotFoundError):
        bench.service.get_sibling_parts(run_id, "nobody")
