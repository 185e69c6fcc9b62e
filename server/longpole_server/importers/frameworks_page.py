"""The tables of `docs/frameworks.md`, made from the tables that decide what names mean.

`python -m longpole_server.importers.frameworks_page` prints the page.
"""

import sys
from collections.abc import Iterable, Mapping

from longpole.conventions import metrics, stages
from longpole_server.analysis.timers import canonical_timer_name, find_scheme
from longpole_server.importers.catalogue import (
    DEFAULT_REASONS,
    DERIVED,
    FRAMEWORKS,
    Framework,
    Source,
)

_HEAD = """# Frameworks: which stages and metrics a log fills

Made from the tables that decide what names mean, by `python -m
longpole_server.importers.frameworks_page`; a test compares. For each framework and each place
where it writes: the name that fills a canonical stage or metric. A stage in brackets is covered by
the timer of another one. What nothing fills stands below, by reason.

How to connect each framework: {pages}.

Logs of inference engines (vLLM, SGLang), in the trainer's log or beside it, fill the engines'
series: requests running and waiting, KV usage, throughput, preemptions, sleep.
"""
_STEP_LABEL = "*seconds of the step*"


def render_page() -> str:
    """Return the page as Markdown."""
    pages = ", ".join(f"[{known.title}](frameworks/{known.name}.md)" for known in FRAMEWORKS)
    return "\n".join([_HEAD.replace("{pages}", pages), *map(_render, FRAMEWORKS)])


def filled_stages(source: Source) -> Mapping[str, str]:
    """Return the canonical stages that a source fills, each with what fills it."""
    names = {canonical_timer_name(name): name for name in source.names}
    scheme = find_scheme(dict.fromkeys(names, 1.0))
    filled: dict[str, str] = {}
    covered: dict[str, str] = {}
    if scheme is None:
        return filled
    for key, timer in scheme.timers.items():
        if key not in names or timer.stage is None:
            continue
        filled.setdefault(timer.stage, _code(names[key]))
        includes = timer.includes or stages.STAGES[timer.stage].includes
        covered.update(dict.fromkeys(includes, f"[`{timer.stage}`]"))
    return covered | filled


def filled_metrics(source: Source) -> Mapping[str, str]:
    """Return the canonical metrics that a source fills, each with what fills it."""
    filled: dict[str, str] = {}
    for kind in metrics.METRIC_KINDS:
        for name in (kind.name, *kind.aliases):
            beside = metrics.NOT_BESIDE.get(name, frozenset())
            if name in source.names and beside.isdisjoint(source.names):
                conversion = metrics.CONVERSIONS.get(name)
                written = "" if conversion is None else f" ({conversion.written})"
                filled[kind.name] = source.labels.get(name, _code(name)) + written
                break
    for name, metric in DERIVED.items():
        if name in source.names:
            filled.setdefault(metric, f"{_code(name)} (its growth)")
    return filled


def step_seconds(source: Source) -> str:
    """Return what says how long a step took."""
    if metrics.STEP_SECONDS in source.names:
        return "the next step's `time/step_total`"
    scheme = find_scheme(dict.fromkeys(map(canonical_timer_name, source.names), 1.0))
    keys = () if scheme is None else scheme.step_keys
    named = next((key for key in keys if key in source.names), None)
    if named is not None:
        return _code(named)
    return "sum of the stages" if filled_stages(source) else ""


def missing_reasons(framework: Framework) -> Mapping[str, list[str]]:
    """Return the canonical stages and metrics that no source fills, by reason."""
    found = {
        name
        for source in framework.sources
        for name in (*filled_stages(source), *filled_metrics(source))
    }
    reasons: dict[str, list[str]] = {}
    for name in (*stages.STAGES, *metrics.METRICS):
        if name not in found:
            reason = framework.missing.get(name, DEFAULT_REASONS.get(name, "not logged"))
            reasons.setdefault(reason, []).append(name)
    return reasons


def _render(framework: Framework) -> str:
    sources = framework.sources
    lines = [
        f"## {framework.title}",
        "",
        _row("", (source.title for source in sources)),
        "|---" * (len(sources) + 1) + "|",
        _row(_STEP_LABEL, map(step_seconds, sources)),
    ]
    for canonical, fill in ((stages.STAGES, filled_stages), (metrics.METRICS, filled_metrics)):
        columns = [fill(source) for source in sources]
        lines.extend(
            _row(_code(name), (column.get(name, "") for column in columns))
            for name in canonical
            if any(name in column for column in columns)
        )
    missing = (
        f"- {', '.join(map(_code, names))}: {reason}"
        for reason, names in missing_reasons(framework).items()
    )
    return "\n".join([*lines, "", "Missing:", "", *missing, ""])


def _row(label: str, cells: Iterable[str]) -> str:
    return f"| {label} | " + " | ".join(cells) + " |"


def _code(name: str) -> str:
    return f"`{name}`"


if __name__ == "__main__":
    sys.stdout.write(render_page())
