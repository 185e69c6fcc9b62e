"""Which trajectory each part belongs to: the same as `normalize.trajectories` finds for each."""

import numpy as np

from longpole_server.ingest.columns.spans import SpanColumns
from longpole_server.ingest.columns.texts import Column, take, to_list
from longpole_server.ingest.columns.wire import Ints, UnfitError
from longpole_server.ingest.normalize.trajectories import MAX_ANCESTORS

NOBODY = -1
_SEVERAL = -2


def find_owners(spans: SpanColumns, roots: Ints, children: Ints) -> Ints:
    """Return for each child the place of its trajectory in `roots`, -1 for nobody's.

    It is an ancestor, or the only trajectory of its trace in the same request.

    Raises:
        UnfitError: Two trajectories of a request have the same id.
    """
    if not len(roots) or not len(children):
        return np.full(len(children), NOBODY, np.int64)
    requests = np.array([group.request for group in spans.groups])[spans.group_numbers]
    if len(set(_list_keys(requests, spans.span_ids, roots))) < len(roots):
        raise UnfitError("a trajectory that comes twice")
    of_trace: dict[tuple[int, str], int] = {}
    for place, key in enumerate(_list_keys(requests, spans.trace_ids, roots)):
        of_trace[key] = _SEVERAL if key in of_trace else place
    keys = _list_keys(requests, spans.trace_ids, children)
    owners = np.array([of_trace.get(key, NOBODY) for key in keys], np.int64)
    unclear = np.flatnonzero(owners == _SEVERAL)
    if len(unclear):
        _climb(spans, requests, roots, children, owners, unclear)
    return owners


def _climb(
    spans: SpanColumns, requests: Ints, roots: Ints, children: Ints, owners: Ints, unclear: Ints
) -> None:
    """Follow parents from those parts whose trace holds several trajectories."""
    every = np.arange(len(spans))
    span_keys = _list_keys(requests, spans.span_ids, every)
    parents = dict(zip(span_keys, to_list(spans.parent_ids), strict=True))
    of_span = {span_keys[int(row)]: place for place, row in enumerate(roots)}
    parent_ids = spans.parent_ids
    for child in unclear.tolist():
        row = int(children[child])
        request, span_id = int(requests[row]), str(parent_ids[row])
        owners[child] = NOBODY
        for _ in range(MAX_ANCESTORS):
            place = of_span.get((request, span_id))
            if place is not None:
                owners[child] = place
                break
            span_id = parents.get((request, span_id), "")


def _list_keys(requests: Ints, ids: Column, rows: Ints) -> list[tuple[int, str]]:
    return list(zip(requests[rows].tolist(), to_list(take(ids, rows)), strict=True))
