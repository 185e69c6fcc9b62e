"""The verdict: what the loop waits for, how sure that is, and what fixing it would give back."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.panel import hinted
from longpole_dashboards.formats import format_count, format_duration
from longpole_dashboards.glossary import DEFINITIONS, format_metric, metric_label
from longpole_dashboards.theme import verdict_colour
from longpole_dashboards.verdicts import VERDICT_KINDS, verdict_title
from longpole_server.model.diagnosis import Diagnosis, Evidence, Finding, NextLook
from longpole_server.model.step import Note

_CONFIDENCE_DOTS = {"high": 3, "medium": 2, "low": 1}
_LAYERS = {"outer": "outer", "inner": "inner", "other_side": "other side"}
_COMPARED: Mapping[str, str] = {
    "threshold": "threshold",
    "baseline": "baseline",
    "peer": "peers",
    "share": "next has",
}


def verdict_card(diagnosis: Diagnosis, *below: Component) -> Component:
    """Return the header sentence of a run or step with its verdict, and what stands `below`."""
    return html.Section(
        [
            html.Div(
                [
                    html.Div("the loop waits for", className="lp-overline"),
                    confidence(diagnosis.confidence),
                    html.Span(_window(diagnosis), className="lp-verdict-window"),
                ],
                className="lp-verdict-head",
            ),
            html.H2(verdict_title(diagnosis.verdict), className="lp-verdict-title"),
            html.P(with_code(_summary(diagnosis)), className="lp-verdict-summary"),
            html.Div([*_cause(diagnosis), *_recoverable(diagnosis)], className="lp-verdict-foot"),
            *_first_look(diagnosis),
            *below,
        ],
        className="lp-panel lp-verdict",
        style={"--family": verdict_colour(diagnosis.verdict)},
    )


def _summary(diagnosis: Diagnosis) -> str:
    """Return the sentence without the title that stands above it: it begins with the numbers."""
    title = verdict_title(diagnosis.verdict)
    rest = diagnosis.summary.removeprefix(f"{title}:").lstrip()
    return rest[:1].upper() + rest[1:]


def confidence(level: str | None) -> Component | None:
    """Return how sure a verdict is, as dots and a word."""
    if level is None:
        return None
    filled = _CONFIDENCE_DOTS[level]
    return hinted(
        f"{'●' * filled}{'○' * (3 - filled)} {level} confidence",
        DEFINITIONS["confidence"],
        f"lp-confidence lp-confidence-{level}",
    )


def _window(diagnosis: Diagnosis) -> str:
    if diagnosis.first_step is None or not diagnosis.num_judged:
        return ""
    if diagnosis.first_step == diagnosis.last_step:
        return f"step {diagnosis.first_step}"
    return f"steps {diagnosis.first_step}–{diagnosis.last_step}"


def _cause(diagnosis: Diagnosis) -> list[Component]:
    if diagnosis.cause is None:
        return []
    return [html.Span(["because: ", html.B(verdict_title(diagnosis.cause))], className="lp-fact")]


def _recoverable(diagnosis: Diagnosis) -> list[Component]:
    formula = diagnosis.recoverable_formula
    if diagnosis.recoverable_s_per_step is None:
        if formula is None:
            return []
        hint = f"{formula[0].upper()}{formula[1:]}."
        return [hinted("what it would give back is not estimated", hint, "lp-fact lp-recoverable")]
    text = f"≈ {format_duration(diagnosis.recoverable_s_per_step)} a step"
    if diagnosis.recoverable_s_per_step_range is not None:
        low_s, high_s = diagnosis.recoverable_s_per_step_range
        if low_s < high_s:
            text += f" ({format_duration(low_s)} to {format_duration(high_s)})"
    if diagnosis.recoverable_gpu_hours_per_day is not None:
        text += f", {format_count(diagnosis.recoverable_gpu_hours_per_day)} GPU-hours a day"
    hint = DEFINITIONS["recoverable"]
    if formula is not None:
        hint += f" How: {formula}."
    return [hinted(f"could give back {text}", hint, "lp-fact lp-recoverable")]


def _first_look(diagnosis: Diagnosis) -> list[Component]:
    """Return what to try first: it stands with the sentence, the rest with the evidence."""
    if not diagnosis.next:
        return []
    look = diagnosis.next[0]
    return [
        html.Div(
            [
                html.B("try first"),
                html.Span(with_code(look.text)),
                *(html.Code(key) for key in look.keys),
            ],
            className="lp-verdict-try",
        )
    ]


def folded_evidence(rows: Sequence[Evidence], num_shown: int, rest_id: str) -> list[Component]:
    """Return the first measurements, and the rest of them one click away.

    Args:
        rows: All of them.
        num_shown: So many at once.
        rest_id: Id of what opens to the rest: it stays open while it is drawn anew.
    """
    shown, more = rows[:num_shown], rows[num_shown:]
    if not more:
        return [evidence_table(rows)]
    against = sum(row.effect == "contradicts" for row in more)
    noun = "measurement" if len(more) == 1 else "measurements"
    words = f"{len(more)} more {noun}"
    if against:
        words += f", {against} of them {'contradicts' if against == 1 else 'contradict'}"
    rest = html.Details(
        [html.Summary(words), evidence_table(more)],
        className="lp-details lp-more-evidence",
        id=rest_id,
    )
    return [evidence_table(shown), rest]


def evidence_table(rows: Sequence[Evidence]) -> Component:
    """Return the measurements that speak for and against a verdict."""
    if not rows:
        return html.Div("No evidence yet.", className="lp-absent")
    body = [
        html.Tr(
            [
                html.Td(
                    html.Span(
                        "supports" if row.effect == "supports" else "contradicts",
                        className=f"lp-effect lp-effect-{row.effect}",
                        title=row.effect,
                    )
                ),
                html.Td(
                    [
                        metric_label(row.metric),
                        html.Small(f"{_LAYERS[row.layer]}, from {row.source}"),
                    ]
                ),
                html.Td(format_metric(row.metric, row.value, row.unit), className="lp-number"),
                html.Td(_compared(row), className="lp-dim"),
            ]
        )
        for row in rows
    ]
    head = ("effect", "measured", "value", "compared with")
    return html.Table(
        [
            # Rows speak for themselves; a saved table and a screen reader need more.
            html.Thead(html.Tr([html.Th(html.Span(word, className="lp-unseen")) for word in head])),
            html.Tbody(body),
        ],
        className="lp-table lp-evidence",
    )


def _compared(row: Evidence) -> str:
    if row.compared_with is None:
        return ""
    reference = format_metric(row.metric, row.compared_with.value, row.unit)
    return f"{_COMPARED[row.compared_with.kind]} {reference}"


def with_code(text: str) -> list[Component | str]:
    """Return text in which what stands between backticks is set as code."""
    return [
        html.Code(part) if index % 2 else part for index, part in enumerate(text.split("`")) if part
    ]


def next_looks(looks: Sequence[NextLook]) -> Component:
    """Return what to look at next, with the configuration keys."""
    return html.Ol(
        [html.Li([*with_code(look.text), _keys(look)]) for look in looks],
        className="lp-next",
    )


def _keys(look: NextLook) -> Component:
    return html.Div([html.Code(key) for key in look.keys])


def findings_list(findings: Sequence[Finding], notes: Sequence[Note]) -> Component:
    """Return what else is worth knowing, the severest first."""
    rank = {"critical": 0, "warning": 1, "info": 2}
    entries = [(found.severity, found.code, found.summary) for found in findings]
    entries += [(note.severity, note.code, note.summary) for note in notes]
    entries = list(dict.fromkeys(entries))
    entries.sort(key=lambda entry: rank[entry[0]])
    return html.Ul(
        [
            html.Li(
                [
                    html.Span(severity, className=f"lp-severity lp-severity-{severity}"),
                    html.Span(with_code(summary)),
                    html.Code(code),
                ]
            )
            for severity, code, summary in entries
        ],
        className="lp-findings",
    )


def decision_table(current: str | None) -> Component:
    """Return the whole decision table with the current verdict's row marked."""
    rows = [
        html.Tr(
            [
                html.Td(
                    [
                        html.I(
                            className="lp-stage-dot",
                            style={"background": verdict_colour(kind.code)},
                        ),
                        html.Code(kind.code),
                    ]
                ),
                html.Td([html.B(kind.title), html.Div(kind.proof, className="lp-dim")]),
                html.Td(kind.look),
            ],
            className="lp-current" if kind.code == current else "",
        )
        for kind in VERDICT_KINDS
    ]
    head = html.Thead(html.Tr([html.Th("verdict"), html.Th("proof"), html.Th("look at")]))
    return html.Table([head, html.Tbody(rows)], className="lp-table lp-decisions")
