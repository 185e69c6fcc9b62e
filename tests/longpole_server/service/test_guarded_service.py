import inspect
from collections.abc import Generator
from typing import Any

import pytest

from longpole_server.errors import ForbiddenError, NotFoundError, ServerError
from longpole_server.model.discovery import Registration, ScrapingAgent
from longpole_server.model.principal import Principal
from longpole_server.service.alert_service import AlertService
from longpole_server.service.asking import Asker, asking_as, what_is_seen
from longpole_server.service.guarded_alerts import GuardedAlerts
from longpole_server.service.guarded_service import GuardedService
from longpole_server.service.interface import Service
from support.server_runs import RunScript, gpu_samples
from support.server_service import ServiceBench, opened_bench

SEEN, HIDDEN = "alpha/run", "beta/run"
ONE = Principal("ana", "viewer", frozenset({"alpha"}), subject="user/ana")
ALL = Principal("bo", "viewer", subject="user/bo")
SENDER = Principal("token nodes", "ingest", subject="token/1")
ADMIN = Principal("cy", "admin", subject="user/cy")
ADMIN_OF_ONE = Principal("di", "admin", frozenset({"alpha"}), subject="user/di")
RULE: dict[str, object] = {
    "title": "Reward is low", "metric": "reward_mean", "comparison": "below", "threshold": 0.1,
    "author": "somebody else",
}  # fmt: skip
# What a method takes after the run: enough to come to its check.
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "get_step": (1,),
    "list_trajectories": (1,),
    "get_distribution": (1,),
    "get_trajectory": ("t",),
    "get_sibling_parts": ("t",),
    "compare": (HIDDEN,),
    "get_metric": ("reward_mean",),
    "get_metrics": (("reward_mean",),),
    "list_metrics": (),
    "get_gpu_heatmap": ("utilization_ratio", 0, 1, 10),
    "get_engine_lanes": (0, 1, 10),
    "list_replica_gpus": ("replica-0", 0, 1),
    "list_replica_hosts": (("replica-0",),),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceBench]:
    with opened_bench(tmp_path_factory.mktemp("store")) as opened:
        for run_id, gpu, pid in ((SEEN, "GPU-a", 1), (HIDDEN, "GPU-b", 2)):
            script = RunScript(run_id, gpu_ids=(gpu,), pid=pid)
            project = run_id.partition("/")[0]
            opened.write(
                script.start(gpu_count=1, project=project), gpu_samples(gpu, pid, 0, 31, 0.9)
            )
            opened.write(script.whole_step(1, 0.0))
        opened.clock.seconds = 31.0
        opened.joiner.join()
        yield opened


@pytest.fixture
def acts() -> list[tuple[str, ...]]:
    return []


@pytest.fixture
def guarded(bench: ServiceBench, acts: list[tuple[str, ...]]) -> GuardedService:
    def record(
        who: str, action: str, target: str = "", outcome: str = "done", address: str = ""
    ) -> None:
        acts.append((who, action, outcome, address))

    return GuardedService(bench.service, record)


def record_nothing(
    who: str, action: str, target: str = "", outcome: str = "done", address: str = ""
) -> None:
    pass


def asking(principal: Principal) -> Any:
    return asking_as(Asker(principal, "10.0.0.1"))


def test_a_bound_viewers_look_at_a_run_reads_no_more_than_whose_it_is(bench: ServiceBench):
    """Each sparkline of the runs page read all details of its run, for the project alone."""

    class NoDetails:
        def __getattr__(self, name: str) -> Any:
            assert name != "get_run"
            return getattr(bench.service, name)

    asked: list[str] = []

    def get_project(run_id: str) -> str:
        asked.append(run_id)
        return run_id.partition("/")[0]

    service: Any = NoDetails()
    guarded = GuardedService(service, record_nothing, get_project)
    with asking(ONE):
        assert guarded.list_paces(SEEN) == bench.service.list_paces(SEEN)
        with pytest.raises(NotFoundError):
            guarded.list_paces(HIDDEN)
    assert asked == [SEEN, HIDDEN]
    with asking(ALL):
        guarded.list_paces(HIDDEN)
    assert asked == [SEEN, HIDDEN]


def test_runs_of_other_projects_are_not_there(guarded: GuardedService):
    with asking(ONE):
        assert [run.run_id for run in guarded.list_runs()] == [SEEN]
        assert guarded.get_run(SEEN).summary.run_id == SEEN
        with pytest.raises(NotFoundError) as hidden:
            guarded.get_run(HIDDEN)
        with pytest.raises(NotFoundError) as missing:
            guarded.get_run("beta/none")
    assert hidden.value.message.replace(HIDDEN, "x") == missing.value.message.replace(
        "beta/none", "x"
    )
    with asking(ALL):
        assert {run.run_id for run in guarded.list_runs()} == {SEEN, HIDDEN}


def list_methods_of_a_run() -> list[str]:
    return [
        name
        for name, method in inspect.getmembers(Service, inspect.isfunction)
        if "run_id" in inspect.signature(method).parameters
    ]


@pytest.mark.parametrize("name", list_methods_of_a_run())
def test_no_method_tells_of_another_project_s_run(guarded: GuardedService, name: str):
    with asking(ONE), pytest.raises(NotFoundError):
        getattr(guarded, name)(HIDDEN, *ARGUMENTS.get(name, ()))


def test_nothing_is_compared_with_a_run_that_is_not_seen(guarded: GuardedService):
    with asking(ONE), pytest.raises(NotFoundError, match=HIDDEN):
        guarded.compare(SEEN, HIDDEN)


def test_gpus_are_shown_and_their_holders_only_where_seen(guarded: GuardedService):
    with asking(ONE):
        holders = {gpu.gpu_uuid: gpu.run_id for gpu in guarded.list_gpus()}
        assert holders == {"GPU-a": SEEN, "GPU-b": None}
        cluster = {each.now.gpu_uuid: each.now.run_id for each in guarded.get_cluster().gpus}
        assert cluster == holders


@pytest.mark.parametrize("name", ["list_runs", "list_gpus", "get_cluster", "get_storage"])
def test_who_sends_alone_reads_nothing(guarded: GuardedService, name: str):
    with asking(SENDER), pytest.raises(ForbiddenError):
        getattr(guarded, name)()
    with asking(SENDER), pytest.raises(ForbiddenError):
        guarded.get_run(SEEN)


@pytest.mark.parametrize("principal", [ONE, ALL, SENDER])
def test_only_an_admin_changes_anything_and_others_are_written_down(
    guarded: GuardedService, acts: list[tuple[str, ...]], principal: Principal
):
    alerts = guarded.alerts
    with asking(principal):
        for act in (
            lambda: alerts.save_rule(RULE),
            lambda: alerts.delete_rule("user/x"),
            lambda: alerts.add_silence({"rule": "kv.leak", "ends_ns": 2**62}),
            lambda: alerts.lift_silence("x"),
            lambda: alerts.acknowledge("x", "me", ""),
            alerts.test_channels,
        ):
            with pytest.raises(ForbiddenError):
                act()
    assert {outcome.partition(":")[0] for _, _, outcome, _ in acts} == {"refused"}
    assert len(acts) == 6


def test_an_admin_signs_with_their_own_name(guarded: GuardedService, acts: list[tuple[str, ...]]):
    with asking(ADMIN):
        rule = guarded.alerts.save_rule(RULE)
        guarded.alerts.delete_rule(rule.rule_id)
    assert rule.author == "cy"
    assert acts == [
        ("cy", "rule.save", "done", "10.0.0.1"),
        ("cy", "rule.delete", "done", "10.0.0.1"),
    ]


def test_an_admin_of_one_project_changes_nothing_of_all(guarded: GuardedService):
    with asking(ADMIN_OF_ONE):
        for act in (
            lambda: guarded.alerts.save_rule(RULE),
            lambda: guarded.alerts.add_silence({"rule": "kv.leak", "ends_ns": 2**62}),
            lambda: guarded.alerts.add_silence({"run_id": HIDDEN, "ends_ns": 2**62}),
        ):
            with pytest.raises(ServerError):
                act()


def test_what_is_remembered_is_shared_by_those_who_see_the_same():
    with asking(ALL):
        everything = what_is_seen()
    with asking(ONE):
        assert what_is_seen() != everything
    assert what_is_seen() == everything


@pytest.mark.parametrize("principal", [ONE, ALL, ADMIN_OF_ONE])
def test_pages_are_those_who_send_for_all(guarded: GuardedService, principal: Principal):
    """An agent takes pages over by asking, and connects where who registers them says."""
    with asking(principal):
        with pytest.raises(ForbiddenError):
            guarded.list_scrape_targets(ScrapingAgent("node-1"))
        with pytest.raises(ForbiddenError):
            guarded.register_scrape_targets(Registration("job", (("10.0.0.7:80", {}),)))


def ignore(
    who: str, action: str, target: str = "", outcome: str = "done", address: str = ""
) -> None:
    """Write down nothing."""


def test_who_may_read_hears_why_nothing_can_fire(bench: ServiceBench, guarded: GuardedService):
    desk = bench.alert_desk
    stuck = AlertService(
        desk.book,
        bench.alert_store.reader,
        desk.histories,
        desk.deliverer,
        read_stuck_s=lambda: 185.0,
    )
    blind = GuardedAlerts(stuck, lambda run_id: run_id == SEEN, ignore)
    for reader in (ONE, ALL, ADMIN):
        with asking(reader):
            assert guarded.alerts.explain_blindness() is None
            said = blind.explain_blindness() or ""
            assert said == "No rule has been judged for 3 min: what fires now is not known."
    with asking(SENDER), pytest.raises(ForbiddenError):
        blind.explain_blindness()
