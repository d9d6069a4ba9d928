"""The answers of the console, by path.

takes  requests that the guard let through
gives  the page and its files, JSON about the mill, and a stream that says when to ask again

Whatever reads the mill runs in the console's own threads: it may wait for a change under way.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from viewmill.console.complete import completions
from viewmill.console.curve import curve
from viewmill.console.details import SHOWN, details, first_rows, plan_picture
from viewmill.console.editor import run_sql
from viewmill.console.live import Live
from viewmill.console.nodes import Asked, page_of_nodes
from viewmill.console.proposals import approve, propose
from viewmill.console.refused import refused
from viewmill.console.replies import Json, dumped, error_reply
from viewmill.console.why import why
from viewmill.errors import InvalidArgument, ReadOnlyMill, ViewmillError
from viewmill.mill.mill import Mill

_LOG = logging.getLogger("viewmill")
_MOST_BYTES = 1 << 20  # of a request
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript",
          ".svg": "image/svg+xml"}  # fmt: skip
FILES = {
    path.name: (path.read_bytes(), _KINDS[path.suffix])
    for path in sorted((Path(__file__).parent / "static").iterdir())
    if path.suffix in _KINDS
}

R = TypeVar("R")


class Answers:
    """One method per path."""

    def __init__(self, live: Live, write: bool) -> None:
        self._live, self._write = live, write

    async def _read(self, work: Callable[[Mill], R]) -> R:
        """Do something with the mill, in another thread."""

        def job() -> R:
            with self._live.subject.reading() as mill:
                return work(mill)

        return await self._live.in_thread(job)

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return _file("index.html")

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        return _file(request.path_params["name"])

    async def mill(self, request: Request) -> Response:
        """What the head of the page shows."""
        return Json(await self._read(self._summary))

    def _summary(self, mill: Mill) -> dict[str, Any]:
        store = mill.core.store
        return {
            "path": "in memory" if store is None else str(store.shown_path),
            "version": mill.version,
            "write": self._write,
            "trouble": self._live.subject.trouble or mill.core.trouble or "",
            "follows": self._live.subject.follows_commits,
            **self._live.subject.told(),
        }

    async def nodes(self, request: Request) -> Response:
        """A page of tables and views."""
        given = request.query_params
        page = given.get("page", "0")
        if not (page.isascii() and page.isdigit() and len(page) < 10):
            raise InvalidArgument("page is a number")
        asked = Asked(given.get("text", ""), given.get("only", ""), int(page))
        sinks = self._live.subject.sinks
        return Json(await self._read(lambda mill: page_of_nodes(mill, asked, sinks(mill))))

    async def details(self, request: Request) -> Response:
        """All about one table or view."""
        name, watch = _name(request), self._live.watch
        return Json(await self._read(lambda mill: details(mill, watch, name)))

    async def rows(self, request: Request) -> Response:
        """The first rows of a table or view."""
        name = _name(request)
        return Json(await self._read(lambda mill: first_rows(mill, name)))

    async def tempo(self, request: Request) -> Response:
        """Rows and times of the last commits, of all or of one table or view."""
        name = request.query_params.get("name")
        return Json(await self._live.in_thread(lambda: self._live.tempo.moments(name)))

    async def changed(self, request: Request) -> Response:
        """The rows that the last refreshes of a view changed."""
        name = _name(request)
        if not self._live.subject.follows_commits:
            raise InvalidArgument(
                "changed rows are known to the process that writes the mill",
                hint="mill.console() in that process shows them.",
            )
        found = await self._read(lambda mill: self._live.changed_rows.of_view(mill, name))
        return Json({"changes": found})

    async def refused(self, request: Request) -> Response:
        """Dead letters, and late rows that tables refused."""
        return Json(await self._read(refused))

    async def curve(self, request: Request) -> Response:
        """What less memory would cost a view."""
        name = _name(request)
        return Json(await self._read(lambda mill: curve(mill, name)))

    async def why(self, request: Request) -> Response:
        """The rows that a row of a view was made from."""
        given = await _given(request)
        name, row = _text(given, "name"), given.get("row")
        if not isinstance(row, list) or not all(e is None or isinstance(e, str) for e in row):
            raise InvalidArgument('the request has no list of texts "row"')
        return Json(await self._read(lambda mill: why(mill, name, row, SHOWN)))

    async def propose(self, request: Request) -> Response:
        """Which rows another definition of a view would change."""
        given = await _given(request)
        name, sql = _text(given, "name"), _text(given, "sql")
        return Json(await self._read(lambda mill: propose(mill, name, sql)))

    async def approve(self, request: Request) -> Response:
        """Replace a view by what was proposed."""
        given = await _given(request)
        name, sql = _text(given, "name"), _text(given, "sql")
        return Json(await self._read(lambda mill: approve(mill, name, sql, self._write)))

    async def plan(self, request: Request) -> Response:
        """The picture of a plan."""
        name = _name(request)
        drawn = await self._read(lambda mill: plan_picture(mill, name))
        return Response(drawn.encode(errors="replace"), media_type="image/svg+xml")

    async def complete(self, request: Request) -> Response:
        """What a word in the editor may become."""
        word = request.query_params.get("word", "")
        return Json({"found": await self._read(lambda mill: completions(mill, word))})

    async def sql(self, request: Request) -> Response:
        """What the editor sends."""
        text = _text(await _given(request), "sql")
        return Json(await self._read(lambda mill: run_sql(mill, text, self._write)))

    async def verify(self, request: Request) -> Response:
        """Compare a view with its recomputed definition."""
        name = _text(await _given(request), "name")

        def compare(mill: Mill) -> dict[str, Any]:
            found = mill.view(name).verify()
            return {"differences": len(found), "first": [str(each) for each in found[:20]]}

        return Json(await self._read(compare))

    async def refresh(self, request: Request) -> Response:
        """Let a view take in what waits."""
        if not self._write:
            raise ReadOnlyMill("this console only reads", hint="Start it with --write.")
        name = _text(await _given(request), "name")
        await self._read(lambda mill: mill.view(name).refresh())
        return Json({"done": True})

    async def live(self, request: Request) -> Response:
        """Server-sent events: the version, and which views have changed."""

        async def events() -> AsyncIterator[str]:
            async for news in self._live.news():
                yield ": still here\n\n" if news is None else f"data: {dumped(news)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")


def make_app(live: Live, write: bool) -> Starlette:
    """The app without its guard."""
    answers = Answers(live, write)
    routes = [
        Route("/", answers.page),
        Route("/static/{name}", answers.file),
        Route("/api/mill", answers.mill),
        Route("/api/nodes", answers.nodes),
        Route("/api/details", answers.details),
        Route("/api/rows", answers.rows),
        Route("/api/plan.svg", answers.plan),
        Route("/api/live", answers.live),
        Route("/api/tempo", answers.tempo),
        Route("/api/changed", answers.changed),
        Route("/api/refused", answers.refused),
        Route("/api/curve", answers.curve),
        Route("/api/why", answers.why, methods=["POST"]),
        Route("/api/propose", answers.propose, methods=["POST"]),
        Route("/api/approve", answers.approve, methods=["POST"]),
        Route("/api/complete", answers.complete),
        Route("/api/sql", answers.sql, methods=["POST"]),
        Route("/api/verify", answers.verify, methods=["POST"]),
        Route("/api/refresh", answers.refresh, methods=["POST"]),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(live.watch_on())
        try:
            yield
        finally:
            watching.cancel()

    handlers: Any = {ViewmillError: _on_error, Exception: _on_bug}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


async def _on_error(request: Request, error: ViewmillError) -> Response:
    return error_reply(error)


async def _on_bug(request: Request, error: Exception) -> Response:
    _LOG.error("the console could not answer %s", request.url.path, exc_info=error)
    return Json({"error": {"kind": "error", "message": "see the log of Python"}}, status_code=500)


def _file(name: str) -> Response:
    found = FILES.get(name)
    if found is None:
        return Response("there is no such file\n", status_code=404, media_type="text/plain")
    return Response(found[0], media_type=found[1])


def _name(request: Request) -> str:
    name = request.query_params.get("name")
    if not name:
        raise InvalidArgument("no name was given")
    return name


async def _given(request: Request) -> dict[str, Any]:
    """The JSON of a request. Forms of other pages cannot send JSON."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InvalidArgument("the request is not application/json")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            raise InvalidArgument("the request is too large", detail=f"{_MOST_BYTES} bytes.")
    try:
        given = json.loads(body)
    except ValueError as why:
        raise InvalidArgument("the request is not JSON") from why
    if not isinstance(given, dict):
        raise InvalidArgument("the request is not an object of JSON")
    return given


def _text(given: dict[str, Any], key: str) -> str:
    if not isinstance(given.get(key), str):
        raise InvalidArgument(f'the request has no text "{key}"')
    return str(given[key])
