from longpole_server.model.records import StageSpan
from longpole_server.service.timeline import list_lanes


def span(name: str, pid: int, role: str = "worker", *, is_loop: bool = False) -> StageSpan:
    return StageSpan(
        "run", 1, 1, "update_actor", name, 0, 10, "t", f"{pid}{name}", "", role, "node", pid,
        is_loop=is_loop,
    )  # fmt: skip


def test_what_a_title_hints_at_is_shown_as_an_estimate_where_its_process_tells_nothing() -> None:
    title = "ray::WorkerDict.actor_rollout_update_actor"
    spans = [
        span("rl.loop", 1, "controller", is_loop=True),
        span(title, 2),
        span("rl.train", 2, "hybrid"),
        span(title, 3),
    ]
    assert [(lane.pid, lane.is_estimate) for lane in list_lanes(spans)] == [(2, False), (3, True)]
