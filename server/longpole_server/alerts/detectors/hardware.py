"""GPUs and nodes of a run: lost, throttled, idle, silent, with a wrong clock."""

from dataclasses import dataclass

from longpole.conventions.gpus import THROTTLE_REASONS
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History
from longpole_server.alerts.rule import Judgement, not_judgeable
from longpole_server.alerts.wording import format_seconds

_NS_PER_S = 1e9
# GPUs of a role among which one can stand out.
_LEAST_PEERS = 3
_NO_GPU = "no GPU of the run reports"


@dataclass(frozen=True, slots=True)
class GpuLost:
    """A GPU that a live run holds reports nothing, though its node does."""

    fire: float = 60.0
    clear: float = 30.0
    unit: str = "s"
    reads: tuple[str, ...] = ("time of the GPU's newest sample", "time of its node's newest")

    def judge(self, history: History) -> Judgement:
        """Judge one GPU by the other reports of its node."""
        gpu = history.gpu
        if gpu is None:
            return not_judgeable(_NO_GPU, self.unit)
        seen = next((host for host in history.hosts if host.host == gpu.host), None)
        host_ns = history.gpus.newest_ns_of_host[gpu.host]
        if seen is not None:
            host_ns = max(host_ns, seen.newest_ns)
        silent_s = (host_ns - gpu.newest_ns) / _NS_PER_S
        return compare(silent_s, self.fire, self.clear, self.unit, words={"gpu": gpu.label})


# XID errors that the program on the GPU caused, not the GPU: NVIDIA's list names them so.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68})


@dataclass(frozen=True, slots=True)
class GpuFault:
    """The driver reported an XID error, or memory errors that could not be corrected."""

    fire: float | None = 0.0
    clear: float | None = 0.0
    unit: str = "1"
    reads: tuple[str, ...] = ("xid", "ecc_uncorrected_errors")

    def judge(self, history: History) -> Judgement:
        """Judge one GPU; the value is the XID, else the number of memory errors."""
        gpu = history.gpu
        if gpu is None or (gpu.xid is None and gpu.ecc_errors is None):
            return not_judgeable("its driver's errors are not reported", self.unit)
        xid, errors = gpu.xid or 0, gpu.ecc_errors or 0
        said = [f"XID {xid}"] if xid else []
        said += [f"{errors} uncorrected memory errors"] if errors else []
        whose = "the program on it" if xid in _OF_PROGRAMS and not errors else "the GPU or its link"
        words = {"gpu": gpu.label, "said": " and ".join(said), "whose": whose}
        return compare(float(xid or errors), 0.0, 0.0, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class SpoolFilling:
    """An agent's spool or the disk under it fills up, or it dropped what it could not keep."""

    fire: float = 0.80
    clear: float = 0.60
    disk_fire: float = 0.95
    unit: str = "ratio"
    reads: tuple[str, ...] = ("spool_used_ratio", "disk_used_ratio", "agent_dropped_total")

    def judge(self, history: History) -> Judgement:
        """Judge the agent of one node; what it dropped counts as a spool that is full."""
        host = history.host
        if host is None or host.spool_used_ratio is None:
            return not_judgeable("its agent does not say how full its spool is", self.unit)
        if host.num_dropped:
            words = {"what": f"the agent dropped {host.num_dropped:,} batches in the last minutes"}
            return compare(1.0, self.fire, self.clear, self.unit, words=words)
        if (host.disk_used_ratio or 0.0) > self.disk_fire:
            words = {"what": f"the disk under the agent's spool is {host.disk_used_ratio:.0%} full"}
            return compare(1.0, self.fire, self.clear, self.unit, words=words)
        words = {"what": f"the agent's spool is {host.spool_used_ratio:.0%} full"}
        return compare(host.spool_used_ratio, self.fire, self.clear, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class GpuThrottled:
    """A GPU whose clock is held back by heat or by its power supply."""

    fire: float = 0.5
    clear: float = 0.1
    unit: str = "ratio"
    reads: tuple[str, ...] = ("clocks_event_reasons",)

    def judge(self, history: History) -> Judgement:
        """Judge one GPU over the last minute."""
        gpu = history.gpu
        if gpu is None or gpu.throttled_ratio is None:
            return not_judgeable("clock-event reasons are not reported", self.unit)
        reasons = [text for bit, text in THROTTLE_REASONS.items() if gpu.throttle_reasons & bit]
        words = {"gpu": gpu.label, "reasons": ", ".join(reasons) or "no reason"}
        return compare(gpu.throttled_ratio, self.fire, self.clear, self.unit, words=words)


@dataclass(frozen=True, slots=True)
class GpuIdle:
    """A GPU that does nothing while the others of its role in the run work."""

    fire: float = 0.05
    clear: float = 0.15
    unit: str = "ratio"
    busy_ratio: float = 0.4
    reads: tuple[str, ...] = ("utilization_ratio", "sm_active_ratio", "role")

    def judge(self, history: History) -> Judgement:
        """Judge one GPU by its peers over the last minute."""
        gpu = history.gpu
        value = gpu.busy_ratio if gpu is not None else None
        if gpu is None or value is None:
            return not_judgeable("its utilisation is not reported", self.unit)
        count, usual = history.gpus.busy_of_role[gpu.role]
        if count < _LEAST_PEERS:
            return not_judgeable("fewer than two other GPUs have its role", self.unit)
        words = {"gpu": gpu.label, "role": gpu.role or "its role"}
        if usual < self.busy_ratio:
            return Judgement(
                False,
                value > self.clear,
                value,
                self.fire,
                self.unit,
                usual,
                quiet_because=f"the other GPUs of {words['role']} are not busy either",
            )
        return compare(
            value, self.fire, self.clear, self.unit, "below", baseline=usual, words=words
        )


@dataclass(frozen=True, slots=True)
class NodeSilent:
    """A node of a live run from which nothing comes any more."""

    fire: float = 60.0
    clear: float = 30.0
    unit: str = "s"
    reads: tuple[str, ...] = ("time of the node's newest sample",)

    def judge(self, history: History) -> Judgement:
        """Judge one node."""
        host = history.host
        if host is None:
            return not_judgeable("no node of the run is known", self.unit)
        if history.own is not None and history.own.num_pending > 1_000:
            return not_judgeable(
                f"{history.own.num_pending:,} requests still wait to be stored", self.unit
            )
        # A clock that is wrong makes old data of new one, or the other way round.
        heard_ns = host.newest_ns if host.heard_ns is None else host.heard_ns
        silent_s = (history.moment.ts_ns - heard_ns) / _NS_PER_S
        return compare(silent_s, self.fire, self.clear, self.unit)


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A node whose clock is not the server's.

    Its agent compares the two with every answer of the server. Without that, data from the future
    shows a clock that is ahead; one that is behind looks like slow delivery and is not judged.
    """

    fire: float = 5.0
    clear: float = 2.0
    unit: str = "s"
    reads: tuple[str, ...] = (
        "longpole.agent.clock.offset",
        "time of the node's newest sample",
        "the server's clock",
    )

    def judge(self, history: History) -> Judgement:
        """Judge one node; the value is how far its clock is off."""
        host = history.host
        if host is None:
            return not_judgeable("no node of the run is known", self.unit)
        ahead_s = (host.newest_ns - history.moment.decided_ns) / _NS_PER_S
        if host.clock_ahead_s is not None and ahead_s < self.fire:
            ahead_s = host.clock_ahead_s
        elif ahead_s < -self.fire:
            return Judgement(
                False,
                True,
                ahead_s,
                self.fire,
                self.unit,
                quiet_because=(
                    f"its newest data is {format_seconds(-ahead_s)} old: behind or delayed, which "
                    "cannot be told apart without a word of its agent"
                ),
            )
        words = {"side": "ahead of" if ahead_s > 0 else "behind"}
        return compare(abs(ahead_s), self.fire, self.clear, self.unit, words=words)
