"""Rules about training health: reward, KL, entropy, lengths, gradients, advantages."""

from longpole_server.alerts.detectors.against_start import AgainstStart
from longpole_server.alerts.detectors.health import (
    AdvantageSpread,
    KlHigh,
    LengthCollapsed,
    MfuLow,
)
from longpole_server.alerts.detectors.not_finite import NotFinite
from longpole_server.alerts.detectors.reward_shape import RewardJump
from longpole_server.alerts.detectors.robust_jump import RobustJump
from longpole_server.alerts.detectors.threshold import Threshold
from longpole_server.alerts.rule import Rule

LEARNING_RULES: tuple[Rule, ...] = (
    Rule(
        "reward.jump",
        "Reward jumps up",
        "trend",
        "warning",
        RewardJump(
            RobustJump(
                "reward_mean",
                "above",
                deviations=6.0,
                min_change=0.1,
                min_change_of_median=0.30,
                sudden=4,
            )
        ),
        condition=(
            "the mean reward is within a few steps 6 robust deviations above its last 50, or the "
            "samples' rewards fall into two groups where they had one peak"
        ),
        summary="Reward: {what} ({value}, usual was {baseline}).",
        cause="Often reward hacking: the policy found what the reward pays for and nobody meant.",
        first_look="Samples with the highest reward of these steps, read by a person.",
        for_steps=3,
    ),
    Rule(
        "reward.collapse",
        "Reward collapses",
        "trend",
        "critical",
        RobustJump(
            "reward_mean",
            "below",
            deviations=5.0,
            min_change=0.05,
            min_change_of_median=0.30,
            sustained=6,
        ),
        condition=(
            "the mean reward is 5 robust deviations below its last 50 steps for three steps, or "
            "eight steps lie below all of them and 40 % below their median"
        ),
        summary="The mean reward fell to {value}, usual was {baseline}.",
        cause="The policy broke, or the reward did: a failing scorer gives zeros.",
        first_look="KL, entropy and gradient norm before the fall, and the reward service.",
        for_steps=3,
    ),
    Rule(
        "kl.high",
        "KL to the reference high",
        "trend",
        "warning",
        KlHigh(),
        condition="KL to the reference is above 50 nats a sequence for three steps",
        summary="KL to the reference is {value} a sequence ({basis}), the limit is {threshold}.",
        cause="The policy drifts away from the reference too fast.",
        first_look="KL coefficient and learning rate, then what the samples look like.",
        for_steps=3,
    ),
    Rule(
        "entropy.collapse",
        "Entropy collapses",
        "trend",
        "warning",
        AgainstStart("entropy", "below", fire_ratio=0.2, clear_ratio=0.3, unit="nats"),
        condition="entropy is below a fifth of what it was at the start for five steps",
        summary="Entropy is {value}, at the start it was {baseline}.",
        cause="The policy stopped exploring: answers of a group become the same.",
        first_look="Entropy bonus, clip range, temperature, and the share of groups without "
        "spread.",
        for_steps=5,
    ),
    Rule(
        "length.collapse",
        "Responses collapse",
        "trend",
        "critical",
        LengthCollapsed(),
        condition="the mean response is nearly empty, or a quarter of what it was, for three steps",
        summary="Responses are {value} long, at the start they were {baseline}.",
        cause="The policy learnt to stop early: a length penalty, or a broken end-of-text token.",
        first_look="A few samples of this step, then the length penalty.",
        for_steps=3,
    ),
    Rule(
        "length.explosion",
        "Responses explode",
        "trend",
        "warning",
        RobustJump(
            "response_length_mean",
            "above",
            deviations=10.0,
            min_change=64.0,
            min_change_of_median=0.5,
            unit="tokens",
            is_ratio=True,
            rare=0.1,
        ),
        condition=(
            "the mean response is 10 robust deviations, and half, above its last 50 steps for "
            "three steps"
        ),
        summary="Responses grew to {value}, usual were {baseline}.",
        cause="The policy rambles: repetition, or answers that never end.",
        first_look="The longest samples, and how many end at the cap.",
        for_steps=3,
    ),
    Rule(
        "clip.high",
        "Clip fraction high",
        "trend",
        "warning",
        Threshold("clip_fraction", fire=0.50, clear=0.40, unit="ratio"),
        condition="more than half of the tokens are clipped for three steps",
        summary="{value} of the tokens are clipped, healthy is 5 to 20 %.",
        cause="Updates are too aggressive for how far the samples are off policy.",
        first_look="Learning rate, updates per batch, and staleness.",
        for_steps=3,
    ),
    Rule(
        "mfu.low",
        "MFU of the update low",
        "trend",
        "info",
        MfuLow(),
        condition="the update's MFU is below 20 % (10 % for a mixture of experts) for ten steps",
        summary="The update's MFU is {value}; {kind} should reach {healthy}.",
        cause="Small micro-batches, padding, offloading, or ranks that wait.",
        first_look="ppo_max_token_len_per_gpu, use_dynamic_bsz, use_remove_padding, offload.",
        for_steps=10,
        panel="run-mfu",
    ),
    Rule(
        "grad.spike",
        "Gradient norm spikes",
        "trend",
        "warning",
        RobustJump(
            "grad_norm",
            "above",
            deviations=9.0,
            min_change_of_median=7.0,
            min_change=0.01,
            is_ratio=True,
            sustained=3,
            sustained_change=3.0,
        ),
        condition=(
            "the gradient norm is eight times its median, and beyond 9 robust deviations of its "
            "logarithm; or three steps lie above all before and at four times their median"
        ),
        summary="The gradient norm is {value}, usual is {baseline}.",
        cause="A bad batch, stale samples, or a mismatch between rollout and trainer.",
        first_look="Staleness and mismatch of this step, then its samples with extreme advantages.",
    ),
    Rule(
        "loss.nan",
        "Loss is not a number",
        "fault",
        "critical",
        NotFinite(("loss", "grad_norm")),
        condition="a loss or gradient norm is NaN or infinite",
        summary="{what}: {names}.",
        cause="Overflow, a division by zero, or a broken batch; the weights may be spoilt already.",
        first_look="The last checkpoint before this step, and the first metric that broke.",
    ),
    Rule(
        "advantage.variance",
        "Advantages spread oddly",
        "trend",
        "warning",
        AdvantageSpread(),
        condition=(
            "the spread of the advantages is a twentieth of its median for three steps, or five "
            "times that and beyond 8 robust deviations of its logarithm"
        ),
        summary="Advantages spread over {value}, usual is {baseline}: {what}.",
        cause="Groups whose answers all get the same reward, or a reward without bounds.",
        first_look="The share of groups with equal rewards, the largest rewards, and how "
        "advantages are normalised.",
        for_steps=3,
    ),
    Rule(
        "mismatch.high",
        "Rollout and trainer disagree",
        "trend",
        "warning",
        RobustJump(
            "rollout_train_mismatch",
            "above",
            deviations=8.0,
            min_change=0.02,
            min_change_of_median=2.0,
            unit="nats",
            is_ratio=True,
        ),
        condition=(
            "the mismatch is three times that of its last 50 steps, and beyond 8 robust deviations "
            "of its logarithm"
        ),
        summary="Rollout and trainer disagree by {value}, usual is {baseline}.",
        cause="Weights or caches of the engines are not the trainer's: a sync or a cache reset "
        "failed.",
        first_look="The last weight sync, the prefix cache's reset, and precision of both sides.",
        for_steps=2,
    ),
)
