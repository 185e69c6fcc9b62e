from longpole_dashboards.pages.gpu_heat import ALL_LANES, lane_choices, select_lanes
from support.dashboard_fake_service import ASYNC_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9
SPAN_NS = (NOW_NS - 100 * 10**9, NOW_NS)


def heatmap(run_id: str):
    return FakeService(NOW_NS).get_gpu_heatmap(run_id, "sm_active_ratio", *SPAN_NS, 50)


def test_a_node_or_a_role_can_be_chosen() -> None:
    everything = heatmap(ASYNC_RUN)
    offered = [choice["value"] for choice in lane_choices(everything)]
    assert offered == [ALL_LANES, "role:rollout", "role:trainer", "node:node-c1", "node:node-c2"]
    for only in offered[1:]:
        chosen = select_lanes(everything, str(only))
        assert len(chosen.lanes) == 8 == len(chosen.values)
    assert {lane.role for lane in select_lanes(everything, "role:trainer").lanes} == {"trainer"}


def test_what_is_not_there_leaves_everything() -> None:
    everything = heatmap(LIVE_RUN)
    for only in (None, ALL_LANES, "node:elsewhere", "replica:replica-1", "nonsense"):
        assert select_lanes(everything, only) is everything
    assert "role:hybrid" not in [choice["value"] for choice in lane_choices(everything)]
