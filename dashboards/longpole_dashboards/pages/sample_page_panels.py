"""The panels of the sample page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from statistics import mean, median

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import (
    SAMPLE_PATH,
    cluster_address,
    gpu_address,
    run_address,
    sample_address,
    step_address,
)
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import fit_height, hinted
from longpole_dashboards.components.split import Share, split
from longpole_dashboards.figures.sample_lanes import GroupView, sample_lanes
from longpole_dashboards.formats import (
    NS_PER_S,
    format_count,
    format_duration,
    format_ratio,
    format_whole,
)
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.sample_reading import SamplePageReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import ENGINE_PART_COLOURS, PART_COLOURS, ROLES
from longpole_server.model.gpu import RunGpu
from longpole_server.model.trajectory import Trajectory, TrajectoryPart

GROUP = "samplepage"
_MAX_PARTS = 300
# A replica of one model copy over many GPUs.
_MAX_GPUS = 16
_PART_COLOURS = {**PART_COLOURS, **ENGINE_PART_COLOURS}
_REST_RATIO = 0.002


def _title(reading: SamplePageReading) -> tuple[object, ...]:
    sample, run = reading.sample, reading.run.summary
    step = reading.step
    facts = [
        format_duration(sample.duration_s),
        f"{format_whole(sample.output_tokens)} tokens out"
        if sample.output_tokens is not None
        else "",
        f"reward {format_count(sample.reward)}" if sample.reward is not None else "",
        "" if sample.phase == "train" else sample.phase,
        f"started {reading.view.zone.format_moment(sample.start_ns)}",
    ]
    title = html.Div(
        [
            html.H1(["Sample ", html.Span(sample.trajectory_id, className="lp-mono")]),
            html.Span(sample.status or "status not reported", className=_status_class(sample)),
            dcc.Link(run.name, href=run_address(reading.run_id), className="lp-link"),
            dcc.Link(
                f"Step {step.step}",
                href=f"{step_address(reading.run_id, step.step)}&sample={sample.trajectory_id}",
                className="lp-link",
                id="samplepage-step",
            )
            if step is not None
            else html.Span("step not known", className="lp-fact"),
            *[html.Span(fact, className="lp-fact") for fact in facts if fact],
        ],
        className="lp-title-row",
    )
    return (title,)


def _status_class(sample: Trajectory) -> str:
    is_fine = sample.status in (None, "success", "completed", "finished", "stop")
    return "lp-fact" if is_fine else "lp-fact lp-warn"


def _summary(reading: SamplePageReading) -> tuple[object, ...]:
    sample = reading.sample
    shares = split_sample(sample, ROLES[reading.view.theme].line)
    body = html.Section(
        [
            html.Div("where its time went", className="lp-overline"),
            html.H2(_headline(shares, sample.duration_s), className="lp-verdict-title"),
            html.P(_standing(reading), className="lp-verdict-summary"),
            split(sample.duration_s, shares),
        ],
        className="lp-panel lp-verdict",
        style={"--family": _largest(shares).colour},
    )
    return (body,)


def split_sample(sample: Trajectory, rest_colour: str) -> list[Share]:
    """Return what a sample's seconds were spent on, and what nothing covers."""
    known = (
        ("generate", sample.generate_s),
        ("tool", sample.tool_s),
        ("score", sample.score_s),
        ("queue", sample.queue_s),
        ("paused", sample.paused_s),
    )
    shares = [Share(kind, PART_COLOURS[kind], seconds) for kind, seconds in known]
    rest_s = sample.duration_s - sum(seconds or 0.0 for _, seconds in known)
    if rest_s > _REST_RATIO * sample.duration_s:
        shares.append(Share("not covered", rest_colour, rest_s, is_rest=True))
    return shares


def _largest(shares: Sequence[Share]) -> Share:
    return max(shares, key=lambda share: share.seconds or 0.0)


def _headline(shares: Sequence[Share], total_s: float) -> str:
    largest = _largest(shares)
    if not largest.seconds or largest.is_rest:
        return "What this sample did is not reported"
    words = {
        "generate": "Generation takes",
        "tool": "Tools take",
        "score": "Scoring takes",
        "queue": "Waiting in the queue takes",
        "paused": "Being paused takes",
    }
    return f"{words[largest.label]} {format_ratio(largest.seconds / total_s)} of this sample"


def _standing(reading: SamplePageReading) -> str:
    """Return how the sample stands in its group and in its step."""
    sample, words = reading.sample, list[str]()
    others = [member.duration_s for member in reading.detail.siblings]
    if others:
        longer = sum(other > sample.duration_s for other in others)
        usual_s = median(others)
        place = "It took longest" if not longer else f"{_ordinal(longer + 1)} longest"
        change = sample.duration_s - usual_s
        direction = "longer" if change >= 0 else "shorter"
        words.append(
            f"{place} of {len(others) + 1} in its group, {format_duration(abs(change))} "
            f"{direction} than the others' median{_token_words(reading)}."
        )
    count = reading.spread.count
    if count > 1:
        longer = sum(other > sample.duration_s for other in reading.spread.durations_s)
        words.append(
            f"In its step {'none' if not longer else format_whole(longer)} of "
            f"{format_whole(count)} samples took longer."
        )
    return " ".join(words) or f"Its group: {not_reported('trajectories').lower()}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{ending or 'th'}"


def _token_words(reading: SamplePageReading) -> str:
    tokens = reading.sample.output_tokens
    others = [t.output_tokens for t in reading.detail.siblings if t.output_tokens is not None]
    if tokens is None or not others or not median(others):
        return ""
    return f" with {tokens / median(others):.2g} times their tokens"


def _facts(reading: SamplePageReading) -> tuple[object, ...]:
    sample = reading.sample
    speed = (
        sample.output_tokens / sample.generate_s
        if sample.output_tokens is not None and sample.generate_s
        else None
    )
    rows: list[tuple[Component | str, Component | str]] = [
        ("input tokens", format_whole(sample.input_tokens)),
        ("output tokens", format_whole(sample.output_tokens)),
        ("tokens/s while generating", format_count(speed)),
        ("turns", format_whole(sample.turns)),
        ("preemptions", format_whole(sample.preemptions)),
        (hinted("prefill, decode", DEFINITIONS["prefill"]), _halves(reading)),
        ("replica", sample.replica or "–"),
        (hinted("its GPUs", DEFINITIONS["replica_gpus"]), _gpus(reading)),
        (hinted("policy version", DEFINITIONS["policy_version"]), _versions(sample)),
        (hinted("group", DEFINITIONS["siblings"]), sample.group_id or "–"),
        ("reward", _reward(reading)),
        ("attempt", str(sample.attempt)),
    ]
    own = reading.detail.replica_hosts
    hosts = own or sorted({source.host for source in reading.run.sources if source.host})
    places = [dcc.Link(host, href=cluster_address(host), className="lp-link") for host in hosts]
    if places:
        name = "the run's nodes" if not own else "its node" if len(own) == 1 else "its nodes"
        rows.append((name, html.Span(_join(places[:4]))))
    body = html.Dl(
        [html.Div([html.Dt(name), html.Dd(value)]) for name, value in rows], className="lp-facts"
    )
    return (body,)


def _halves(reading: SamplePageReading) -> Component | str:
    """Return the seconds that engines spent on prefill and on decode."""
    spent = {
        kind: [
            (part.end_ns - part.start_ns) / NS_PER_S
            for part in reading.detail.spans
            if part.kind == kind
        ]
        for kind in ENGINE_PART_COLOURS
    }
    if not spent["prefill"]:
        return _unknown("prefill")
    return " + ".join(format_duration(sum(seconds)) for seconds in spent.values())


def _gpus(reading: SamplePageReading) -> Component | str:
    gpus = reading.detail.gpus
    if not gpus:
        return _unknown("replica_gpus")
    is_spread = len({gpu.host for gpu in gpus}) > 1
    links = [
        dcc.Link(
            _name_gpu(gpu, is_spread=is_spread),
            href=gpu_address(gpu.host, gpu.gpu_uuid),
            className="lp-link",
        )
        for gpu in gpus[:_MAX_GPUS]
    ]
    more = len(gpus) - len(links)
    return html.Span([*_join(links), f" and {more} more" if more else ""])


def _name_gpu(gpu: RunGpu, *, is_spread: bool) -> str:
    return f"{gpu.host}/{gpu.gpu_index}" if is_spread else f"GPU {gpu.gpu_index}"


def _unknown(source: str) -> Component:
    return hinted("not reported", not_reported(source), "lp-unknown")


def _join(links: Sequence[Component]) -> list[Component | str]:
    joined: list[Component | str] = []
    for link in links:
        joined += [", ", link] if joined else [link]
    return joined


def _versions(sample: Trajectory) -> str:
    first, last = sample.policy_version_start, sample.policy_version_end
    if first is None:
        return "–"
    if last is None or last == first:
        return str(first)
    return f"{first} → {last}, changed while generating"


def _reward(reading: SamplePageReading) -> str:
    reward = reading.sample.reward
    others = [t.reward for t in reading.group if t.reward is not None]
    if reward is None:
        return "–"
    if len(others) < 2:
        return format_count(reward)
    return f"{format_count(reward)}, its group's mean {mean(others):.3g}"


def _lanes(reading: SamplePageReading) -> tuple[object, ...]:
    view = GroupView(reading.sample, reading.group, reading.parts, reading.step)
    words = list[Component]()
    if not reading.detail.spans:
        words.append(absent(not_reported("parts", "Its turns and parts")))
    if not reading.detail.siblings:
        words.append(absent(not_reported("groups", "Its group's other samples")))
    return *fit_height(sample_lanes(view, theme=reading.view.theme)), words


def _parts(reading: SamplePageReading) -> tuple[object, ...]:
    parts = reading.detail.spans
    if not parts:
        return (absent(not_reported("parts")),)
    head = ("turn", "part", "name", "from", "seconds", "tokens in", "tokens out", "tokens/s")
    rows = [_part_row(part, reading.sample) for part in parts[:_MAX_PARTS]]
    table = html.Table(
        [html.Thead(html.Tr([_head(name) for name in head])), html.Tbody(rows)],
        className="lp-table lp-rows",
    )
    more = len(parts) - len(rows)
    return ([table, absent(f"and {more} more parts") if more else None],)


def _head(name: str) -> Component:
    is_text = name in ("part", "name", "sample", "status")
    return html.Th(name, className="" if is_text else "lp-number")


def _part_row(part: TrajectoryPart, sample: Trajectory) -> Component:
    seconds = (part.end_ns - part.start_ns) / NS_PER_S
    # Prefill reads its tokens, everything else makes them.
    tokens = part.input_tokens if part.kind == "prefill" else part.output_tokens
    speed = tokens / seconds if tokens is not None and seconds else None
    colour = _PART_COLOURS.get(part.kind, _PART_COLOURS["queue"])
    return html.Tr(
        [
            _number("–" if part.turn is None else str(part.turn)),
            html.Td([html.I(className="lp-stage-dot", style={"background": colour}), part.kind]),
            html.Td(part.name),
            _number(format_duration((part.start_ns - sample.start_ns) / NS_PER_S)),
            _number(format_duration(seconds)),
            _number(format_whole(part.input_tokens)),
            _number(format_whole(part.output_tokens)),
            _number(format_count(speed)),
        ]
    )


def _number(text: str) -> Component:
    return html.Td(text, className="lp-figure")


def _siblings(reading: SamplePageReading) -> tuple[object, ...]:
    if not reading.detail.siblings:
        return (absent(not_reported("groups", "Its group's other samples")),)
    head = ("sample", "seconds", "generate", "tool", "tokens", "turns", "reward", "status")
    rows = [_sibling_row(member, reading) for member in reading.group]
    return (
        html.Table(
            [html.Thead(html.Tr([_head(name) for name in head])), html.Tbody(rows)],
            className="lp-table lp-rows",
        ),
    )


def _sibling_row(member: Trajectory, reading: SamplePageReading) -> Component:
    is_own = member.trajectory_id == reading.sample_id
    name = html.Span(member.trajectory_id, className="lp-mono")
    return html.Tr(
        [
            html.Td(
                html.B(name)
                if is_own
                else dcc.Link(
                    name,
                    href=sample_address(reading.run_id, member.trajectory_id),
                    className="lp-link",
                )
            ),
            _number(format_duration(member.duration_s)),
            _number(format_duration(member.generate_s)),
            _number(format_duration(member.tool_s)),
            _number(format_whole(member.output_tokens)),
            _number(format_whole(member.turns)),
            _number(format_count(member.reward)),
            html.Td(member.status or "–"),
        ],
        className="lp-current" if is_own else "",
    )


PANELS = PanelGroup[SamplePageReading](
    name=GROUP,
    path=SAMPLE_PATH,
    read=SamplePageReading,
    panels=(
        Panel((("samplepage-title", "children"),), SamplePageReading.key, _title),
        Panel((("samplepage-summary", "children"),), SamplePageReading.key, _summary),
        Panel((("samplepage-facts", "children"),), SamplePageReading.key, _facts),
        Panel(
            (
                ("samplepage-lanes", "figure"),
                ("samplepage-lanes", "style"),
                ("samplepage-absent", "children"),
            ),
            SamplePageReading.key,
            _lanes,
        ),
        Panel((("samplepage-parts", "children"),), SamplePageReading.key, _parts),
        Panel((("samplepage-siblings", "children"),), SamplePageReading.key, _siblings),
    ),
)
