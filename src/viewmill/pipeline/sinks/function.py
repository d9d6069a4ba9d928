"""The changes handed to a function: at least once, in order, each with its version.

A crash between the call and the note that it was made repeats the call with the same version.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.feather as feather

from viewmill.algebra.schema import Field, Schema
from viewmill.deltas.arrow import from_arrow_type
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.rows import to_delta
from viewmill.mill.changes import Change
from viewmill.mill.storage import disk
from viewmill.pipeline.sinks.change_sink import ChangeSink, Delivery, write_feather
from viewmill.sinks.sink import MULTIPLICITY


def function_sink(view: str, fn: Callable[[Change], object], outbox: Path) -> ChangeSink:
    """Call `fn(change)` for every version that changed the view."""

    def deliver(file: Path, version: int) -> None:
        fn(_read_change(view, version, file))
        disk.remove(file)

    return ChangeSink(f"function {outbox.name}", outbox, Delivery(write_feather, deliver))


def _read_change(view: str, version: int, file: Path) -> Change:
    rows, dictionary = feather.read_table(str(file)), Dictionary()
    fields = [each for each in rows.schema if each.name != MULTIPLICITY]
    schema = Schema(tuple(Field(each.name, from_arrow_type(each.type)) for each in fields))
    delta = to_delta(rows, schema, dictionary, multiplicity=MULTIPLICITY)
    return Change(view, version, delta, dictionary)
