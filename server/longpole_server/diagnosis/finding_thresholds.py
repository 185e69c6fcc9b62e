"""The numbers that findings are made by."""

from longpole_server.diagnosis.threshold import Threshold

_RULES = "decision table"
_SEEDS = "health table of the seeds"
_CASES = "public cases of leaks and decay"

FINDING_THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("health.clip_fraction", 0.50, "1", "updates are too aggressive", _SEEDS),
    Threshold("health.kl_ref", 50.0, "nats", "the policy drifts, per sequence", _SEEDS),
    Threshold("health.truncated_ratio", 0.25, "1", "many answers end unfinished", _RULES),
    Threshold(
        "finding.change_ratio",
        1.25,
        "1",
        "a change against the own baseline worth a line",
        "ordinary scatter of step times",
    ),
    Threshold(
        "finding.min_share",
        0.02,
        "1",
        "changes of stages smaller than this part of a step do not matter",
        "ordinary scatter of step times",
    ),
    Threshold(
        "finding.scatter",
        3.0,
        "standard deviations",
        "a change that the stage's own scatter makes once in hundreds of windows says nothing",
        "three-sigma rule",
    ),
    Threshold(
        "health.stale_drop_ratio", 0.20, "1", "a fifth of what is generated is thrown away", _SEEDS
    ),
    Threshold(
        "health.rollout_busy", 0.50, "1", "usual is 0.50 to 0.70, healthy above 0.80", _SEEDS
    ),
    Threshold(
        "health.jump_deviations",
        6.0,
        "1",
        "robust deviations from the window's own course that are no scatter",
        "one in a thousand for heavy tails",
    ),
    Threshold(
        "health.length_factor",
        3.0,
        "1",
        "responses this many times shorter or longer than the window began with",
        _SEEDS,
    ),
    Threshold(
        "gpu.throttled.ratio",
        0.10,
        "1",
        "part of the samples at work with a slowdown for heat or power delivery",
        "short episodes are ordinary",
    ),
    Threshold(
        "gpu.idle.ratio",
        0.90,
        "1",
        "a GPU idle for so much of the step while the others of its role work",
        "nine tenths leave no doubt",
    ),
    Threshold(
        "gpu.lost.silence_s",
        30.0,
        "s",
        "a GPU without a sample for so long beside others of its node that go on reporting",
        "GPUs are sampled every second",
    ),
    Threshold("kv.pressure.ratio", 0.95, "1", "the KV cache is as good as full", _RULES),
    Threshold(
        "kv.leak.rise_ratio",
        0.02,
        "1",
        "the part of the KV cache still taken at rest that has come over the window",
        _CASES,
    ),
    Threshold(
        "trend.min_steps", 8.0, "steps", "fewer points are no trend", _CASES + ": 8 to 10 points"
    ),
    Threshold("trend.monotone_ratio", 0.80, "1", "part of the pairs of points that rise", _CASES),
    Threshold(
        "staleness.drift_versions",
        1.0,
        "1",
        "a lag that grew by a version over the window will meet its bound",
        "healthy: 0 to 2 versions",
    ),
    Threshold(
        "staleness.bound_versions",
        2.0,
        "1",
        "bounds below this are held by design",
        _SEEDS,
    ),
    Threshold(
        "mismatch.nats",
        0.10,
        "nats",
        "trainer and engine disagree about their own samples by so much a token",
        "usual are 0.001 to 0.03; broken cache resets show 0.8",
    ),
    Threshold(
        "mismatch.probs",
        0.01,
        "1",
        "mean difference of the two sides' probabilities",
        "verl: about 0.005 is usual",
    ),
    Threshold(
        "mismatch.ess",
        0.50,
        "1",
        "correction weights leave less than half of the samples' worth",
        "half, as elsewhere",
    ),
    Threshold(
        "prefix_cache.cold_ratio",
        0.50,
        "1",
        "seen hit rate over the one that groups make possible",
        "half, as elsewhere",
    ),
    Threshold("group.prefill_ratio", 0.10, "1", "below, prompts cost nothing to speak of", _RULES),
    Threshold(
        "group.spread",
        1.5,
        "1",
        "replicas that a mean group is spread over",
        "one is ideal, now and then two are no pattern",
    ),
    Threshold(
        "rollout.filtered.ratio",
        0.20,
        "1",
        "part of what is generated that no update sees",
        "as for stale drops",
    ),
)
