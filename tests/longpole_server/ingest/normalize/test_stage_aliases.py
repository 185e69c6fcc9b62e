"""Names of spans and of timers: a stage is called alike however it arrives."""

import pytest

from longpole.conventions import stages
from longpole_server.analysis.timers import NEMO_RL, SCHEMES, SKYRL, VERL, Scheme

# The spans of ROLL's three pipelines, children of their `pipeline_step`.
ROLL_SPANS = {
    "rlvr": (
        *("stop_server", "model_update", "validation", "generate", "ref_log_probs"),
        *("old_log_probs_and_values", "get_sample_level_mask", "reward_postprocess"),
        *("compute_token_reward", "compute_advantage", "train"),
    ),
    "agentic": (
        *("model_update", "rollout", "shrink_sampler", "cal_ref_log_probs"),
        *("cal_old_log_probs_values", "cal_response_level_mask", "cal_response_norm_rewards"),
        *("cal_token_reward", "compute_advantage", "train", "compute_data_metrics", "val"),
    ),
    "rlvr_vlm": ("cal_ref_log_probs", "cal_old_log_probs_values", "get_token_reward"),
}


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.prefix)
def test_a_span_and_a_timer_of_one_name_are_one_stage(scheme: Scheme) -> None:
    for key, timer in scheme.timers.items():
        stage = stages.stage_of(key.removeprefix(scheme.prefix))
        assert stage in {None, timer.stage} or timer.stage is None, key


@pytest.mark.parametrize("scheme", [VERL, SKYRL, NEMO_RL], ids=lambda scheme: scheme.name)
def test_frameworks_that_tell_windows_are_known_by_all_their_timers(scheme: Scheme) -> None:
    for key, timer in scheme.timers.items():
        name = key.removeprefix(scheme.prefix).removesuffix("/total")
        assert timer.stage is None or stages.stage_of(name) == timer.stage, key


@pytest.mark.parametrize("pipeline", ROLL_SPANS)
def test_each_pipeline_of_roll_has_its_own_words(pipeline: str) -> None:
    assert all(stages.stage_of(name) in stages.STAGES for name in ROLL_SPANS[pipeline])
