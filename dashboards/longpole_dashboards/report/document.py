"""The report's text: verdict and evidence first, then how the run went, then what it was."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from longpole_dashboards.figures.bars import make_bars
from longpole_dashboards.figures.folding import fold_rows
from longpole_dashboards.figures.gpus import FIELD_LABELS, kept_extreme
from longpole_dashboards.figures.waterfall import UNITS, part_label, rank_parts
from longpole_dashboards.formats import (
    ABSENT,
    Zone,
    format_change,
    format_count,
    format_duration,
    format_ratio,
    format_value,
)
from longpole_dashboards.glossary import DEFINITIONS, format_metric, metric_label, not_reported
from longpole_dashboards.pages.compare_reading import last_and_first_steps
from longpole_dashboards.pages.gpu_heat import read_heatmap
from longpole_dashboards.report.drawings import (
    draw_heat,
    draw_line,
    draw_stage_bars,
    stage_legend,
)
from longpole_dashboards.report.hardware import list_energy, list_stragglers
from longpole_dashboards.report.tables import code, section, table
from longpole_dashboards.verdicts import verdict_title
from longpole_server.model.alert import Alert
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.run import RunDetail
from longpole_server.model.step import Step
from longpole_server.service import Service, StepRange

_MAX_BARS, _MAX_HEAT_BINS, _MAX_HEAT_ROWS = 240, 900, 256
_SHOWN_STEPS, _SHOWN_ALERTS, _SHOWN_PARTS = 10, 60, 12
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;color:#151a21;max-width:1040px;margin:28px auto;
padding:0 20px}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:28px 0 6px}h3{font-size:13px;margin:14px 0 2px}
.sub,.dim{color:#525d6b}.verdict{border-left:4px solid #2f64dc;padding:2px 0 2px 14px;margin:16px 0}
.verdict strong{font-size:20px;display:block}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid #dfe3e9;vertical-align:top}
th{color:#525d6b;font-weight:500}td.n,th.n{text-align:right;white-space:nowrap}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#525d6b}
.key{margin-right:14px;font-size:12px;white-space:nowrap}
.key i{display:inline-block;width:9px;height:9px;margin-right:5px}
code{background:#f3f5f8;padding:0 4px;border-radius:3px;overflow-wrap:anywhere}
@media print{body{margin:0;max-width:none}h2{break-after:avoid}svg,img,tr{break-inside:avoid}}
"""


def render_report(service: Service, run_id: str, zone: Zone, now_ns: int) -> str:
    """Return the report of a run as HTML that asks nobody for anything.

    Raises:
        NotFoundError: There is no such run.
        StoreError: The database failed.
    """
    detail = service.get_run(run_id)
    steps = service.list_steps(run_id)
    closed = [step for step in steps if step.duration_s is not None]
    diagnosis = service.diagnose(run_id)
    alerts = service.alerts.list_alerts(run_id=run_id)
    body = [
        _title(detail, zone, now_ns),
        _verdict(diagnosis),
        _evidence(diagnosis),
        _next(diagnosis),
        _timelines(closed),
        _gpus(service, detail, zone),
        list_stragglers(service, run_id),
        list_energy(service, run_id, closed),
        _regressions(service, detail, run_id),
        _alerts(alerts, zone),
        _slowest(closed, zone),
        _description(detail, zone),
    ]
    name = escape(detail.summary.name)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{name} · Longpole report</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )


def _title(detail: RunDetail, zone: Zone, now_ns: int) -> str:
    run = detail.summary
    facts = [
        run.state,
        " ".join(word for word in (run.system, run.system_version) if word),
        run.algorithm or "",
        (run.mode or "").replace("_", " "),
        f"{run.gpu_count} GPUs" if run.gpu_count is not None else "",
        detail.model_name or "",
        f"{run.num_steps} steps",
        f"started {zone.format_moment(run.started_ns)}",
        f"last seen {zone.format_moment(run.last_seen_ns)}",
    ]
    return (
        f"<h1>{escape(run.name)}</h1>"
        f'<p class="sub">{escape(" · ".join(fact for fact in facts if fact))}</p>'
        f'<p class="dim">Longpole report of run <code>{escape(run.run_id)}</code>, made '
        f"{escape(zone.format_moment(now_ns))}; times in {escape(zone.label)}.</p>"
    )


def _verdict(diagnosis: Diagnosis) -> str:
    gains = list[str]()
    if diagnosis.recoverable_s_per_step is not None:
        seconds = format_duration(diagnosis.recoverable_s_per_step)
        gains.append(f"Fixing it could give back ≈ {seconds} a step")
        if diagnosis.recoverable_gpu_hours_per_day is not None:
            gains.append(f"{format_count(diagnosis.recoverable_gpu_hours_per_day)} GPU-hours a day")
    sure = f"{diagnosis.confidence} confidence, " if diagnosis.confidence else ""
    window = (
        f"steps {diagnosis.first_step}–{diagnosis.last_step}, {diagnosis.num_judged} judged"
        if diagnosis.num_judged
        else "no judged steps"
    )
    gain = f"{', '.join(gains)}. {DEFINITIONS['recoverable']}" if gains else ""
    over = escape(f"the loop waits for · {sure}{window}")
    return (
        f'<div class="verdict"><span class="dim">{over}</span>'
        f"<strong>{escape(verdict_title(diagnosis.verdict))}</strong>"
        f'<p>{code(diagnosis.summary)}</p><p class="dim">{escape(gain)}</p></div>'
    )


def _evidence(diagnosis: Diagnosis) -> str:
    rows = [
        (
            "supports" if row.effect == "supports" else "contradicts",
            metric_label(row.metric),
            f"{row.layer.replace('_', ' ')}, from {row.source}",
            format_metric(row.metric, row.value, row.unit),
            ""
            if row.compared_with is None
            else f"{row.compared_with.kind} "
            f"{format_metric(row.metric, row.compared_with.value, row.unit)}",
        )
        for row in diagnosis.evidence
    ]
    return section("Evidence", table(("", "what", "measured", "value", "against"), rows, (3,)))


def _next(diagnosis: Diagnosis) -> str:
    looks = "".join(
        f"<li>{code(look.text)} {code(' '.join(f'`{key}`' for key in look.keys))}</li>"
        for look in diagnosis.next
    )
    seen = "".join(
        f"<li><b>{escape(found.severity)}</b> {code(found.summary)} "
        f"<code>{escape(found.code)}</code></li>"
        for found in (*diagnosis.findings, *diagnosis.data_quality)
    )
    return (section("What to look at next", f"<ol>{looks}</ol>") if looks else "") + (
        section("Also seen", f"<ul>{seen}</ul>") if seen else ""
    )


def _timelines(closed: Sequence[Step]) -> str:
    bars = make_bars(closed, _MAX_BARS)
    numbers, thinned = _thin(closed)
    lines = (
        ("Seconds a step", [step.duration_s for step in thinned], " s"),
        ("Tokens/s/GPU", [step.throughput_tokens_per_s_per_gpu for step in thinned], ""),
        ("MFU of the update", [_percent(step.mfu_actor) for step in thinned], " %"),
    )
    drawn = "".join(
        f"<h3>{escape(title)}</h3>{draw_line(numbers, values, unit, title)}"
        for title, values, unit in lines
        if any(value is not None for value in values)
    )
    stacked = draw_stage_bars(bars)
    if not stacked:
        return section("How it went", f"<p>{escape(not_reported('stages'))}</p>{drawn}")
    return section(
        "How it went", f"<h3>Stage shares</h3><div>{stage_legend(bars)}</div>{stacked}{drawn}"
    )


def _thin(closed: Sequence[Step]) -> tuple[list[int], list[Step]]:
    """Return at most so many steps as there are bars: of several the longest."""
    size = max(1, -(-len(closed) // _MAX_BARS))
    chosen = [
        max(closed[at : at + size], key=lambda step: step.duration_s or 0.0)
        for at in range(0, len(closed), size)
    ]
    return [step.step for step in chosen], chosen


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100


def _gpus(service: Service, detail: RunDetail, zone: Zone) -> str:
    run = detail.summary
    span_ns = (run.started_ns, max(run.last_seen_ns, run.started_ns + 1_000_000_000))
    heatmap = read_heatmap(service, run.run_id, "sm_active_ratio", span_ns, _MAX_HEAT_BINS)
    if not heatmap.lanes:
        return section("GPUs", f"<p>{escape(not_reported('gpus'))}</p>")
    values, size = fold_rows(heatmap.values, _MAX_HEAT_ROWS, kept_extreme(heatmap.field))
    label = FIELD_LABELS.get(heatmap.field, heatmap.field)
    top = 1.0 if heatmap.field.endswith("_ratio") else float(np.nanmax(values, initial=1.0))
    rows = "a GPU" if size == 1 else f"the {kept_extreme(heatmap.field)} of {size} GPUs"
    words = (
        f"{label} of {len(heatmap.lanes)} GPUs, a row {rows}, "
        f"from {zone.format_moment(span_ns[0])} to {zone.format_moment(span_ns[1])}; "
        "light: nothing, dark: full."
    )
    return section("GPUs", f'<p class="dim">{escape(words)}</p>{draw_heat(values, top, words)}')


def _regressions(service: Service, detail: RunDetail, run_id: str) -> str:
    changes = [
        (str(change.step), verdict_title(change.previous), verdict_title(change.verdict))
        for change in service.list_verdict_changes(run_id)
        if change.previous is not None
    ]
    parts = [table(("from step", "before", "after"), changes, ())] if changes else []
    newest, first = last_and_first_steps(detail.summary)
    if newest != first:
        found = service.compare(run_id, run_id, StepRange(*newest), StepRange(*first))
        change = found.decomposition
        if change.total is not None and change.quantity is not None:
            before, after = change.before.loop_throughput, change.after.loop_throughput
            parts.append(
                f"<p>Steps {newest[0]}–{newest[1]} against {first[0]}–{first[1]}: "
                f"{format_count(before)} → {format_count(after)} "
                f"{escape(UNITS.get(change.quantity, ''))} "
                f"({format_change(math.expm1(change.total))}).</p>"
            )
            rows = [
                (
                    part_label(part),
                    format_value(part.before, part.unit),
                    format_value(part.after, part.unit),
                    format_change(math.expm1(part.log_change))
                    if part.log_change is not None
                    else ABSENT,
                )
                for part in rank_parts(change.parts)[:_SHOWN_PARTS]
            ]
            parts.append(table(("part", "before", "after", "throughput"), rows, (1, 2, 3)))
    return section("What changed", "".join(parts) or "<p>Nothing that lasted.</p>")


def _alerts(alerts: Sequence[Alert], zone: Zone) -> str:
    rows = [
        (
            zone.format_moment(alert.fired_ns or alert.started_ns),
            alert.state,
            alert.severity,
            alert.rule,
            alert.summary,
            ABSENT if alert.first_step is None else str(alert.first_step),
        )
        for alert in alerts[:_SHOWN_ALERTS]
    ]
    if not rows:
        return section("Alerts", "<p>None is open, and none was over lately.</p>")
    head = ("since", "state", "severity", "rule", "in words", "step")
    return section("Alerts", table(head, rows, (5,)))


def _slowest(closed: Sequence[Step], zone: Zone) -> str:
    chosen = sorted(closed, key=lambda step: -(step.duration_s or 0.0))[:_SHOWN_STEPS]
    rows = [
        (
            str(step.step),
            zone.format_moment(step.start_ns),
            format_duration(step.duration_s),
            format_ratio(step.unattributed_s / step.duration_s, 1)
            if step.unattributed_s is not None and step.duration_s
            else ABSENT,
            verdict_title(step.verdict) if step.verdict else "not judged",
        )
        for step in chosen
    ]
    head = ("step", "started", "took", "unattributed", "waited for")
    return section("Slowest steps", table(head, rows, (0, 2, 3))) if rows else ""


def _description(detail: RunDetail, zone: Zone) -> str:
    attempts = [
        (
            str(a.attempt),
            f"{a.first_step}–{a.last_step}",
            a.status or "open",
            zone.format_moment(a.started_ns),
        )
        for a in detail.attempts
    ]
    config = [(key, str(value)) for key, value in sorted(detail.config.items())]
    return section("Attempts", table(("attempt", "steps", "ended", "started"), attempts, ())) + (
        section("Configuration", table(("key", "value"), config, ())) if config else ""
    )
