from longpole_sim.demo import default_run_id, describe_step
from longpole_sim.trainer import StepFinished


def test_a_step_is_one_line_with_its_largest_stages() -> None:
    seconds = {"gen": 6.0, "update_actor": 2.0, "adv": 0.1, "update_weights": 1.0, "step": 10.0}
    line = describe_step(StepFinished(12, seconds, 1_234.6))
    assert line == (
        "step   12   10.00 s  gen 60%  update_actor 20%  update_weights 10%  1,235 tokens/s/GPU"
    )


def test_run_ids_differ() -> None:
    assert default_run_id("hang") != default_run_id("hang")
