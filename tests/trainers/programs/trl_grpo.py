"""A real GRPO training of TRL, recorded by the callback: `trl_grpo.py DIRECTORY [STEPS]`.

Writes what `on_log` was given to DIRECTORY/logs.jsonl.
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from datasets import Dataset
from make_tiny_model import make_tiny_model
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from longpole.hooks.trl import LongpoleCallback


def ascii_reward(completions, **_):
    return [
        sum(c.isascii() and c.isalnum() for c in text) / max(1, len(text)) for text in completions
    ]


def length_reward(completion_ids, **_):
    return [len(ids) / 16 for ids in completion_ids]


class Writer(TrainerCallback):
    def __init__(self, path):
        self.file = path.open("w", encoding="utf-8")

    def on_log(self, args, state, control, logs=None, **_):
        self.file.write(json.dumps({"step": state.global_step, "data": dict(logs)}) + "\n")
        self.file.flush()


def main():
    directory = Path(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    model = directory / "model"
    make_tiny_model(model, 32)
    data = Dataset.from_dict({"prompt": [f"count {i}:" for i in range(32)]})
    args = GRPOConfig(
        output_dir=str(directory / "out"),
        run_name="grpo",
        max_steps=steps,
        logging_steps=1,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=4,
        max_completion_length=16,
        learning_rate=1e-3,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to=[],
        seed=1,
        dataloader_num_workers=0,
        disable_tqdm=True,
    )
    GRPOTrainer(
        model=str(model),
        args=args,
        train_dataset=data,
        reward_funcs=[ascii_reward, length_reward],
        callbacks=[Writer(directory / "logs.jsonl"), LongpoleCallback(project="proj")],
    ).train()


if __name__ == "__main__":
    main()
