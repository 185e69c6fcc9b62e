"""What the titles say that Ray gives its workers: `ray::CLASS.METHOD` while a call runs.

An actor that has a name carries it at first: `ray::NAME:CLASS.METHOD`.

A title is a hint, never a measurement: of an actor that runs several calls at once it names one,
and calls shorter than the look at it are not seen. verl puts the name of the role before the method
(`actor_rollout_update_actor`).
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from longpole.conventions import stages

PREFIX = "ray::"
# Lanes that are made of titles, and thus estimates.
LANE_PREFIX = "title_"
# A GPU that processes of several roles share.
MIXED_ROLE = "hybrid"

# Words in names of actors' classes and the role that they mean; the first that is found counts.
_ROLE_OF_WORD: Mapping[str, str] = MappingProxyType(
    {
        "critic": "critic",
        "reward": "reward",
        "agentloop": "agent_loop",
        "actorrollout": MIXED_ROLE,
        "workerdict": MIXED_ROLE,
        "fusedworker": MIXED_ROLE,
        "vllm": "rollout",
        "sglang": "rollout",
        "rollout": "rollout",
        "inference": "rollout",
        "generat": "rollout",
        "llmray": "rollout",
        "reference": "ref",
        "refmodel": "ref",
        "taskrunner": "controller",
        "policy": "trainer",
        "train": "trainer",
        "actor": "trainer",
    }
)
# What stands before a method's name where one process plays several parts.
_PARTS = (
    "actor_rollout_ref_",
    "actor_rollout_",
    "actor_",
    "rollout_",
    "critic_",
    "ref_",
    "rm_",
)
_STAGE_OF_METHOD: Mapping[str, str] = MappingProxyType(
    {
        "generate_sequences": stages.GEN,
        "generate": stages.GEN,
        "compute_log_prob": stages.OLD_LOG_PROB,
        "compute_ref_log_prob": stages.REF,
        "compute_values": stages.VALUES,
        "compute_rm_score": stages.REWARD,
        "compute_score": stages.REWARD,
        "update_actor": stages.UPDATE_ACTOR,
        "update_policy": stages.UPDATE_ACTOR,
        "update_critic": stages.UPDATE_CRITIC,
        "update_weights": stages.UPDATE_WEIGHTS,
        "update_weights_from_distributed": stages.UPDATE_WEIGHTS,
        "update_weights_from_tensor": stages.UPDATE_WEIGHTS,
        "sync_rollout_weights": stages.UPDATE_WEIGHTS,
        "save_checkpoint": stages.SAVE_CHECKPOINT,
        "sleep": stages.SLEEP_WAKE,
        "wake_up": stages.SLEEP_WAKE,
    }
)


def is_title(name: str) -> bool:
    """Tell whether a window's name is a title, so that the window is an estimate."""
    return name.startswith(PREFIX)


def class_of(title: str) -> str:
    """Return a title without what the process does just now, and without its name."""
    return PREFIX + title.removeprefix(PREFIX).rpartition(":")[2].partition(".")[0]


@lru_cache(maxsize=1024)
def role_of(title: str) -> str:
    """Return the role that a worker's class hints at, "" when it hints at none."""
    if not title.startswith(PREFIX):
        return ""
    name = class_of(title).removeprefix(PREFIX).lower().replace("_", "")
    return next((role for word, role in _ROLE_OF_WORD.items() if word in name), "")


@lru_cache(maxsize=1024)
def stage_of_title(title: str) -> str | None:
    """Return the canonical stage that a title hints at, None when it hints at none.

    A method that is not listed is taken as a stage's name in any framework's spelling.
    """
    method = title.removeprefix(PREFIX).rpartition(":")[2].partition(".")[2]
    if not title.startswith(PREFIX) or not method:
        return None
    if "ref_" in method and "compute_log_prob" in method and "actor" not in method:
        return stages.REF
    for part in ("", *_PARTS):
        name = method.removeprefix(part)
        stage = _STAGE_OF_METHOD.get(name) or stages.stage_of(name)
        if stage is not None and stage in stages.STAGES:
            return stage
    return None
