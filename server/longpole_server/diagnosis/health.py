"""The health table: metrics with a band, and what leaving it means."""

from collections.abc import Callable
from dataclasses import dataclass

from longpole_server.diagnosis.rules.update_mfu import limits_of_mfu
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Evidence, Finding, Reference
from longpole_server.model.step import Severity

_KL_BASIS_KEYS = ("rl.kl.basis", "kl.basis", "kl_basis")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A metric outside of its band."""

    value: float
    unit: str
    limit: float
    summary: str
    severity: Severity = "warning"
    source: str = "scalars"


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One row of the table."""

    metric: str
    read: Callable[[View], _Reading | None]


def _clip_fraction(view: View) -> _Reading | None:
    value = view.metric("clip_fraction")
    limit = view.limits["health.clip_fraction"]
    if value is None or value <= limit:
        return None
    return _Reading(
        value,
        "1",
        limit,
        f"{percent(value)} of the tokens are clipped: updates are too aggressive.",
    )


def _kl_ref(view: View) -> _Reading | None:
    """KL to the reference a sequence; a mean over tokens is multiplied by the length first."""
    value = view.metric("kl_ref")
    if value is None:
        return None
    basis = next(
        (view.run.config[key] for key in _KL_BASIS_KEYS if key in view.run.config), "token"
    )
    note = ""
    if basis != "sequence":
        length = view.metric("response_length_mean")
        if length is None:
            return None
        note = f" ({value:.3g} a token x {length:.0f} tokens of a mean response)"
        value *= length
    limit = view.limits["health.kl_ref"]
    if value <= limit:
        return None
    return _Reading(
        value,
        "nats",
        limit,
        f"KL to the reference is {value:.0f} nats a sequence{note}: the policy drifts too fast.",
    )


def _truncated_ratio(view: View) -> _Reading | None:
    limit = view.limits["health.truncated_ratio"]
    known = view.truncated_ratio
    value = known if known is not None else view.metric("truncated_ratio")
    if value is None or value < limit:
        return None
    if known is None:
        return _Reading(
            value,
            "1",
            limit,
            f"{percent(value)} of the samples are as long as the longest of their batch, which may "
            "be the cap; the cap is not known.",
            "info",
        )
    return _Reading(value, "1", limit, f"{percent(value)} of the samples end at the length cap.")


def _mfu_actor(view: View) -> _Reading | None:
    low, healthy = limits_of_mfu(view)
    if view.mfu_actor is None or view.mfu_actor >= low:
        return None
    return _Reading(
        view.mfu_actor,
        "1",
        low,
        f"The update's MFU is {percent(view.mfu_actor)}, healthy is {percent(healthy)}.",
    )


HEALTH_CHECKS: tuple[HealthCheck, ...] = (
    HealthCheck("clip_fraction", _clip_fraction),
    HealthCheck("kl_ref", _kl_ref),
    HealthCheck("truncated_ratio", _truncated_ratio),
    HealthCheck("mfu_actor", _mfu_actor),
)


def check_health(view: View, first_step: int, last_step: int) -> list[Finding]:
    """Return a finding for every metric outside of its band."""
    findings: list[Finding] = []
    for check in HEALTH_CHECKS:
        reading = check.read(view)
        if reading is None:
            continue
        row = Evidence(
            check.metric,
            reading.value,
            reading.unit,
            Reference("threshold", reading.limit),
            "supports",
            "inner",
            reading.source,
        )
        code = f"health.{check.metric}"
        findings.append(
            Finding(code, reading.severity, None, first_step, last_step, reading.summary, (row,))
        )
    return findings
