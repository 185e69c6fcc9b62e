from longpole_dashboards.pages.gpu_heat import ALL_LANES, lane_choices
from longpole_dashboards.pages.lane_filter import LaneFilter
from support.dashboard_fake_service import ASYNC_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9
SPAN_NS = (NOW_NS - 100 * 10**9, NOW_NS)


def heatmap(run_id: str):
    return FakeService(NOW_NS).get_gpu_heatmap(run_id, "sm_active_ratio", *SPAN_NS, 50)


def test_a_node_a_role_or_a_replica_can_be_chosen() -> None:
    everything = heatmap(ASYNC_RUN)
    offered = [choice["value"] for choice in lane_choices(everything.lanes, ["r-0", "r-1"])]
    lanes = ["role:rollout", "role:trainer", "node:node-c1", "node:node-c2"]
    assert offered == [ALL_LANES, *lanes, "replica:r-0", "replica:r-1"]
    for only in lanes:
        chosen = LaneFilter.parse(only).select_gpus(everything)
        assert len(chosen.lanes) == 8 == len(chosen.values)


def test_what_there_is_one_of_is_no_choice() -> None:
    offered = [choice["value"] for choice in lane_choices(heatmap(LIVE_RUN).lanes, ["r-0"])]
    assert "role:hybrid" not in offered
    assert "replica:r-0" not in offered
