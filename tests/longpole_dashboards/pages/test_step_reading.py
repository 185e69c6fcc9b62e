import threading
from collections import Counter
from collections.abc import Sequence

from longpole_dashboards.pages.step_panels import PANELS
from longpole_dashboards.pages.step_reading import StepReading
from longpole_dashboards.reading import Reader
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.trajectory import Trajectory
from longpole_server.service import StepDetail, TrajectorySort
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view

STEP = {"run": LIVE_RUN, "step": "20"}


class ReadingService(FakeService):
    """Counts what is read of a step; with a barrier each read waits there for the others."""

    def __init__(self, barrier: threading.Barrier | None = None) -> None:
        super().__init__(NOW_NS)
        self.reads: Counter[str] = Counter()
        self._barrier = barrier

    def get_step(self, run_id: str, step: int) -> StepDetail:
        self._note("step")
        return super().get_step(run_id, step)

    def list_trajectories(
        self,
        run_id: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: int = 100,
        offset: int = 0,
    ) -> Sequence[Trajectory]:
        self._note("samples")
        return super().list_trajectories(run_id, step, sort, limit, offset)

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        self._note(f"gpus {field}")
        return super().get_gpu_heatmap(run_id, field, start_ns, end_ns, max_bins)

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        self._note("engines")
        return super().get_engine_lanes(run_id, start_ns, end_ns, max_bins, attempt)

    def _note(self, what: str) -> None:
        self.reads[what] += 1
        if self._barrier is not None:
            self._barrier.wait(timeout=60)


def draw(reader: Reader, query: dict[str, str]) -> None:
    reading = StepReading(reader, make_view(query))
    for panel in PANELS.panels:
        panel.render(reading)


def test_what_a_step_consists_of_is_read_side_by_side() -> None:
    service = ReadingService(threading.Barrier(4))
    draw(Reader(service), STEP)
    assert service.reads == Counter(["step", "samples", "gpus sm_active_ratio", "engines"])


def test_a_search_reads_nothing_of_a_settled_step_again() -> None:
    service = ReadingService()
    reader = Reader(service)
    draw(reader, STEP)
    before = service.reads.copy()
    draw(reader, STEP | {"q": "replica-1", "only": "replica:replica-1"})
    assert service.reads == before
    draw(reader, STEP | {"field": "power_watts"})
    assert service.reads - before == Counter(["gpus power_watts"])


def test_a_zoom_reads_that_part_of_gpus_and_engines_once() -> None:
    service = ReadingService()
    reader = Reader(service)
    draw(reader, STEP)
    before = service.reads.copy()
    draw(reader, STEP | {"t": "20-30"})
    draw(reader, STEP | {"t": "20-30", "q": "replica-1"})
    assert service.reads - before == Counter(["gpus sm_active_ratio", "engines"])
    reading = StepReading(reader, make_view(STEP | {"t": "20-30"}))
    start_ns = reading.step.start_ns
    assert reading.heatmap.start_ns == reading.engines.start_ns == start_ns + 10 * 10**9
    # All of it is still there.
    draw(reader, STEP)
    assert service.reads - before == Counter(["gpus sm_active_ratio", "engines"])


def test_a_read_that_failed_ahead_is_told_and_tried_again() -> None:
    reader = Reader(ReadingService())
    told = threading.Event()

    def fail() -> object:
        told.set()
        raise OSError("gone")

    reader.begin(lambda: reader.large.ask("question", 1, fail))
    assert told.wait(timeout=60)
    for _ in range(2):
        try:
            answer = reader.large.ask("question", 1, lambda: "there")
        except OSError:
            continue
        assert answer == "there"
