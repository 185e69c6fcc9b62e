import pytest

from longpole.conventions import stages
from longpole.conventions.attributes import ROLES
from longpole.conventions.ray_titles import class_of, role_of, stage_of_title


@pytest.mark.parametrize(
    ("title", "role", "stage"),
    [
        # As a run of verl 0.9 under Ray 2.60 shows them.
        ("ray::IDLE", "", None),
        ("ray::TaskRunnerV1.run", "controller", None),
        ("ray::WorkerDict.actor_rollout_init_model", "hybrid", None),
        ("ray::WorkerDict.actor_rollout_compute_log_prob", "hybrid", stages.OLD_LOG_PROB),
        ("ray::WorkerDict.actor_rollout_update_actor", "hybrid", stages.UPDATE_ACTOR),
        ("ray::WorkerDict", "hybrid", None),
        ("ray::CPUServer.generate", "", stages.GEN),
        ("ray::reward_loop_worker_0:RewardLoopWorker.__init__", "reward", None),
        ("ray::AgentLoopWorkerTQ", "agent_loop", None),
        ("ray::SimpleStorageUnit.shutdown", "", None),
        # By the names of classes and methods in public repositories.
        ("ray::WorkerDict.actor_rollout_generate_sequences", "hybrid", stages.GEN),
        ("ray::WorkerDict.ref_compute_ref_log_prob", "hybrid", stages.REF),
        ("ray::WorkerDict.critic_update_critic", "hybrid", stages.UPDATE_CRITIC),
        ("ray::WorkerDict.critic_compute_values", "hybrid", stages.VALUES),
        ("ray::WorkerDict.rm_compute_rm_score", "hybrid", stages.REWARD),
        ("ray::CriticWorker.compute_values", "critic", stages.VALUES),
        ("ray::vLLMHttpServer.generate", "rollout", stages.GEN),
        ("ray::SGLangHttpServer", "rollout", None),
        ("ray::LLMRayActor.generate", "rollout", stages.GEN),
        ("ray::PolicyModelActor.save_checkpoint", "trainer", stages.SAVE_CHECKPOINT),
        ("ray::MegatronTrainRayActor.update_weights", "trainer", stages.UPDATE_WEIGHTS),
        ("python train.py", "", None),
    ],
)
def test_what_a_title_hints_at(title: str, role: str, stage: str | None) -> None:
    assert role_of(title) == role
    assert role in {"", *ROLES}
    assert stage_of_title(title) == stage


def test_who_a_process_is_without_what_it_does_or_is_called() -> None:
    assert class_of("ray::WorkerDict.actor_rollout_update_actor") == "ray::WorkerDict"
    assert class_of("ray::reward_loop_worker_0:RewardLoopWorker.run") == "ray::RewardLoopWorker"
    assert class_of("ray::IDLE") == "ray::IDLE"
