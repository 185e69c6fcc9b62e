import random

import numpy as np
import pytest

from longpole_server.errors import StoreError
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import GpuSample, Records
from longpole_server.model.step import Step
from longpole_server.service.gpu_windows import BUSY_ACTIVITY, SLOWDOWN_MASK, WINDOW_FIELDS
from longpole_server.service.step_gpus import MAX_STEP_BINS, StepGpus
from support.store_opening import OpenedStore

NS = 10**9
BASE = 1_700_000_000 * NS
SLOWDOWNS = (None, 0, 1, 8, SLOWDOWN_MASK)
LANES = [
    RunGpu("run", 1, f"step-node-{gpu // 2}", f"GPU-step-{gpu}", gpu % 2, "actor", 0, None, "pid")
    for gpu in range(5)
]
UUIDS = [lane.gpu_uuid for lane in LANES]
STEP = Step(
    run_id="run",
    step=1,
    attempt=1,
    start_ns=BASE + 600 * NS // 7,
    end_ns=BASE + 130 * NS + 1,
    duration_s=45.0,
    closed_by="loop",
    stages=(),
    unattributed_s=None,
    outside=(),
)


class CountedReader:
    """The reader, and what was asked of it."""

    def __init__(self, reader: object) -> None:
        self.reader = reader
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.asked.append(name)
        return getattr(self.reader, name)


class FailingReader:
    """A reader whose database is away."""

    def read_gpu_columns(self, *_: object) -> None:
        raise StoreError("The database is away.")


@pytest.fixture(scope="module")
def drawn() -> Records:
    """Samples at uneven moments, some fields of some missing; of the last GPU there are none."""
    chance = random.Random(6)

    def draw(value: float) -> float | None:
        return None if chance.random() < 0.15 else value

    samples: list[GpuSample] = []
    for lane in LANES[:4]:
        at_ns, joules = BASE, 1000.0
        while at_ns < BASE + 140 * NS:
            at_ns += chance.randrange(NS // 2, 3 * NS)
            joules = 0.0 if chance.random() < 0.02 else joules + chance.randrange(900)
            samples.append(
                GpuSample(
                    lane.host,
                    lane.gpu_uuid,
                    lane.gpu_index,
                    at_ns,
                    utilization_ratio=draw(chance.choice((0.0, 0.05, 0.1, 0.9))),
                    sm_active_ratio=draw(chance.choice((0.0, 0.09, 0.1, 0.7))),
                    tensor_active_ratio=draw(0.25),
                    dram_active_ratio=draw(chance.randrange(100) / 100),
                    power_watts=draw(float(chance.randrange(700))),
                    energy_joules=draw(joules),
                    sm_clock_hz=draw(1.98e9 - chance.randrange(9) * 1.5e7),
                    clocks_event_reasons=chance.choice(SLOWDOWNS),
                )
            )
    return Records(gpu_samples=samples)


def open_gpus(opened: OpenedStore, records: Records) -> tuple[StepGpus, CountedReader]:
    opened.writer.write(records, "step-gpus")
    reader = CountedReader(opened.reader)
    return StepGpus(reader), reader  # pyright: ignore[reportArgumentType]


def test_what_samples_say_is_what_the_database_says(opened: OpenedStore, drawn: Records) -> None:
    gpus, reader = open_gpus(opened, drawn)
    gpus.hold(STEP, LANES)
    assert STEP.end_ns is not None
    start_ns, end_ns = STEP.start_ns, STEP.end_ns

    means = gpus.get_heatmaps(LANES, WINDOW_FIELDS, start_ns, end_ns, MAX_STEP_BINS)
    expected = opened.reader.get_gpu_heatmaps(LANES, WINDOW_FIELDS, start_ns, end_ns, MAX_STEP_BINS)
    for field, heatmap in expected.items():
        np.testing.assert_allclose(means[field].values, heatmap.values, rtol=1e-6)
        assert (means[field].start_ns, means[field].bin_ns) == (heatmap.start_ns, heatmap.bin_ns)
        assert means[field].lanes == heatmap.lanes
    assert np.isnan(means["power_watts"].values[4]).all()

    work = opened.reader.list_gpu_work(UUIDS, start_ns, end_ns, BUSY_ACTIVITY, SLOWDOWN_MASK)
    found = {each.gpu_uuid: each for each in gpus.list_work(UUIDS, start_ns, end_ns)}
    assert sorted(found) == [each.gpu_uuid for each in work] == UUIDS[:4]
    for each in work:
        mine = found[each.gpu_uuid]
        assert (mine.reasons, mine.reported_to_ns) == (each.reasons, each.reported_to_ns)
        for name in ("busy_s", "idle_s", "busy_sm_clock_hz", "slow_ratio", "busy_power_watts"):
            assert getattr(mine, name) == pytest.approx(getattr(each, name))

    moments = [start_ns + (end_ns - start_ns) * part // 23 for part in range(24)]
    assert gpus.read_energy(UUIDS, moments) == pytest.approx(
        opened.reader.read_energy(UUIDS, moments)
    )
    assert reader.asked == ["read_gpu_columns"]


def test_what_was_not_held_is_asked_for(opened: OpenedStore, drawn: Records) -> None:
    gpus, reader = open_gpus(opened, drawn)
    gpus.hold(STEP, LANES[:2])
    assert STEP.end_ns is not None
    gpus.list_work(UUIDS, STEP.start_ns, STEP.end_ns)
    # Neither are other times, fields that were not read, and bins of rollups.
    gpus.read_energy(UUIDS[:2], [BASE + 20 * NS])
    gpus.get_heatmaps(LANES[:2], ("memory_used_bytes",), STEP.start_ns, STEP.end_ns, 10)
    gpus.get_heatmaps(LANES[:2], ("power_watts",), STEP.start_ns, STEP.end_ns, 2)
    assert reader.asked == [
        "read_gpu_columns",
        "list_gpu_work",
        "read_energy",
        "get_gpu_heatmaps",
        "get_gpu_heatmaps",
    ]


def test_a_step_is_held_beside_other_questions(opened: OpenedStore, drawn: Records) -> None:
    gpus, reader = open_gpus(opened, drawn)
    with gpus.holding(STEP, LANES):
        # Who needs it at once waits for what is being read.
        gpus.hold(STEP, LANES)
    assert STEP.end_ns is not None
    gpus.list_work(UUIDS, STEP.start_ns, STEP.end_ns)
    assert reader.asked == ["read_gpu_columns"]


def test_a_failure_beside_other_questions_is_told() -> None:
    gpus = StepGpus(FailingReader())  # pyright: ignore[reportArgumentType]
    with pytest.raises(StoreError), gpus.holding(STEP, LANES):
        pass


def test_what_was_read_is_soon_read_again(opened: OpenedStore, drawn: Records) -> None:
    opened.writer.write(drawn, "step-gpus")
    reader = CountedReader(opened.reader)
    now_s = [100.0]
    gpus = StepGpus(
        reader,  # pyright: ignore[reportArgumentType]
        now_s=lambda: now_s[0],
        now_ns=lambda: BASE + 131 * NS,
    )
    gpus.hold(STEP, LANES)
    gpus.hold(STEP, LANES)
    now_s[0] += 2.0
    gpus.hold(STEP, LANES)
    assert reader.asked == ["read_gpu_columns"] * 2
