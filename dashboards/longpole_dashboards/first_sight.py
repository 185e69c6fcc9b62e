"""What a browser asks for first: the frame, the page and its first answers, in one piece.

Asked one after another (frame, page, panels) each of them would wait for a round trip, and
everything on the page would be put together three times. The browser asks while its scripts are
still being read (`shell.first_questions_script`), so the server works meanwhile. What is not there
in time stays empty, and its pulse asks for it as for anything new (`refresh`).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import orjson
from dash import Dash, no_update
from dash.development.base_component import Component
from fastapi import Request, Response

from longpole_dashboards.addresses import Query
from longpole_dashboards.alarm import NO_ALARM
from longpole_dashboards.components.plain import WiredIds, flatten
from longpole_dashboards.formats import Zone
from longpole_dashboards.live import Ticks
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import PanelGroup, Rendered, View, answer_group, group_targets
from longpole_dashboards.theme import DEFAULT_THEME, ThemeName

# A page is held back for its answers no longer than this, seconds.
MAX_WAIT_S = 0.7
MAX_HREF_CHARS = 8_192
# The pulse of a group that waits (`pulse` in `assets/longpole.js`).
LATER = "later"


class Page(Protocol):
    """What a module of `pages` is."""

    @property
    def FIRST_GROUPS(self) -> Sequence[PanelGroup[Any]]:  # noqa: N802 - a constant of the module
        """Of its panels those that are in sight at first."""
        ...

    @property
    def LATER_GROUPS(self) -> Sequence[PanelGroup[Any]]:  # noqa: N802
        """Those below."""
        ...

    def layout(self, query: Query, /) -> Component:
        """Return the page before its data is there."""
        ...

    def register(self, app: Dash, reader: Reader) -> None:
        """Register its callbacks."""
        ...


@dataclass(frozen=True, slots=True)
class Visit:
    """Who comes where: the address as the browser has it, its theme, and its zone as it says it."""

    href: str
    pathname: str
    search: str
    fragment: str
    theme: ThemeName = DEFAULT_THEME
    zone: Mapping[str, object] = field(default_factory=dict[str, object])

    @classmethod
    def parse(cls, told: Mapping[str, str]) -> "Visit | None":
        """Read what the browser tells; nothing if it tells no address that one could be at."""
        href = told.get("href", "")
        if not href.startswith(("http://", "https://")) or len(href) > MAX_HREF_CHARS:
            return None
        try:
            parts = urlsplit(href)
        except ValueError:
            return None
        offset = told.get("offset_min", "")
        zone: dict[str, object] = {"name": told.get("zone", "")}
        if offset.removeprefix("-").isdecimal():
            zone["offset_min"] = int(offset)
        return cls(
            href,
            parts.path or "/",
            f"?{parts.query}" if parts.query else "",
            f"#{parts.fragment}" if parts.fragment else "",
            "light" if told.get("theme") == "light" else "dark",
            zone,
        )


class FirstSight:
    """Puts frame, page and answers together.

    Args:
        shell: Returns the frame for a visit, with a page in it or without.
        missing: Returns what stands where no page is.
    """

    def __init__(
        self,
        app: Dash,
        reader: Reader,
        ticks: Ticks,
        pages: Mapping[str, Page],
        shell: Callable[[Visit | None, Component | None], Component],
        missing: Callable[[], Component],
        max_wait_s: float = MAX_WAIT_S,
    ) -> None:
        self._wired = WiredIds(app)
        self._reader = reader
        self._ticks = ticks
        self._pages = pages
        self._shell = shell
        self._missing = missing
        self._max_wait_s = max_wait_s

    async def answer(self, request: Request) -> Response:
        """Return the layout that Dash asks for, with all that is there in time."""
        visit = Visit.parse(request.query_params)
        page = self._pages.get(visit.pathname) if visit is not None else None
        if visit is None:
            frame = self._shell(None, None)
        elif page is None:
            frame = self._shell(visit, self._missing())
        else:
            frame = self._shell(visit, await self._open(page, visit))
        # Not among the readers: these may be busy with what was not there in time.
        body = await asyncio.to_thread(write_json, frame)
        headers = {"cache-control": "no-store"}
        return Response(body, media_type="application/json", headers=headers)

    async def _open(self, page: Page, visit: Visit) -> Component:
        change = self._reader.service.changes.current
        view = View(
            query=Query.parse(visit.search),
            theme=visit.theme,
            zone=Zone.from_browser(visit.zone),
            now_ns=change.ts_ns,
        )
        wired = self._wired.find()
        alarmed = asyncio.ensure_future(self._ticks.look(change, NO_ALARM))
        asked = [
            asyncio.ensure_future(
                self._reader.run(answer_group, self._reader, group, view, {}, wired)
            )
            for group in page.FIRST_GROUPS
        ]
        body = page.layout(view.query)
        await asyncio.wait([alarmed, *asked], timeout=self._max_wait_s)
        alarm = alarmed.result() if alarmed.done() else NO_ALARM
        version = self._ticks.make(change, alarm)["version"]
        for group, answer in zip(page.FIRST_GROUPS, asked, strict=True):
            if answer.done():
                fill(body, group, answer.result(), version)
        for group in page.LATER_GROUPS:
            put_off(body, group)
        return cast("Component", flatten(body, wired))


def write_json(frame: Component) -> bytes:
    """Return a frame as Dash writes its answers, without a look at every number of its charts."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(frame, default=_open_component, option=options)


def _open_component(value: object) -> object:
    if isinstance(value, Component):
        return value.to_plotly_json()
    # It says the type.
    raise TypeError


def fill(page: Component, group: PanelGroup[Any], answer: Rendered, version: object) -> None:
    """Put a group's answer where its callback would put it."""
    places = _find_places(page)
    if answer.is_missing:
        # As the browser sets it for what goes later (`tickAges`): no panel is seen meanwhile.
        setattr(page, "data-missing", "yes")
    values = zip(group_targets(group), answer.values, strict=True)
    for (component, prop), value in values:
        if value is not no_update:
            setattr(places[component], prop, value)
    cast("Any", places[f"{group.name}-notice"]).children = answer.notice
    cast("Any", places[f"{group.name}-answer"]).data = {"version": version, "keys": answer.keys}


def put_off(page: Component, group: PanelGroup[Any]) -> None:
    """Let a group wait until what is in sight is drawn: the browser asks for it then."""
    pulse = cast("Any", _find_places(page)[f"{group.name}-pulse"])
    pulse.data = {"version": LATER, "sent_ms": 0}


def _find_places(component: object) -> dict[str, Component]:
    """Return all components with an id, by it."""
    found = dict[str, Component]()
    open_: list[object] = [component]
    while open_:
        each = open_.pop()
        if isinstance(each, Component):
            if isinstance(own := getattr(each, "id", None), str):
                found[own] = each
            open_.append(getattr(each, "children", None))
        elif isinstance(each, list | tuple):
            open_.extend(cast("Sequence[object]", each))
    return found
