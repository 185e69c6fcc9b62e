"""Rules about whether a run gets anywhere at all."""

from longpole_server.alerts.detectors.liveness import Hanging, Stalled, TrainerGone
from longpole_server.alerts.rule import Rule

LIVENESS_RULES: tuple[Rule, ...] = (
    Rule(
        "run.stalled",
        "Run stalled",
        "fault",
        "critical",
        Stalled(),
        condition=(
            "no step closed for five usual steps and two minutes, or for half an hour before the "
            "first one, though the run's processes are heard of"
        ),
        summary="No step has closed for {value}; {stage}.",
        cause="A stage waits for something that does not come: a stuck sample, a tool, a "
        "collective.",
        first_look="The open stage, then the GPUs of its role: busy, idle or spinning.",
        trigger="time",
        panel="run-now",
    ),
    Rule(
        "run.hang",
        "Run hangs in a collective",
        "fault",
        "critical",
        Hanging(),
        condition=(
            "half of the run's GPUs report full utilisation with no tensor activity and little "
            "power while no step closes"
        ),
        summary="{value} of the run's GPUs spin at {watts} and no step has closed for {silent}; "
        "{stage}.",
        cause="Ranks wait for each other in a collective: one of them is gone, late or out of "
        "step.",
        first_look="Stack traces of the ranks (py-spy dump), and the rank whose GPU does not spin.",
        trigger="time",
        for_s=60.0,
        panel="run-gpus",
    ),
    Rule(
        "trainer.gone",
        "Trainer gone",
        "fault",
        "critical",
        TrainerGone(),
        condition=(
            "the run crashed, or none of its processes was heard of for two minutes, though they "
            "speak while a stage runs"
        ),
        summary="The run is gone: {how}; {risk}.",
        cause="The training process died or lost its network.",
        first_look="The end of the trainer's log, and whether its node is still there.",
        trigger="time",
        panel="run-now",
    ),
)
