"""A whole run written and read through the tables over all nodes of a cluster."""

from pathlib import Path

from support.cluster_of_one import make_cluster_of_one
from support.server_runs import RunScript, gpu_samples
from support.server_service import opened_bench

RUN_ID = "cluster/run"
S = 10**9


def test_every_query_of_the_product_works_on_a_cluster(tmp_path: Path):
    with opened_bench(make_cluster_of_one(tmp_path)) as bench:
        run = RunScript(RUN_ID, gpu_ids=("GPU-a",))
        bench.clock.seconds = 31.0
        bench.write(run.start(gpu_count=1, system="verl"), gpu_samples("GPU-a", 0, 0, 31, 0.9))
        bench.joiner.join()
        for step in (1, 2, 3):
            start_s = 10.0 * (step - 1)
            bench.write(
                run.whole_step(step, start_s),
                run.scalars(step, start_s + 10.1, {"critic/score/mean": step / 10}),
                run.sample(f"t{step}", start_s, start_s + 1.0, step, group_id="g"),
            )
        service = bench.service
        assert [each.run_id for each in service.list_runs()] == [RUN_ID]
        assert service.get_run(RUN_ID).summary.num_steps == 3
        assert [each.step for each in service.list_steps(RUN_ID)] == [1, 2, 3]
        assert service.get_step(RUN_ID, 2).gpus[0].gpu_uuid == "GPU-a"
        assert len(service.list_trajectories(RUN_ID, 2)) == 1
        assert service.get_distribution(RUN_ID, 2).count == 1
        assert service.get_trajectory(RUN_ID, "t2").trajectory.trajectory_id == "t2"
        points = service.get_metric(RUN_ID, "critic/score/mean").points
        assert [value for _, _, value in points] == [0.1, 0.2, 0.3]
        assert service.diagnose(RUN_ID).steps
        assert service.compare(RUN_ID, RUN_ID).decomposition is not None
        assert [gpu.gpu_uuid for gpu in service.list_gpus()] == ["GPU-a"]
        start_ns = run.at(0.0)
        heatmap = service.get_gpu_heatmap(
            RUN_ID, "utilization_ratio", start_ns, start_ns + 30 * S, 30
        )
        assert len(heatmap.lanes) == 1
