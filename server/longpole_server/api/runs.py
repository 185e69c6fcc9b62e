"""Routes of runs, their steps, samples, metrics and diagnoses."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from longpole_server.api import documents
from longpole_server.api.comparison import comparison_document
from longpole_server.api.paging import cut_page, make_cursor, read_cursor
from longpole_server.api.responses import JsonResponse
from longpole_server.diagnosis import diagnosis_document
from longpole_server.errors import BadRequestError
from longpole_server.model.energy import RunEnergy
from longpole_server.model.stragglers import RunStragglers
from longpole_server.service import Service, StepRange, TrajectorySort
from longpole_server.service.interface import MAX_METRIC_POINTS
from longpole_server.service.ranges import check_range

MAX_LIMIT = 10_000
MAX_NAMES = 1_000

_STEP_BOUNDS: dict[str, Any] = {"ge": -(1 << 63), "le": (1 << 63) - 1}
First = Annotated[
    int | None, Query(alias="from", description="first step, inclusive", **_STEP_BOUNDS)
]
Last = Annotated[int | None, Query(alias="to", description="last step, inclusive", **_STEP_BOUNDS)]
WithFirst = Annotated[
    int | None, Query(alias="with_from", description="`from` of the other run", **_STEP_BOUNDS)
]
WithLast = Annotated[
    int | None, Query(alias="with_to", description="`to` of the other run", **_STEP_BOUNDS)
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
Names = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None,
    Query(max_length=MAX_NAMES, description="several names; all metrics without any"),
]
Points = Annotated[int, Query(ge=1, le=MAX_METRIC_POINTS)]
Cursor = Annotated[str | None, Query(description="`next` of the page before")]


def create_runs_router(service: Service) -> APIRouter:
    """Return the routes. A run id may hold slashes, so the longer paths stand first."""
    router = APIRouter(prefix="/runs", tags=["runs"])
    _add_sample_routes(router, service)
    _add_step_routes(router, service)
    _add_run_routes(router, service)
    return router


def _add_sample_routes(router: APIRouter, service: Service) -> None:
    @router.get(
        "/{run:path}/steps/{step:int}/trajectories", response_model=documents.TrajectoriesPage
    )
    def list_trajectories(
        run: str,
        step: int,
        sort: TrajectorySort = "-duration",
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """Samples of a step."""
        # One more than asked for tells whether there is another page.
        start = read_cursor(cursor)
        samples = service.list_trajectories(run, step, sort, limit + 1, start)
        following = make_cursor(start + limit) if len(samples) > limit else None
        return JsonResponse(documents.TrajectoriesPage(samples[:limit], following))

    @router.get(
        "/{run:path}/trajectories/{trajectory:path}", response_model=documents.TrajectoryDocument
    )
    def get_trajectory(run: str, trajectory: str) -> Response:
        """One sample with its parts and its group's siblings."""
        return JsonResponse(documents.describe_trajectory(service.get_trajectory(run, trajectory)))


def _add_step_routes(router: APIRouter, service: Service) -> None:
    @router.get("/{run:path}/steps/{step:int}", response_model=documents.StepDetailDocument)
    def get_step(run: str, step: int) -> Response:
        """One step with its timeline and its diagnosis."""
        return JsonResponse(documents.describe_step_detail(service.get_step(run, step)))

    @router.get("/{run:path}/steps", response_model=documents.StepsPage)
    def list_steps(
        run: str,
        first: First = None,
        last: Last = None,
        limit: Limit = MAX_LIMIT,
        cursor: Cursor = None,
    ) -> Response:
        """Steps of a range in order, the open one last."""
        check_range(first, last)
        page, following = cut_page(service.list_steps(run, first, last), cursor, limit)
        described = [documents.describe_step(step) for step in page]
        changes = documents.describe_changes(service.list_verdict_changes(run), page)
        return JsonResponse(documents.StepsPage(described, following, changes))


def _add_run_routes(router: APIRouter, service: Service) -> None:
    @router.get("/{run:path}/diagnosis", response_model=dict[str, Any])
    def get_diagnosis(run: str, first: First = None, last: Last = None) -> Response:
        """`longpole.diagnosis/1` of a range; without one, of the last 20 judged steps."""
        return JsonResponse(diagnosis_document(service.diagnose(run, first, last)))

    @router.get("/{run:path}/compare", response_model=dict[str, Any])
    def compare_runs(
        run: str,
        other: Annotated[str, Query(alias="with", min_length=1, description="run to compare with")],
        first: First = None,
        last: Last = None,
        with_first: WithFirst = None,
        with_last: WithLast = None,
    ) -> Response:
        """What changed since the other run's window; without ranges the last 20 judged steps."""
        steps, other_steps = StepRange(first, last), StepRange(with_first, with_last)
        return JsonResponse(comparison_document(service.compare(run, other, steps, other_steps)))

    @router.get("/{run:path}/stragglers", response_model=RunStragglers)
    def get_stragglers(run: str, first: First = None, last: Last = None) -> Response:
        """Every GPU and replica against the best of its kind, over the last 20 steps of a range."""
        return JsonResponse(service.get_stragglers(run, first, last))

    @router.get("/{run:path}/energy", response_model=RunEnergy)
    def get_energy(run: str, first: First = None, last: Last = None) -> Response:
        """What the GPUs took: altogether, and in the last 200 steps of a range, by stage.

        Of a run of over 200 GPUs the newest ones, and more each time that it is asked.
        """
        return JsonResponse(service.get_energy(run, first, last))

    @router.get("/{run:path}/metrics", response_model=documents.MetricPage | documents.MetricsPage)
    def get_metrics(
        run: str,
        name: Annotated[str | None, Query(min_length=1)] = None,
        names: Names = None,
        first: First = None,
        last: Last = None,
        limit: Points = MAX_METRIC_POINTS,
        cursor: Cursor = None,
    ) -> Response:
        """A metric by `name`, as points; or those of `names=..&names=..`, or all, as columns.

        Names are the trainer's, or canonical ones through their aliases. `limit` bounds the points
        of a page of columns.
        """
        check_range(first, last)
        if name is None:
            page = service.list_metrics(run, names, first, last, read_cursor(cursor), limit)
            following = None if page.following is None else make_cursor(page.following)
            return JsonResponse({"metrics": page.metrics, "next": following})
        if names is not None:
            raise BadRequestError("both `name` and `names`", hint="give one of them")
        series = service.get_metric(run, name)
        points = [
            documents.PointDocument(*point)
            for point in series.points
            if (first is None or point[0] >= first) and (last is None or point[0] <= last)
        ]
        return JsonResponse(documents.MetricPage(series.name, points, None))

    @router.get("", response_model=documents.RunsPage)
    def list_runs(limit: Limit = 1_000, cursor: Cursor = None) -> Response:
        """All runs, live ones first."""
        return JsonResponse(documents.RunsPage(*cut_page(service.list_runs(), cursor, limit)))

    @router.get("/{run:path}", response_model=documents.RunDocument)
    def get_run(run: str) -> Response:
        """One run with its configuration, attempts and sources."""
        return JsonResponse(documents.describe_run(service.get_run(run)))
