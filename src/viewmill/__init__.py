"""Viewmill keeps SQL views fresh at the cost of the change, not the cost of the data.

The life of a view, and the room of each step:

1.  `sql.parse` cuts a statement's head on tokens and parses its query.
2.  `sql.lower` turns the query into algebra: typed relations and expressions, with Spark's meaning.
3.  `rewrite` makes the algebra simpler, rule by rule.
4.  `strategies` each offer a candidate or say why they cannot; `planner` chooses and can explain.
5.  The chosen strategy emits a `program`: states with definitions, and triggers as Python source.
6.  `kernels` compile the triggers against their structures (or `engines` run the query again).
7.  `mill` fills the states in bulk through the engine, and the view is there.
8.  Rows come in: `deltas` makes them columns of words with multiplicity, and a table checks them.
9.  `runtime` applies the delta block by block; each block hands out the change of its view.
10. The mill appends the change to its store, which is the commit point, and publishes the version.
11. Readers see the new rows; subscribers get the change.
"""

from __future__ import annotations

import os
import pkgutil
from typing import TYPE_CHECKING, Any

from viewmill import errors
from viewmill.errors import ViewmillError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viewmill.algebra.operations import Operation as Operation
    from viewmill.algebra.rings import Ring as Ring
    from viewmill.algebra.user_functions import Function as Function

    # As names of this package, also for type checkers.
    from viewmill.deltas.factorize import factorize as factorize
    from viewmill.mill.changes import Change as Change
    from viewmill.mill.mill import Mill as Mill
    from viewmill.mill.readers import Result as Result
    from viewmill.mill.verify import Difference as Difference
    from viewmill.mill.view import View as View
    from viewmill.pipeline.pipeline import Pipeline as Pipeline

__version__ = "0.1.0"

# Names that cost an import are imported when they are first used.
_LAZY = {
    "Mill": "viewmill.mill.mill:Mill",
    "View": "viewmill.mill.view:View",
    "Change": "viewmill.mill.changes:Change",
    "Difference": "viewmill.mill.verify:Difference",
    "Result": "viewmill.mill.readers:Result",
    "Pipeline": "viewmill.pipeline.pipeline:Pipeline",
    "factorize": "viewmill.deltas.factorize:factorize",
    "models": "viewmill.models",
    "Function": "viewmill.algebra.user_functions:Function",
    "Operation": "viewmill.algebra.operations:Operation",
    "Ring": "viewmill.algebra.rings:Ring",
    "sinks": "viewmill.sinks",
    "sources": "viewmill.sources",
    "spark": "viewmill.pipeline.spark",
}


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    spark: Any = None,
    memory: str | int | None = None,
    selection: str = "dynamic",
    register: Mapping[str, Ring | Operation | Function] | None = None,
    compile: str | None = None,
    read_only: bool = False,
    safe: bool = False,
    clock: Any = None,
    kernels: str | os.PathLike[str] | None = None,
) -> Mill:
    """Open a mill: in memory, or durable in the directory `path`.

    With a Spark session, bulk work (filling, recomputing, any SELECT) is Spark's.
    `memory="512 MB"` is a budget for the states of all views together; what is kept in it is
    selected by a dynamic program, or, to compare, by selection="recycler", "rebatch" (nothing is
    kept) or "everything" (all states, if they fit). `register={"name": ring}` gives a durable mill
    the rings, operations and functions that its views use.

    A new view is interpreted until a helper process has compiled its kernels, which is what
    `compile="background"`, the default, means. `compile="now"` waits for the compiler instead,
    `compile="off"` never compiles. `kernels="kernels.zip"` adds what `viewmill warm --export` has
    packed on a machine like this one, so that nothing in it is compiled again.

    `read_only=True` opens a durable mill that another process may be writing, as it is now; opening
    it again shows what came since.

    `safe=True` is for SQL that others write: it reads and changes the tables and views of the mill,
    and cannot read or write files, attach databases, load extensions, set options of the engine or
    use Spark. `mill.serve` does not need it: its clients only read.

    `clock` gives the time that `now()` means: a function that gives a datetime (UTC), or a datetime
    from which only `mill.advance(to=...)` moves on. Without it, it is the time of day.
    """
    if kernels is not None:
        pkgutil.resolve_name("viewmill.kernels.packed:add_kernels")(kernels)
    mill: Mill = pkgutil.resolve_name(_LAZY["Mill"])(
        path,
        spark=spark,
        memory=memory,
        selection=selection,
        register=register,
        compile=compile,
        read_only=read_only,
        safe=safe,
        clock=clock,
    )
    return mill


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return pkgutil.resolve_name(_LAZY[name])
    if hasattr(errors, name):
        return getattr(errors, name)
    raise AttributeError(f"module 'viewmill' has no attribute {name!r}")


__all__ = ["ViewmillError", "connect", "errors"]
