"""What Ray's own Prometheus page says of a node's object store.

Names checked on the page of Ray 2.60 and in its documentation ("System Metrics"). Anything else on
that page, which is large, is not even parsed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from longpole.conventions import gpus
from longpole.conventions.ray_titles import PREFIX
from longpole_agent.sources.exposition import Sample, read_page
from longpole_agent.sources.source import Kind

_USED, _AVAILABLE = "ray_object_store_used_memory", "ray_object_store_available_memory"
_BY_LOCATION = "ray_object_store_memory"
_SPILLING = "ray_spill_manager_objects_bytes"
_KILLED = "ray_memory_manager_worker_eviction"
_UNIQUE = ("ray_component_uss_bytes", "ray_component_uss_mb")
# SkyRL's trainer exports what it does through Ray: 1 for the phase that goes on.
_PHASE = "ray_skyrl_training_phase"
_WANTED = (_USED, _AVAILABLE, _BY_LOCATION, _SPILLING, _KILLED, *_UNIQUE, _PHASE)
_BYTES_PER_MB = 1e6


@dataclass(frozen=True, slots=True)
class StoreState:
    """One page.

    Attributes:
        values: By metric of the vocabulary.
        components: Private bytes by a component's title.
        phase: What SkyRL's trainer does, "" where none says so or several do.
    """

    values: Mapping[str, float]
    components: Mapping[str, float]
    phase: str = ""


KIND_OF_METRIC: Mapping[str, tuple[str, Kind]] = {
    gpus.RAY_STORE_USED: ("By", "total"),
    gpus.RAY_STORE_LIMIT: ("By", "total"),
    gpus.RAY_STORE_FALLBACK: ("By", "total"),
    gpus.RAY_STORE_SPILLED: ("By", "total"),
    gpus.RAY_SPILL_WRITTEN: ("By", "counter"),
    gpus.RAY_SPILL_RESTORED: ("By", "counter"),
    gpus.RAY_WORKERS_KILLED: ("{worker}", "counter"),
}


def read_store(text: str) -> StoreState:
    """Return what a page says; what it does not say is left out."""
    found: dict[str, float] = {}
    components: dict[str, float] = {}
    phases: set[str] = set()
    for sample in _read_wanted(text):
        labels = dict(sample.labels)
        if sample.name == _PHASE and sample.value == 1.0:
            phases.add(labels.get("phase", ""))
        key = _name(sample.name, labels)
        if key is not None:
            found[key] = found.get(key, 0.0) + sample.value
        elif sample.name in _UNIQUE and labels.get("Component", "").startswith(PREFIX):
            factor = 1.0 if sample.name == _UNIQUE[0] else _BYTES_PER_MB
            components.setdefault(labels["Component"], sample.value * factor)
    used = found.pop(_USED, None)
    available = found.pop(_AVAILABLE, None)
    if used is not None:
        found[gpus.RAY_STORE_USED] = used
        if available is not None:
            found[gpus.RAY_STORE_LIMIT] = used + available
    return StoreState(found, components, phases.pop() if len(phases) == 1 else "")


def _read_wanted(text: str) -> Iterator[Sample]:
    wanted = "\n".join(line for line in text.splitlines() if line.startswith(_WANTED))
    return (sample for sample in read_page(wanted) if sample is not None)


def _name(name: str, labels: Mapping[str, str]) -> str | None:
    """Return what a series is added to."""
    if name in {_USED, _AVAILABLE}:
        return name
    if name == _BY_LOCATION:
        return {
            "MMAP_SHM": gpus.RAY_STORE_USED,
            "MMAP_DISK": gpus.RAY_STORE_FALLBACK,
            "SPILLED": gpus.RAY_STORE_SPILLED,
        }.get(labels.get("Location", ""))
    if name == _SPILLING:
        return {"Spilled": gpus.RAY_SPILL_WRITTEN, "Restored": gpus.RAY_SPILL_RESTORED}.get(
            labels.get("State", "")
        )
    # `_total` stands once or twice, by version.
    return gpus.RAY_WORKERS_KILLED if name.startswith(_KILLED) else None
