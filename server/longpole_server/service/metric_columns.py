"""Many metrics of a run at once, as columns, a page of them at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from longpole.conventions.metrics import METRICS
from longpole_server.model.metric import MetricColumns, MetricColumnsPage
from longpole_server.read import Reader


def spell_names(names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the names under which each metric may have been logged, its own first."""
    return {name: (name, *METRICS[name].aliases) if name in METRICS else (name,) for name in names}


def list_metrics(
    reader: Reader,
    run_id: str,
    names: Sequence[str] | None,
    first: int | None,
    last: int | None,
    start: int,
    max_points: int,
) -> MetricColumnsPage:
    """Return what `Service.list_metrics` says, of a run that exists."""
    counts = reader.count_points(run_id, first, last)
    wanted = {name: name for name in counts} if names is None else _choose(names, counts)
    sizes = [counts.get(logged, 0) for logged in wanted.values()]
    end = _find_end(sizes, start, max_points)
    page = list(wanted.items())[start:end]
    logged = sorted({logged for _, logged in page})
    read = reader.read_metric_columns(run_id, logged, first, last)
    metrics = tuple(_name_columns(name, read.get(logged)) for name, logged in page)
    return MetricColumnsPage(metrics, end if end < len(wanted) else None)


def _choose(names: Sequence[str], counts: Mapping[str, int]) -> Mapping[str, str]:
    """Return under which of its names each metric was logged."""
    return {
        name: next((spelling for spelling in spellings if spelling in counts), name)
        for name, spellings in spell_names(names).items()
    }


def _find_end(sizes: Sequence[int], start: int, most: int) -> int:
    """Return where a page ends that holds so much, and one thing at least."""
    held = 0
    for place in range(start, len(sizes)):
        held += sizes[place]
        if held > most and place > start:
            return place
    return len(sizes)


def _name_columns(name: str, columns: MetricColumns | None) -> MetricColumns:
    if columns is None:
        nothing = np.zeros(0, np.int64)
        return MetricColumns(name, nothing, nothing, np.zeros(0))
    return replace(columns, name=name)
