# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from longpole_dashboards.pages.step_hardware import PANELS
from support.dashboard_components import words
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view, render


def shown(run_id: str, step: int) -> tuple[str, str]:
    found = render(PANELS, FakeService(NOW_NS), make_view({"run": run_id, "step": str(step)}))
    texts = (found["step-paces.children"], found["step-energy.children"])
    paces, energy = (" ".join(words(text).split()) for text in texts)
    return paces, energy


def test_the_slowest_gpu_stands_first_with_its_rank_and_reason() -> None:
    paces, _ = shown(LIVE_RUN, 8)
    first = paces[paces.index("GPU 3") :]
    assert "3 hybrid ▲ 61 % 1 210 MHz 385 W hardware thermal , 70 % of its work" in first
    assert "13 more, at 99 % of the best or above" in paces
    assert "replica-2 ▲ 62 % 21 ms 1.58 × 64" in paces


def test_energy_by_stage_and_a_token() -> None:
    _, energy = shown(LIVE_RUN, 8)
    assert "in its stages" in energy
    assert "J a token" in energy
    assert "Wh" in energy
    assert "≈" not in energy
    assert "≈" in shown(ASYNC_RUN, 8)[1]


def test_what_is_missing_names_its_source() -> None:
    paces, energy = shown(BARE_RUN, 5)
    assert "GPUs: not reported, would come from a Longpole agent" in paces
    assert "longpole.trajectory(replica=..., " in paces
    assert "Energy: not reported, would come from the energy or power of NVML" in energy
    assert "when the step has ended" in shown(LIVE_RUN, 31)[0]


def test_what_the_choice_left_nothing_of_is_not_called_unreported() -> None:
    query = {"run": LIVE_RUN, "step": "8", "only": "node:elsewhere"}
    found = render(PANELS, FakeService(NOW_NS), make_view(query))
    paces = " ".join(words(found["step-paces.children"]).split())
    assert "No GPU of node elsewhere is among those of this time." in paces
    assert "Replicas: none of node elsewhere." in paces
    assert "not reported" not in paces


def test_only_the_gpus_and_replicas_that_were_chosen_are_compared() -> None:
    query = {"run": LIVE_RUN, "step": "8", "only": "replica:replica-2"}
    found = render(PANELS, FakeService(NOW_NS), make_view(query))
    paces, energy = (
        " ".join(words(found[f"step-{name}.children"]).split()) for name in ("paces", "energy")
    )
    assert "replica-2" in paces and "replica-0" not in paces
    assert "more, at" not in paces
    assert "Not filtered: energy of all GPUs of the step." in energy
