from pathlib import Path

import pytest

from longpole_agent.sources.ray.page import KIND_OF_METRIC, read_store

# Ray 2.60 with an object store of 100 MB into which 40 arrays of 10 MB were put, three read back.
PAGE = (Path(__file__).parent / "data" / "metrics_2.60.txt").read_text("utf-8")


def test_what_a_real_page_says_of_the_object_store() -> None:
    state = read_store(PAGE)
    assert state.values == pytest.approx(
        {
            "ray.object_store.used": 94_374_126,
            "ray.object_store.limit": 104_857_600,
            "ray.object_store.fallback": 0,
            "ray.object_store.spilled": 419_440_560,
            "ray.object_store.spill.written": 419_440_560,
            "ray.object_store.spill.restored": 31_458_024,
        }
    )
    assert state.values.keys() <= KIND_OF_METRIC.keys()


def test_what_components_hold_for_themselves_in_bytes() -> None:
    components = read_store(PAGE).components
    assert 10e6 < components["ray::WorkerDict"] < 1e9
    assert all(title.startswith("ray::") for title in components)


def test_older_pages_count_in_megabytes_and_have_no_totals() -> None:
    state = read_store(
        'ray_object_store_memory{Location="MMAP_SHM",ObjectState="SEALED"} 70\n'
        'ray_object_store_memory{Location="MMAP_SHM",ObjectState="UNSEALED"} 5\n'
        'ray_object_store_memory{Location="MMAP_DISK",ObjectState="SEALED"} 3\n'
        'ray_component_uss_mb{Component="ray::Trainer.fit",pid=""} 12.5\n'
        'ray_component_uss_mb{Component="raylet",pid="3"} 1.0\n'
    )
    assert state.values == {"ray.object_store.used": 75, "ray.object_store.fallback": 3}
    assert state.components == {"ray::Trainer.fit": 12_500_000}


@pytest.mark.parametrize(
    "name",
    [
        "ray_memory_manager_worker_eviction_total",
        "ray_memory_manager_worker_eviction_total_total",
    ],
)
def test_workers_that_were_killed_for_want_of_memory(name: str) -> None:
    page = f'{name}{{Type="MemoryManager.ActorEviction.Total",Name="A"}} 2\n{name}{{Name="B"}} 1\n'
    assert read_store(page).values == {"ray.workers.killed": 3}


def test_a_page_of_something_else_says_nothing() -> None:
    state = read_store(
        "# HELP up\nup 1\nvllm:num_requests_running 3\nray_object_store_used_memory\n"
    )
    assert (state.values, state.components) == ({}, {})
