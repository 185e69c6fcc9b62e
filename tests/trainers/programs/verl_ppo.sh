#!/usr/bin/env bash
# A whole main_ppo of verl 0.9 on a CPU: verl_ppo.sh PYTHON DIRECTORY [overrides...]
# LOGGERS, STEPS, EXPERIMENT; RL_INSIGHT_SERVER_URL where rl_insight is among the loggers.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=$1 directory=$2
shift 2
mkdir -p "$directory/cwd"
[ -d "$directory/tiny" ] || "$python" "$here/make_tiny_model.py" "$directory/tiny" 64
[ -f "$directory/toy.parquet" ] || "$python" - "$directory/toy.parquet" <<'P'
import sys

import pandas as pd

rows = [
    {
        "data_source": "toy",
        "prompt": [{"role": "user", "content": f"count {i}"}],
        "ability": "toy",
        "reward_model": {"style": "rule", "ground_truth": str(i)},
        "extra_info": {"index": i},
    }
    for i in range(16)
]
pd.DataFrame(rows).to_parquet(sys.argv[1])
P
cat > "$directory/reward.py" <<'P'
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **_):
    return sum(c.isascii() and c.isalnum() for c in solution_str) / max(1, len(solution_str))
P
unset CUDA_VISIBLE_DEVICES
export VERL_PLATFORM=cpu VERL_ENGINE_DEVICE=cuda HF_HUB_OFFLINE=1
export VERL_FILE_LOGGER_ROOT="$directory/logs" RAY_USAGE_STATS_ENABLED=0
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
cd "$directory/cwd"
model=actor_rollout_ref.model actor=actor_rollout_ref.actor rollout=actor_rollout_ref.rollout
ray=ray_kwargs.ray_init
exec "$python" -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  data.train_files="$directory/toy.parquet" data.val_files="$directory/toy.parquet" \
  data.train_batch_size=4 data.max_prompt_length=64 data.max_response_length=16 \
  data.dataloader_num_workers=0 \
  $model.path="$directory/tiny" $model.use_remove_padding=False \
  $model.enable_gradient_checkpointing=False +$model.override_config.attn_implementation=eager \
  $actor.strategy=fsdp2 $actor.ppo_mini_batch_size=4 $actor.ppo_micro_batch_size_per_gpu=4 \
  $actor.use_dynamic_bsz=False $actor.optim.lr=1e-3 $actor.fsdp_config.use_torch_compile=False \
  $actor.use_torch_compile=False $actor.use_kl_loss=False \
  $rollout.name=cpu_hf $rollout.mode=async $rollout.n=2 $rollout.tensor_model_parallel_size=1 \
  $rollout.log_prob_micro_batch_size_per_gpu=4 $rollout.log_prob_use_dynamic_bsz=False \
  $rollout.agent.num_workers=1 $rollout.free_cache_engine=False $rollout.disable_log_stats=False \
  reward.custom_reward_function.path="$directory/reward.py" reward.num_workers=1 \
  trainer.n_gpus_per_node=1 trainer.nnodes=1 trainer.total_training_steps="${STEPS:-3}" \
  trainer.total_epochs=1 trainer.val_before_train=False trainer.test_freq=-1 trainer.save_freq=-1 \
  trainer.resume_mode=disable trainer.device=cpu \
  trainer.project_name=proj trainer.experiment_name="${EXPERIMENT:-ppo}" \
  "trainer.logger=${LOGGERS:-[console,file]}" \
  $ray.num_cpus=32 +$ray.num_gpus=1 +$ray._node_ip_address=127.0.0.1 \
  +$ray.include_dashboard=False \
  transfer_queue.backend.SimpleStorage.num_data_storage_units=1 "$@"
