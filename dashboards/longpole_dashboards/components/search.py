"""A field that searches what a page lists; what is searched for stands in the address."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash.development.base_component import Component

from longpole_dashboards.addresses import Query
from longpole_dashboards.components.attributes import attributes

_QUERY_NAME = "q"
# Typing is over when nothing was typed for so long.
_DEBOUNCE_MS = 250


def search_box(control_id: str, placeholder: str, query: Query, label: str) -> Component:
    """Return the field, with what the address searches for; `label` is for screen readers."""
    return dmc.TextInput(
        id=control_id,
        value=query.text(_QUERY_NAME) or "",
        placeholder=placeholder,
        size="xs",
        w=240,
        debounce=_DEBOUNCE_MS,
        **attributes(aria_label=label),
    )


def sought_words(query: Query) -> tuple[str, ...]:
    """Return the words that are searched for, as `matches` takes them."""
    return tuple((query.text(_QUERY_NAME) or "").casefold().split())


def matches(words: Sequence[str], *texts: str | None) -> bool:
    """Tell whether each of `sought_words` is in one of the texts; without a word, yes."""
    text = "\n".join(text for text in texts if text).casefold()
    return all(word in text for word in words)
