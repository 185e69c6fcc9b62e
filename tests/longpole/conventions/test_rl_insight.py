import json
from pathlib import Path

import pytest

from longpole.conventions.rl_insight import restore_name

DATA = Path(__file__).parents[2] / "data"
LOGS = sorted(DATA.glob("verl_*.jsonl"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_names_of_real_logs_come_back(path: Path) -> None:
    names = {name for line in path.read_text().splitlines() for name in json.loads(line)["data"]}
    wrong = {
        name: restored
        for name in names
        if not name.startswith("val-")
        and (restored := restore_name(name.replace("/", "_"))) != name
    }
    assert names
    assert not wrong


@pytest.mark.parametrize(
    ("gauge", "name"),
    [
        ("val-core_toy_acc_mean@1", "val-core/toy/acc/mean@1"),
        ("val-core_openai_gsm8k_reward_best@8_mean", "val-core/openai_gsm8k/reward/best@8/mean"),
        ("val-aux_num_turns_max", "val-aux/num_turns/max"),
        ("timing_s_agent_loop_slowest_prompt_length", "timing_s/agent_loop/slowest/prompt_length"),
        ("timing_s_agent_loop_tool_calls_max", "timing_s/agent_loop/tool_calls/max"),
        ("timing_s_timing_s_param_sync", "timing_s/timing_s/param_sync"),
        ("fully_async_monitor_queue_mq_queue_size", "fully_async/monitor/queue/mq_queue_size"),
        ("something_else", "something_else"),
    ],
)
def test_names_that_no_log_at_hand_has(gauge: str, name: str) -> None:
    assert restore_name(gauge) == name
