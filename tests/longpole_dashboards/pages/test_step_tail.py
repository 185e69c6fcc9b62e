from dataclasses import replace

from longpole_dashboards.pages.step_tail import tail_costs
from longpole_server.model.long_tail import EarlyStop, ReplicaTail, StepTail, TailShare
from support.dashboard_components import words

TAIL = StepTail(
    num_samples=512,
    gen_s=60.0,
    span_s=58.0,
    most_running=512,
    idle_ratio=0.62,
    rollout_gpus=16,
    waste_gpu_s=595.2,
    reason=None,
    unclaimed_ratio=0.03,
    stops=(
        EarlyStop(0.8, 30.0, 102, 0.41, 0.22, 0.9),
        EarlyStop(0.95, 12.0, 1, None, None, None),
        EarlyStop(1.0, 0.0, 0, 0.0, 0.0, 0.0),
    ),
    by_replica=(
        ReplicaTail("replica-1", 256, 0.3, 178.6, 800.0, 0.02, None, 58.0, 0.0, ()),
        ReplicaTail("replica-0", 256, 0.67, 398.8, 800.0, 0.02, None, 55.0, 3.0, ()),
    ),
    by_group=tuple(TailShare(f"group-{n}", 0.1, 59.5, 16) for n in range(10)),
    num_groups=32,
    by_activity=(TailShare("generate", 0.7, 416.6, 512), TailShare("python", 0.3, 178.6, 40)),
    time=None,
    tokens=None,
    decode_bandwidth_ratio=None,
    decode_bandwidth_reason="samples do not name their replica",
)


def test_what_was_wasted_what_stopping_saves_and_whom_it_waited_for() -> None:
    said = words(tail_costs(TAIL, 120.0))
    assert "62 %" in said
    assert "595 GPU-s" in said
    assert "leaves 102 samples, 41 % of the tokens (22 % made by then)" in said
    assert "−25 % of the step" in said
    assert "leaves 1 sample" in said
    assert "leaves nothing" in said
    assert said.index("replica-0") < said.index("replica-1")
    assert "Group, top 4 of 32" in said
    assert "group-4" not in said
    assert "python" in said


def test_bandwidth_is_shown_where_it_is_known() -> None:
    assert "bandwidth" not in words(tail_costs(TAIL, 120.0))
    said = words(tail_costs(replace(TAIL, decode_bandwidth_ratio=0.21), 120.0))
    assert "21 %" in said
    assert "of memory bandwidth" in said


def test_what_is_not_known_is_said_and_left_out() -> None:
    bare = replace(
        TAIL,
        rollout_gpus=None,
        waste_gpu_s=None,
        reason="the run's GPU count is not known",
        by_replica=(),
        by_group=(),
        by_activity=(),
    )
    said = words(tail_costs(bare, None))
    assert "GPU time unknown: the run's GPU count is not known" in said
    assert "waited for" not in said
    assert "of the step" not in said


def test_without_waste_nobody_is_waited_for() -> None:
    said = words(tail_costs(replace(TAIL, idle_ratio=0.0, waste_gpu_s=0.0), 120.0))
    assert "waited for" not in said
