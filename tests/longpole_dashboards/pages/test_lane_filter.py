from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from longpole_dashboards.pages.gpu_heat import lane_words
from longpole_dashboards.pages.lane_filter import LaneFilter, open_filter
from longpole_server.model.gpu import GpuHeatmap
from support.dashboard_components import words
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, LIVE_RUN, FakeService

NOW_NS = 1_760_000_000 * 10**9
SPAN_NS = (NOW_NS - 100 * 10**9, NOW_NS)
REPLICAS = tuple(f"replica-{at}" for at in range(4))


def heatmap(run_id: str = LIVE_RUN) -> GpuHeatmap:
    return FakeService(NOW_NS).get_gpu_heatmap(run_id, "sm_active_ratio", *SPAN_NS, 50)


def open_(only: str | None, run_id: str = LIVE_RUN) -> LaneFilter:
    return open_filter(FakeService(NOW_NS), run_id, only, REPLICAS, SPAN_NS)


@pytest.mark.parametrize("only", [None, "", "all", "nonsense", "node:", "rank:3"])
def test_what_chooses_nothing_is_everything(only: str | None) -> None:
    chosen = open_(only)
    assert chosen == LaneFilter()
    everything = heatmap()
    assert chosen.select_gpus(everything) is everything
    assert chosen.keeps_replica("replica-1") and chosen.keeps_replica(None)
    assert chosen.say_whole("energy") is None


def test_a_replica_has_its_gpus_and_its_engine() -> None:
    chosen = open_("replica:replica-1")
    shown = chosen.select_gpus(heatmap())
    assert [lane.gpu_index for lane in shown.lanes] == [2, 3]
    assert shown.values.shape[0] == 2
    engines = FakeService(NOW_NS).get_engine_lanes(LIVE_RUN, *SPAN_NS, 30)
    own = chosen.select_engines(engines)
    assert own.replicas == ("replica-1",)
    assert np.array_equal(own.running[0], engines.running[1], equal_nan=True)
    for rows in (own.kv_usage_ratio, own.waiting, own.preemptions):
        assert rows.shape == own.running.shape


def test_a_node_has_the_replicas_on_it() -> None:
    hosts = [lane.host for lane in heatmap().lanes]
    chosen = open_(f"node:{hosts[0]}")
    assert {lane.host for lane in chosen.select_gpus(heatmap()).lanes} == {hosts[0]}
    assert chosen.keeps_replica("replica-0")
    assert not open_(f"node:{hosts[-1]}").keeps_replica("replica-0")


class HalfToldService(FakeService):
    """Tells of two replicas alone on which node they are."""

    def list_replica_hosts(
        self, run_id: str, replicas: Sequence[str], attempt: int | None = None
    ) -> Mapping[str, tuple[str, ...]]:
        found = super().list_replica_hosts(run_id, replicas, attempt)
        return {name: found[name] for name in REPLICAS[:2]}


def test_replicas_of_which_no_node_is_told_are_counted_not_called_elsewhere() -> None:
    service = HalfToldService(NOW_NS)
    chosen = open_filter(service, LIVE_RUN, "node:elsewhere", REPLICAS, SPAN_NS)
    none = chosen.say_replicas("Engines", has_any=True, has_shown=False)
    assert none == "Engines: none of node elsewhere; of 2 replicas no node is told."
    chosen = open_filter(service, LIVE_RUN, "node:node-a1", REPLICAS, SPAN_NS)
    assert chosen.replicas == {"replica-0", "replica-1"}
    some = chosen.say_replicas("Engines", has_any=True, has_shown=True)
    assert some == "Engines: node node-a1; of 2 replicas no node is told."


def test_a_choice_that_finds_nothing_says_so_and_shows_nothing() -> None:
    chosen = open_("node:elsewhere")
    shown = chosen.select_gpus(heatmap())
    assert shown.lanes == () and shown.values.shape[0] == 0
    (said,) = lane_words("sm_active_ratio", heatmap(), shown, chosen)
    assert "No GPU of node elsewhere is among those of this time." in words(said)
    engines = FakeService(NOW_NS).get_engine_lanes(LIVE_RUN, *SPAN_NS, 30)
    left = chosen.select_engines(engines).replicas
    assert left == ()
    assert chosen.say_replicas("Engines", has_any=True, has_shown=False) == (
        "Engines: none of node elsewhere."
    )


def test_what_a_choice_does_not_reach_is_told() -> None:
    unknown = open_("replica:stranger")
    assert len(unknown.select_gpus(heatmap()).lanes) == len(heatmap().lanes)
    told = unknown.say_gpus(has_any=True, has_shown=True)
    assert told == "GPUs: all, not filtered. Nothing tells which stranger works on."
    role = open_("role:trainer", ASYNC_RUN)
    assert {lane.role for lane in role.select_gpus(heatmap(ASYNC_RUN)).lanes} == {"trainer"}
    assert "Samples: all, not filtered" in str(
        role.say_replicas("Samples", has_any=True, has_shown=True)
    )
    homeless = open_("node:node-a1", BARE_RUN)
    assert not homeless.narrows_replicas
    assert "on which nodes" in str(homeless.say_replicas("Engines", has_any=True, has_shown=True))
