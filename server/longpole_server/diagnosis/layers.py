"""Layers of evidence: what a rule may hear beside the stages' own seconds, and who reports it.

A diagnosis names the layers that its verdict used and those that could have spoken but are silent.
"""

from collections.abc import Mapping
from types import MappingProxyType

LAYERS: Mapping[str, str] = MappingProxyType(
    {
        "spans": "stage spans with times of day, in place of timers alone",
        "trajectories": "samples with their times and tokens (`longpole.trajectory`)",
        "agent_loop": "verl's `timing_s/agent_loop/*`",
        "engines": "the engines' Prometheus pages, or their logs",
        "preemptions": "how often samples are preempted: engines' counters, samples' own; verl's "
        "-1 is not reported",
        "gpus": "GPU activity by stage, clocks and idle seconds, by the agents",
        "sync_phases": "phases, bytes and method of the weight sync (`longpole.sync_phase`)",
        "mfu": "the update's MFU, reported or computed",
        "critic_mfu": "the MFU of the critic's update, as the trainer reports it",
        "mfu_infer": "the MFU of log probabilities, as the trainer reports it",
        "model": "the model's configuration (`rl.model.config`, or a well-known name)",
        "rank_tokens": "verl's `global_seqlen/*`: tokens by data-parallel rank",
        "response_cap": "the cap of a response's length, with lengths or clip ratios",
        "buffer": "samples in the buffer between rollout and trainer, and its capacity",
        "pauses": "the part of the time in which the rollout is paused",
        "baseline": "earlier steady steps of the same attempt and configuration",
        "controller_cpu": "CPU of the controller's process: what `top` or `py-spy` on its node "
        "show; no source of Longpole reports it by stage",
        "ray_object_store": "Ray's object store by node, by the agents: what it spills to disk "
        "because batches do not fit into its memory",
    }
)
