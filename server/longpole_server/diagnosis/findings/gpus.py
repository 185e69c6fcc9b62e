"""gpu.* and straggler.gpu: single GPUs that idle, are slowed down, or no longer report."""

import statistics
from collections.abc import Iterable

from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.gpu_activity import find_stragglers
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Entity, Finding, Reference
from longpole_server.model.facts import GpuFacts

_IDLE = "gpu.idle.ratio"
_THROTTLED = "gpu.throttled.ratio"
_SILENCE = "gpu.lost.silence_s"
_CLOCK = "straggler.clock_ratio"
# A role whose usual GPU idles more than this has nothing to do, and no single GPU stands out.
_PEERS_BUSY = 0.5
# More of a kind are one trouble: the worst are named.
_MAX_NAMED = 8


def _by_gpu(view: View) -> dict[str, list[GpuFacts]]:
    rows: dict[str, list[GpuFacts]] = {}
    for facts in view.gpu_facts:
        for gpu in facts.gpus:
            rows.setdefault(gpu.gpu_uuid, []).append(gpu)
    return rows


def _entity(gpu: GpuFacts) -> Entity:
    return Entity("gpu", gpu.gpu_uuid)


def _name(gpu: GpuFacts) -> str:
    return f"GPU {gpu.gpu_index} of {gpu.host}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _idle_part(gpu: GpuFacts) -> float | None:
    if gpu.idle_s is None or gpu.busy_s is None or gpu.idle_s + gpu.busy_s <= 0:
        return None
    return gpu.idle_s / (gpu.idle_s + gpu.busy_s)


def _find_idle(view: View) -> list[Finding]:
    parts: dict[str, dict[str, float]] = {}
    newest: dict[str, GpuFacts] = {}
    for uuid, rows in _by_gpu(view).items():
        part = _mean(_idle_part(row) for row in rows)
        if part is not None:
            newest[uuid] = rows[-1]
            parts.setdefault(rows[-1].role, {})[uuid] = part
    found: list[Finding] = []
    for role, of_role in parts.items():
        usual = statistics.median(of_role.values())
        if usual > _PEERS_BUSY or len(of_role) < 2:
            continue
        for uuid, part in sorted(of_role.items(), key=lambda item: (-item[1], item[0])):
            if part < view.limits[_IDLE]:
                break
            gpu = newest[uuid]
            row = inner("gpu/idle_ratio", part, "1", "gpus", Reference("peer", usual))
            summary = (
                f"{_name(gpu)} is idle {percent(part)} of the step, the {role} GPUs usually "
                f"{percent(usual)}."
            )
            found.append(make_finding(view, "gpu.idle", "warning", summary, (row,), _entity(gpu)))
    return found[:_MAX_NAMED]


def _find_throttled(view: View) -> list[Finding]:
    found: list[tuple[float, Finding]] = []
    for rows in _by_gpu(view).values():
        ratio = _mean(row.throttled_ratio for row in rows)
        if ratio is None or ratio < view.limits[_THROTTLED]:
            continue
        gpu = rows[-1]
        reasons = sorted({reason for row in rows for reason in row.throttle_reasons})
        row = inner("gpu/throttled_ratio", ratio, "1", "gpus", threshold(view, _THROTTLED))
        why = f" ({', '.join(reasons)})" if reasons else ""
        summary = f"{_name(gpu)} is slowed down during {percent(ratio)} of its work{why}."
        found.append(
            (ratio, make_finding(view, "gpu.throttled", "warning", summary, (row,), _entity(gpu)))
        )
    found.sort(key=lambda item: -item[0])
    return [finding for _, finding in found[:_MAX_NAMED]]


def _find_stragglers(view: View) -> list[Finding]:
    found: list[Finding] = []
    for straggler in find_stragglers(view)[:_MAX_NAMED]:
        gpu = straggler.gpu
        row = inner(
            "gpu/busy_sm_clock_hz",
            straggler.clock_hz,
            "Hz",
            "gpus",
            Reference("peer", straggler.peers_hz),
        )
        why = f" ({', '.join(straggler.reasons)})" if straggler.reasons else ""
        summary = (
            f"{_name(gpu)} works at {straggler.clock_hz / 1e6:.0f} MHz, the {gpu.role} GPUs at "
            f"{straggler.peers_hz / 1e6:.0f} MHz{why}: whoever waits for it in a collective is as "
            "slow."
        )
        found.append(make_finding(view, "straggler.gpu", "warning", summary, (row,), _entity(gpu)))
    return found


def _find_lost(view: View) -> list[Finding]:
    """A GPU falls silent while another one of its node goes on reporting."""
    if not view.gpu_facts:
        return []
    facts = view.gpu_facts[-1]
    newest_of_host: dict[str, int] = {}
    for gpu in facts.gpus:
        if gpu.reported_to_ns is not None:
            newest = newest_of_host.get(gpu.host, gpu.reported_to_ns)
            newest_of_host[gpu.host] = max(newest, gpu.reported_to_ns)
    found: list[Finding] = []
    for gpu, last_ns in _last_heard(view):
        newest = newest_of_host.get(gpu.host)
        if newest is None:
            continue
        silent_s = (newest - last_ns) / 1e9
        if silent_s < view.limits[_SILENCE]:
            continue
        row = inner("gpu/silent_s", silent_s, "s", "gpus", threshold(view, _SILENCE))
        summary = (
            f"{_name(gpu)} has sent nothing for {seconds(silent_s)} while the other GPUs of its "
            "node report: it may be lost."
        )
        found.append(make_finding(view, "gpu.lost", "critical", summary, (row,), _entity(gpu)))
    return found[:_MAX_NAMED]


def _last_heard(view: View) -> list[tuple[GpuFacts, int]]:
    """Return every GPU that was ever heard in the window, with when that was last."""
    heard: dict[str, tuple[GpuFacts, int]] = {}
    for facts in view.gpu_facts:
        for gpu in facts.gpus:
            if gpu.reported_to_ns is not None:
                heard[gpu.gpu_uuid] = (gpu, gpu.reported_to_ns)
    return list(heard.values())


IDLE = FindingKind(
    "gpu.idle",
    "a GPU stands idle beside busy peers",
    "It is idle 0.90 of the step or more while the usual GPU of its role works half of it.",
    ("GPU busy and idle seconds",),
    _find_idle,
    (_IDLE,),
)
THROTTLED = FindingKind(
    "gpu.throttled",
    "a GPU is slowed down by heat or power delivery",
    "A tenth of its samples at work name a slowdown; a power cap alone does not count.",
    ("clock-event reasons",),
    _find_throttled,
    (_THROTTLED,),
)
STRAGGLER = FindingKind(
    "straggler.gpu",
    "a GPU works at a lower clock than its peers",
    "Its mean SM clock at work is below 0.85 of its role's median, with at least four GPUs.",
    ("SM clock at work", "clock-event reasons"),
    _find_stragglers,
    (_CLOCK,),
)
LOST = FindingKind(
    "gpu.lost",
    "a GPU no longer reports",
    "No sample for 30 s while another GPU of its node reports.",
    ("time of the last GPU sample",),
    _find_lost,
    (_SILENCE,),
)
