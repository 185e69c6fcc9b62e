"""Rules about throughput against the run's own past."""

from longpole_server.alerts.detectors.pace import ThroughputFall
from longpole_server.alerts.rule import Rule

PACE_RULES: tuple[Rule, ...] = (
    Rule(
        "throughput.decay",
        "Throughput decays",
        "trend",
        "warning",
        ThroughputFall(fire_ratio=0.75, clear_ratio=0.85, recent=10, frozen=True),
        condition=(
            "the median of ten steps is a quarter below that of the first steady ones, and longer "
            "responses do not explain it"
        ),
        summary="Throughput fell by {fall} since the start: {value} against {baseline}.",
        cause="Something grows from step to step: a leak, fragmentation, a cache that thrashes.",
        first_look="The stage whose seconds grew, and memory at quiet points of the engines.",
        for_steps=5,
        panel="run-throughput",
    ),
    Rule(
        "throughput.regression",
        "Throughput dropped",
        "trend",
        "warning",
        ThroughputFall(fire_ratio=0.70, clear_ratio=0.85, recent=3, frozen=False),
        condition=(
            "the median of three steps is 30 % below that of the twenty before, and neither "
            "lengths nor tokens explain it"
        ),
        summary="Throughput dropped by {fall}: {value} against {baseline}.",
        cause="A stage got slower from one step to the next: a slow node, GPU, tool or service.",
        first_look="The stage whose seconds grew, then GPUs of its role that throttle or idle.",
        for_steps=3,
        panel="run-throughput",
    ),
)
