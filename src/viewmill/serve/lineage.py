"""Events of OpenLineage: which tables and views each view is made of, and when it changed.

takes  where events go: a server's address, a file, a function
gives  for each view a run (START, COMPLETE) with inputs, output, columns and SQL: when this
       begins, and when the view has changed, at most once in `every` seconds

The shapes are those of the specification 2-0-2.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from viewmill.errors import InvalidArgument
from viewmill.mill.catalog import TableEntry, ViewEntry
from viewmill.mill.core import Core
from viewmill.serve.commit_log import lines_to, moment
from viewmill.serve.commits import Commit, Taker

_SPEC = "https://openlineage.io/spec"
_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_PRODUCER = f"urn:viewmill:{version('viewmill')}"
_TIMEOUT_S = 10.0

Event = dict[str, Any]


def lineage(
    core: Core,
    to: str | os.PathLike[str] | Callable[[Event], object],
    namespace: str,
    every: float,
) -> Taker:
    """Begin to tell."""
    if not every >= 0:
        raise InvalidArgument(f"every must be seconds, got {every}")
    made = _Lineage(core, _sender(to), namespace, every)
    taker = Taker(core, made.take, "lineage")
    with core.lock:
        names = {entry.name: 0 for entry in core.catalog.in_order()}
        at = core.version
    taker.put(Commit(time.time_ns(), at, views=names, kinds=dict.fromkeys(names, "")))
    return taker


def _sender(to: str | os.PathLike[str] | Callable[[Event], object]) -> Callable[[Event], object]:
    if callable(to):
        return to
    text = os.fspath(to)
    if not text.startswith(("http://", "https://")):
        return lines_to(text, lambda event: json.dumps(event, ensure_ascii=False))

    def post(event: Event) -> None:
        body = json.dumps(event).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(text, body, kind)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
            pass

    return post


class _Lineage:
    """Makes events of commits."""

    def __init__(
        self, core: Core, send: Callable[[Event], object], namespace: str, every: float
    ) -> None:
        self._core, self._send, self._namespace, self._every = core, send, namespace, every
        self._told: dict[str, float] = {}  # when each view was told of last
        self._rows: dict[str, int] = {}  # that changed since

    def take(self, commit: Commit) -> None:
        """Tell of the views that a commit changed, if it is time."""
        now = time.monotonic()
        for name, rows in commit.views.items():
            self._rows[name] = self._rows.get(name, 0) + rows
            if now - self._told.get(name, -1e18) >= self._every:
                self._told[name] = now
                for event in self._events(name, commit, self._rows.pop(name)):
                    self._send(event)

    def _events(self, name: str, commit: Commit, rows: int) -> Iterator[Event]:
        with self._core.lock:
            entry = self._core.catalog.get(name)
            if not isinstance(entry, ViewEntry):
                return
            inputs = [self._dataset(each) for each in sorted(entry.reads)]
            output = self._dataset(name)
            sql = entry.sql
        output["outputFacets"] = {
            "outputStatistics": {**_facet("OutputStatisticsOutputDatasetFacet"), "rowCount": rows}
        }
        job = {
            "namespace": self._namespace,
            "name": name,
            "facets": {"sql": {**_facet("SQLJobFacet"), "query": sql}},
        }
        run = {"runId": str(uuid.uuid4())}
        end = commit.start_ns + int(commit.seconds * 1e9)
        for kind, at in (("START", commit.start_ns), ("COMPLETE", end)):
            yield {
                "eventType": kind, "eventTime": moment(at), "run": run, "job": job,
                "inputs": inputs, "outputs": [output], "producer": _PRODUCER, "schemaURL": _SCHEMA,
            }  # fmt: skip

    def _dataset(self, name: str) -> Event:
        entry = self._core.catalog.get(name)
        if isinstance(entry, TableEntry):
            shown, schema = entry.name, entry.table.schema
        elif isinstance(entry, ViewEntry):
            shown, schema = entry.name, entry.schema
        else:
            return {"namespace": self._namespace, "name": name}
        fields = [{"name": each.name, "type": str(each.type)} for each in schema]
        facets = {"schema": {**_facet("SchemaDatasetFacet"), "fields": fields}}
        return {"namespace": self._namespace, "name": shown, "facets": facets}


def _facet(name: str) -> Event:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/facets/1-0-0/{name}.json"}
