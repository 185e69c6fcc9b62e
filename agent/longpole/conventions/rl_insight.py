"""Names that RL-Insight's client uses, and what verl's metrics were called before it renamed them.

The client turns `timing_s/gen` into the gauge `rl_insight_monitor_timing_s_gen`. Where the slashes
were is told by the names that are known, and by the families that verl logs.
"""

import re
from functools import lru_cache

from longpole.conventions.metrics import CANONICAL_OF_ALIAS

# Service name of its spans, and the prefix of its gauges. Both are its namespace's default.
SERVICE = "rl_insight_monitor"
GAUGE_PREFIX = f"{SERVICE}_"
# The job under which its page is registered.
TRAINER_JOB = "trainer_metrics"
# The gauge that says which step the others are of.
STEP_GAUGE = f"{GAUGE_PREFIX}training_global_step"
# Gauges that describe samples in their labels, one series each: nothing that can be plotted.
DESCRIPTIVE_PREFIX = f"{GAUGE_PREFIX}agent_loop_"

# Attributes of its spans.
LANE = "state_lane_id"
STATE = "state_name"
SEGMENT = "monitor.trace_segment"
SOURCE = "monitor.trace_source"
SPAN_SESSION = "agent_session"
REPLICA_LANE_PREFIX = "replica_"
RANK_LANE_PREFIX = "rank_"

# Labels and attributes that an agent adds: the job whose processes are one run.
JOB = "longpole.job"
JOB_LABEL = "longpole_job"

_SUMMARY = "mean|max|min|std|sum|clip_ratio"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"timing_s_agent_loop_slowest_(\w+)", r"timing_s/agent_loop/slowest/\1"),
        (rf"timing_s_agent_loop_(\w+?)_({_SUMMARY})", r"timing_s/agent_loop/\1/\2"),
        (r"timing_s_timing_s_(\w+)", r"timing_s/timing_s/\1"),
        (r"(timing_s|timing_per_token_ms)_(\w+)", r"\1/\2"),
        (r"(actor|critic)_perf_(\w+)", r"\1/perf/\2"),
        (r"perf_mfu_(\w+)", r"perf/mfu/\1"),
        (rf"critic_(score|rewards|advantages|returns|values)_({_SUMMARY})", r"critic/\1/\2"),
        (rf"training_num_turns_({_SUMMARY})", r"training/num_turns/\1"),
        (rf"val[-_]aux_num_turns_({_SUMMARY})", r"val-aux/num_turns/\1"),
        (r"val[-_](core|aux)_(.+)", r"val-\1/\2"),
        (
            rf"(training|validation)_off_policy_(\w+?)_({_SUMMARY})",
            r"\1/off_policy/\2/\3",
        ),
        (
            r"(training|validation)_(off_policy|filter_groups|rollout_failure)_(\w+)",
            r"\1/\2/\3",
        ),
        (
            r"fully_async_(count|static|partial|processing_time|trainer|rollouter)_(\w+)",
            r"fully_async/\1/\2",
        ),
        (r"fully_async_monitor_queue_(\w+)", r"fully_async/monitor/queue/\1"),
        (r"fully_async_monitor_(\w+)", r"fully_async/monitor/\1"),
        (r"separate_async_(switch|decision)_(\w+)", r"separate_async/\1/\2"),
        (r"(checkpoint_engine|dynamic_resource|fully_async|rollout_corr)_(\w+)", r"\1/\2"),
        (
            (
                r"(response_length_non_aborted|response_length|prompt_length|num_turns|"
                rf"tool_call_counts)_({_SUMMARY})"
            ),
            r"\1/\2",
        ),
        (r"(global_seqlen|variance_proxy)_(\w+)", r"\1/\2"),
        (r"(actor|critic|perf|training|rollout|response|train|val)_(\w+)", r"\1/\2"),
    )
)
# Where the slashes of a data source were is not known: they stay underscores.
_VALIDATION = re.compile(
    r"val[-_](?P<kind>core|aux)_(?P<source>.+?)_(?P<score>acc|reward|score)"
    r"_(?P<of>(?:mean|maj|best|worst|std)@\d+(?:_mean|_std)?)"
)
_KNOWN = {alias.replace("/", "_"): alias for alias in CANONICAL_OF_ALIAS if "/" in alias}


@lru_cache(maxsize=4096)
def restore_name(gauge: str) -> str:
    """Return the name verl gave a metric, from its gauge without prefix.

    What fits no rule keeps its underscores: it is stored under the name it came with.
    """
    known = _KNOWN.get(gauge)
    if known is not None:
        return known
    match = _VALIDATION.fullmatch(gauge)
    if match is not None:
        return "/".join(
            (f"val-{match['kind']}", match["source"], match["score"], match["of"].replace("_", "/"))
        )
    for pattern, replacement in _RULES:
        match = pattern.fullmatch(gauge)
        if match is not None:
            return match.expand(replacement)
    return gauge
