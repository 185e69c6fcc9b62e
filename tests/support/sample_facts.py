"""Samples as columns, made one by one: what the store's own columns are measured against."""

from collections.abc import Mapping, Sequence

from longpole_server.model.facts import TrajectoryFacts
from longpole_server.model.trajectory import Trajectory


def make_trajectory_facts(
    samples: Sequence[Trajectory], tools: Mapping[str, str] | None = None
) -> TrajectoryFacts | None:
    """Return samples as columns, None without any.

    Args:
        samples: The samples.
        tools: The tool that each spent most time in, by its id; None when nobody asked.
    """
    if not samples:
        return None
    return TrajectoryFacts(
        start_ns=[sample.start_ns for sample in samples],
        end_ns=[sample.end_ns for sample in samples],
        durations_s=[sample.duration_s for sample in samples],
        generate_s=[sample.generate_s for sample in samples],
        tool_s=[sample.tool_s for sample in samples],
        score_s=[sample.score_s for sample in samples],
        queue_s=[sample.queue_s for sample in samples],
        output_tokens=[sample.output_tokens for sample in samples],
        preemptions=[sample.preemptions for sample in samples],
        statuses=[sample.status for sample in samples],
        replicas=[sample.replica for sample in samples],
        paused_s=[sample.paused_s for sample in samples],
        input_tokens=[sample.input_tokens for sample in samples],
        turns=[sample.turns for sample in samples],
        group_ids=[sample.group_id for sample in samples],
        rewards=[sample.reward for sample in samples],
        policy_versions_start=[sample.policy_version_start for sample in samples],
        policy_versions_end=[sample.policy_version_end for sample in samples],
        tools=() if tools is None else [tools.get(sample.trajectory_id) for sample in samples],
    )
