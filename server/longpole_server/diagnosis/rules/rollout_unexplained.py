"""rollout.unexplained: gen is long and nothing inside it says why."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.gpu_activity import is_idle, measure_activity
from longpole_server.diagnosis.inside_gen import InsideGen
from longpole_server.diagnosis.proof import Advice, Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, times
from longpole_server.model.diagnosis import Evidence

_IDLE = "gpu.idle_activity"
_QUEUE = "rollout.queue.ratio"
_MORE_AT_A_TIME = Advice(
    "Let more sequences decode at a time, or on more replicas: samples wait for others to end.",
    ("engine.concurrency", "engine.replicas"),
)
# What each layer would show, in the order in which it helps most.
_WOULD_SHOW = (
    ("trajectories", "trajectories would show slow samples, tools and scoring"),
    ("engines", "engine metrics would show queues, the KV cache and preemptions"),
    ("gpus", "GPU activity would show whether anything is computed"),
)


def _judge(view: View) -> Proof:
    inside = view.inside
    rows = [*_sample_rows(view, inside), *_gpu_rows(view)]
    unseen = [text for source, text in _WOULD_SHOW if source not in view.sources]
    if inside is None:
        because = "nothing reports what happens inside it"
    else:
        because = f"no cause inside it is proven ({_seen(inside)})"
    in_waves = inside is not None and (inside.queue_ratio or 0.0) >= view.limits[_QUEUE]
    if in_waves:
        because += "; they come in waves, as at a cap on the sequences decoded together"
    if unseen:
        because += "; " + ", ".join(unseen)
    elif not in_waves:
        because += (
            "; what is left is outside of samples and engines: concatenation on the controller, "
            "scheduling, sleep and wake-up"
        )
    return Proof(because, tuple(rows), first=(_MORE_AT_A_TIME,) if in_waves else ())


def _seen(inside: InsideGen) -> str:
    parts: list[str] = []
    if inside.slowest_of_gen is not None:
        parts.append(f"the slowest sample fills {percent(inside.slowest_of_gen)} of it")
    if inside.time_ratio is not None:
        parts.append(f"takes {times(inside.time_ratio)} the mean")
    if inside.queue_ratio is not None and inside.queue_ratio > 0:
        parts.append(f"samples wait {percent(inside.queue_ratio)} of their time in a queue")
    return " and ".join(parts) or "what its samples report is not enough"


def _sample_rows(view: View, inside: InsideGen | None) -> list[Evidence]:
    if inside is None:
        return []
    source = view.inner_source
    values = (
        ("rollout/slowest_of_gen", inside.slowest_of_gen),
        ("rollout/slowest_to_mean_time", inside.time_ratio),
        ("rollout/queue_ratio", inside.queue_ratio),
    )
    return [
        inner(metric, value, "1", source, None, "contradicts")
        for metric, value in values
        if value is not None
    ]


def _gpu_rows(view: View) -> list[Evidence]:
    activity = measure_activity(view.gpu_windows(stages.GEN))
    if activity is None or activity.sm is None:
        return []
    effect = "supports" if is_idle(activity, view.limits) else "contradicts"
    return [inner("gpu_active/gen", activity.sm, "1", "gpus", threshold(view, _IDLE), effect)]


RULE = Rule(
    code="rollout.unexplained",
    family=ROLLOUT,
    title="the rollout is long for an unknown reason",
    proof="Nothing inside gen is known, or nothing known explains it. Waves of samples that wait "
    "in queues for a tenth of their time are named.",
    recoverable="not estimated",
    reads=("trajectories", "timing_s/agent_loop/*", "engine series", "GPU activity"),
    thresholds=(_IDLE, _QUEUE),
    sources=("trajectories", "agent_loop", "engines", "gpus"),
    next=(
        Advice(
            "Send trajectories (`longpole.trajectory`): they show slow samples, tools and scoring.",
            unless="trajectories",
        ),
        Advice(
            "Let engines be scraped: running and waiting requests, KV cache, preemptions.",
            ("engine.log",),
            unless="engines",
        ),
        Advice("Look at what gen hides: concatenation on the controller, scheduling, wake-up."),
    ),
    judge=_judge,
)
