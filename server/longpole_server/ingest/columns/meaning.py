"""What spans mean, for many at once: the same as `normalize.spans.classify_span` says of each."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from longpole.conventions import attributes as names
from longpole_server.ingest.columns.attributes import Attributes
from longpole_server.ingest.columns.spans import SpanColumns
from longpole_server.ingest.columns.texts import Column
from longpole_server.ingest.columns.wire import Ints
from longpole_server.ingest.normalize.spans import (
    ITERATION_KEYS,
    SpanKind,
    classify_name,
    have_wild_times,
)

NO_KIND = 0
_CODES = {None: NO_KIND, **{kind: code for code, kind in enumerate(SpanKind, 1)}}
KIND_OF_CODE = {code: kind for kind, code in _CODES.items()}
LOOP, STAGE, CANDIDATE = _CODES[SpanKind.LOOP], _CODES[SpanKind.STAGE], _CODES[SpanKind.CANDIDATE]
TRAJECTORY, PART = _CODES[SpanKind.TRAJECTORY], _CODES[SpanKind.PART]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What each span means. `steps` are null where a span names none."""

    kinds: Ints
    steps: Column

    def find(self, kind: int) -> Ints:
        """Return the numbers of the spans of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def find_windows(self) -> Ints:
        """Return the numbers of the spans that belong to a step as a window."""
        return np.flatnonzero(
            (self.kinds != NO_KIND) & (self.kinds != TRAJECTORY) & (self.kinds != PART)
        )


def find_meaning(spans: SpanColumns) -> Meaning:
    """Classify spans."""
    of_name = np.array([_CODES[classify_name(name)] for name in spans.names], np.int64)
    kinds = of_name[spans.name_codes] if len(spans) else np.zeros(0, np.int64)
    steps = read_steps(spans.attributes)
    names_stage = spans.attributes.has(names.STAGE)
    kinds[((kinds == NO_KIND) | (kinds == CANDIDATE)) & names_stage] = STAGE
    kinds[(kinds == LOOP) & pc.is_null(steps).to_numpy(zero_copy_only=False)] = NO_KIND
    return Meaning(kinds, steps)


def refuse_wild(spans: SpanColumns, meaning: Meaning, received_ns: Ints) -> int:
    """Take the meaning from spans whose times make no window; return from how many.

    Args:
        spans: The spans.
        meaning: What they are; changed in place.
        received_ns: When each came.
    """
    wild = have_wild_times(spans.start_ns, spans.end_ns, received_ns)
    refused = wild & (meaning.kinds != NO_KIND)
    meaning.kinds[refused] = NO_KIND
    return int(np.count_nonzero(refused))


def read_steps(attributes: Attributes) -> Column:
    """Return the step that each owner names, null where it names none."""
    return pc.coalesce(*(attributes.read_ints(key) for key in ITERATION_KEYS))
