"""The drawer of the step page: one sample, where its time went, and its siblings."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from functools import cached_property
from statistics import median

from dash import dcc, html

from longpole_dashboards.addresses import STEP_PATH
from longpole_dashboards.components.panel import fit_height, legend
from longpole_dashboards.figures.samples import sample_waterfall
from longpole_dashboards.formats import (
    format_count,
    format_duration,
    format_whole,
)
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import Panel, PanelGroup, View
from longpole_dashboards.theme import PART_COLOURS
from longpole_server.model.trajectory import Trajectory, TrajectoryDetail

GROUP = "sample"


class SampleReading:
    """The chosen sample of a step, if one is chosen."""

    def __init__(self, reader: Reader, view: View) -> None:
        self.view = view
        self.run_id = view.query.text("run")
        self.sample_id = view.query.text("sample")
        self.service = reader.service

    @cached_property
    def detail(self) -> TrajectoryDetail | None:
        """The sample with its parts and siblings."""
        if self.run_id is None or self.sample_id is None:
            return None
        return self.service.get_trajectory(self.run_id, self.sample_id)


def _sample(reading: SampleReading) -> tuple[object, ...]:
    detail = reading.detail
    if detail is None:
        return (None,)
    t = detail.trajectory
    figure, style = fit_height(sample_waterfall(detail, theme=reading.view.theme))
    facts = (
        ("time", format_duration(t.duration_s)),
        ("input tokens", format_whole(t.input_tokens)),
        ("output tokens", format_whole(t.output_tokens)),
        ("turns", format_whole(t.turns)),
        ("generate", format_duration(t.generate_s)),
        ("tool", format_duration(t.tool_s)),
        ("score", format_duration(t.score_s)),
        ("queue", format_duration(t.queue_s)),
        ("reward", format_count(t.reward)),
        ("status", t.status or "–"),
        ("preemptions", format_whole(t.preemptions)),
        ("replica", t.replica or "–"),
        ("policy version", _versions(t)),
        ("group", t.group_id or "–"),
    )
    body = html.Div(
        [
            html.Div(html.Code(t.trajectory_id), className="lp-sample-id"),
            legend([(kind, colour, "") for kind, colour in PART_COLOURS.items()]),
            dcc.Graph(
                figure=figure.to_plotly_json(), style=style, config={"displayModeBar": False}
            ),
            html.Dl(
                [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts],
                className="lp-facts",
            ),
            html.Div(_siblings_words(detail), className="lp-dim"),
        ]
    )
    return (body,)


def _versions(t: Trajectory) -> str:
    if t.policy_version_start is None:
        return "–"
    if t.policy_version_end in (None, t.policy_version_start):
        return str(t.policy_version_start)
    return f"{t.policy_version_start} → {t.policy_version_end}"


def _siblings_words(detail: TrajectoryDetail) -> str:
    if not detail.siblings:
        return "Its group's other samples are not reported."
    others = [sibling.duration_s for sibling in detail.siblings]
    return (
        f"The {len(others)} other samples of its group took {format_duration(median(others))} "
        f"in the middle, {format_duration(max(others))} at most."
    )


PANELS = PanelGroup[SampleReading](
    name=GROUP,
    path=STEP_PATH,
    read=SampleReading,
    panels=(
        Panel(
            (("sample-body", "children"),),
            lambda reading: (reading.run_id, reading.sample_id),
            _sample,
        ),
    ),
)
