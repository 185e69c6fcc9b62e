"""What two compared runs were started with, where it differs, and what each waited for."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from longpole_server.model.comparison import ComparedWindow, ConfigChange, ConfigDifference
from longpole_server.model.facts import RunFacts
from longpole_server.model.records import RunStart
from longpole_server.model.step import Step

_MAX_DEPTH = 16
# What an attempt says of itself beside its configuration, under keys of the same form.
_DESCRIBED = ("system", "system_version", "algorithm", "mode", "model_name", "gpu_count")


def name_window(before: ComparedWindow, after: ComparedWindow) -> str:
    """Return where the steps of the window before lie, as it ends a sentence."""
    if before.run_id == after.run_id:
        return f"in steps {before.first_step} to {before.last_step}"
    return f"in {before.run_name}"


def find_usual_verdict(judged: Sequence[Step]) -> tuple[str | None, int]:
    """Return the verdict of most steps, as it was given when each closed, and their number."""
    counts = Counter(step.verdict for step in judged if step.verdict is not None)
    return max(counts.items(), key=lambda item: item[1], default=(None, 0))


def describe_config(start: RunStart | RunFacts) -> dict[str, str]:
    """Return everything an attempt was started with, flat: `a.b` for `b` inside `a`."""
    flat = dict(_flatten_config(start.config))
    model = start.model_config
    if model is not None:
        known = _parse(model) if isinstance(model, str) else dict(model)
        flat.update(_flatten("model_config", known))
    for name in _DESCRIBED:
        value = getattr(start, name)
        if value is not None:
            flat.setdefault(name, str(value))
    return flat


def compare_config(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[ConfigDifference, ...]:
    """Return the settings that differ, by key."""
    return tuple(
        ConfigDifference(key, _name_change(key, before, after), before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if key not in before or key not in after or before[key] != after[key]
    )


def _name_change(key: str, before: Mapping[str, str], after: Mapping[str, str]) -> ConfigChange:
    if key not in before:
        return "added"
    return "changed" if key in after else "removed"


def _flatten_config(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, text in config.items():
        yield from _flatten(key, _parse(text))


def _parse(text: str) -> object:
    """Return the object that a text of JSON holds; any other text as it is."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _flatten(key: str, value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth < _MAX_DEPTH:
        for name, inner in cast("dict[str, object]", value).items():
            yield from _flatten(f"{key}.{name}", inner, depth + 1)
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, sort_keys=True)
