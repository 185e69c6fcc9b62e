"""What the report says of the hardware: who held the others up, and what it took in energy."""

from collections.abc import Sequence
from html import escape

from longpole_dashboards.components.energy import approximate, sum_stages
from longpole_dashboards.formats import (
    ABSENT,
    format_energy,
    format_ratio,
    format_whole,
)
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.report.tables import section, table
from longpole_dashboards.theme import stage_label
from longpole_server.model.step import Step
from longpole_server.model.stragglers import GpuStanding, ReplicaStanding
from longpole_server.service import Service

_SHOWN_GPUS, _SHOWN_REPLICAS = 8, 8
_MHZ = 1e6


def list_stragglers(service: Service, run_id: str) -> str:
    """Return the slowest GPUs and replicas of a run's last steps.

    Raises:
        StoreError: The database failed.
    """
    found = service.get_stragglers(run_id)
    gpus = [gpu for gpu in found.gpus if gpu.of_best_ratio is not None]
    parts = [_gpus(gpus), _replicas(found.replicas)]
    shown = [part for part in parts if part]
    if not shown:
        return section("Stragglers", f"<p>{escape(not_reported('clocks', 'Clocks of GPUs'))}</p>")
    words = (
        f"Steps {found.first_step}–{found.last_step}, the slowest first. {DEFINITIONS['of_best']}"
    )
    return section("Stragglers", f'<p class="dim">{escape(words)}</p>{"".join(shown)}')


def _gpus(gpus: Sequence[GpuStanding]) -> str:
    rows = [
        (
            f"{gpu.host} · GPU {gpu.gpu_index}",
            ABSENT if gpu.rank is None else str(gpu.rank),
            gpu.role or ABSENT,
            _of_best(gpu),
            ABSENT if gpu.sm_clock_hz is None else f"{format_whole(gpu.sm_clock_hz / _MHZ)} MHz",
            ", ".join(gpu.reasons) or ("low clock" if gpu.is_straggler else ABSENT),
            f"{gpu.num_slow} of {gpu.num_steps}",
        )
        for gpu in gpus[:_SHOWN_GPUS]
    ]
    head = ("GPU", "rank", "role", "of the best", "SM clock", "slow because", "slow in")
    return table(head, rows, (3, 4, 6)) if rows else ""


def _replicas(replicas: Sequence[ReplicaStanding]) -> str:
    rows = [
        (
            replica.replica,
            _of_best(replica),
            f"{replica.seconds_per_token * 1e3:.3g} ms",
            format_whole(replica.num_samples),
            f"{replica.num_slow} of {replica.num_steps}",
        )
        for replica in replicas[:_SHOWN_REPLICAS]
    ]
    head = ("replica", "of the best", "a token", "samples", "slow in")
    return f"<h3>Replicas</h3>{table(head, rows, (1, 2, 3, 4))}" if rows else ""


def _of_best(score: GpuStanding | ReplicaStanding) -> str:
    sign = "▲ " if score.is_straggler else ""
    return f"{sign}{format_ratio(score.of_best_ratio)}"


def list_energy(service: Service, run_id: str, closed: Sequence[Step]) -> str:
    """Return what a run took in energy, and its last steps by stage.

    Args:
        service: Where it is read.
        run_id: The run.
        closed: Its steps that have ended.

    Raises:
        StoreError: The database failed.
    """
    found = service.get_energy(run_id)
    known = [step for step in found.steps if step.energy_joules is not None]
    if not known:
        return section("Energy", f"<p>{escape(not_reported('energy', 'Energy'))}</p>")
    tokens = [step.tokens_total for step in known]
    joules = sum(step.energy_joules or 0.0 for step in known)
    estimated = any(step.is_estimated for step in known)
    taken = approximate(format_energy(joules), is_estimated=estimated)
    facts = [f"{taken} in {len(known):,} steps, {known[0].step}–{known[-1].step}"]
    if all(tokens):
        facts.append(f"{joules / sum(filter(None, tokens)):.3g} J a token")
    if found.energy_joules is not None:
        facts.append(f"{format_energy(found.energy_joules)} in the whole run")
    costs = sum_stages(known, {step.step: step for step in closed})
    total = sum(cost.energy_joules or 0.0 for cost in costs)
    rows = [
        (
            stage_label(cost.stage),
            format_ratio(cost.energy_joules / total)
            if cost.energy_joules is not None and total
            else ABSENT,
            approximate(format_energy(cost.energy_joules), is_estimated=cost.is_estimated),
            f"{cost.energy_joules / cost.tokens:.2g}"
            if cost.energy_joules is not None and cost.tokens
            else ABSENT,
        )
        for cost in sorted(costs, key=lambda cost: -(cost.energy_joules or 0.0))
    ]
    words = f"{' · '.join(facts)}. {DEFINITIONS['energy']}"
    by_stage = table(("stage", "share", "energy", "J a token"), rows, (1, 2, 3)) if rows else ""
    return section("Energy", f'<p class="dim">{escape(words)}</p>{by_stage}')
