"""Which sinks have got every change of their views so far.

takes  the sinks of a run, each with the version at which its view was created, and a number that
       stands for its definition
does   keeps them in a table of the mill, written once at the start of a run

A sink that is not in the table, or is there with an older view, has missed changes: the pipeline
ran without it, or its view was dropped or defined otherwise. A view that was made again with the
same definition, and no run in between, shows what it showed: a start that was refused made another
one for a moment.
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
    """The sinks that the last run had."""

    def __init__(self, mill: Mill) -> None:
        self._mill = mill
        if TABLE not in mill:
            mill.sql(_CREATE)
        self._known: dict[str, int] = dict(mill.sql(f"SELECT name, created FROM {TABLE}").rows())

    def has_all(self, sink: str, created: int) -> bool:
        """Whether a sink has got every change of the view that was created at this version."""
        return self._known.get(sink) == created

    def is_defined_as(self, sink: str, definition: int) -> bool:
        """Whether the last run had the sink over a view of this definition."""
        return self._known.get(_DEFINITION + sink) == definition

    def note(self, created: Mapping[str, int], definitions: Mapping[str, int]) -> None:
        """From now on these sinks get every change, and no others do."""
        sinks = {**created, **{_DEFINITION + name: each for name, each in definitions.items()}}
        if sinks == self._known:
            return
        with self._mill.batch():
            self._mill.delete(TABLE, list(self._known.items()))
            self._mill.insert(TABLE, list(sinks.items()))
        self._known = dict(sinks)
