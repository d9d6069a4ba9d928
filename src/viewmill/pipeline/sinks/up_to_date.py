"""Which sinks have received every change of their views so far.

takes  the sinks of a run, each with the version at which its view was created, and a hash of the
       view's definition
does   keeps them in a table of the mill, written once at the start of a run

A sink that is not in the table, or that is there with an older view, has missed changes: the
pipeline ran without it, or its view was dropped or redefined. A view that was recreated with the
same definition and without a run in between has the same rows: a refused start replaced it for a
moment.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewmill.mill.mill import Mill

TABLE = "_viewmill_sinks"
_CREATE = (
    f"CREATE TABLE {TABLE} (name STRING NOT NULL, created BIGINT NOT NULL, PRIMARY KEY (name))"
)

_DEFINITION = "definition for "


class UpToDateSinks:
    """The sinks of the last run, which received all its changes."""

    def __init__(self, mill: Mill) -> None:
        self._mill = mill
        if TABLE not in mill:
            mill.sql(_CREATE)
        self._known: dict[str, int] = dict(mill.sql(f"SELECT name, created FROM {TABLE}").rows())

    def has_all(self, sink: str, created: int) -> bool:
        """Whether a sink has received every change of the view created at this version."""
        return self._known.get(sink) == created

    def is_defined_as(self, sink: str, definition: int) -> bool:
        """Whether the last run had the sink over a view of this definition."""
        return self._known.get(_DEFINITION + sink) == definition

    def note(self, created: Mapping[str, int], definitions: Mapping[str, int]) -> None:
        """Record that exactly these sinks receive every change from now on."""
        sinks = {**created, **{_DEFINITION + name: each for name, each in definitions.items()}}
        if sinks == self._known:
            return
        with self._mill.batch():
            self._mill.delete(TABLE, list(self._known.items()))
            self._mill.insert(TABLE, list(sinks.items()))
        self._known = dict(sinks)
