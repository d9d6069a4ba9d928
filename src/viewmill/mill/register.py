"""Register Python aggregates of users for SQL.

takes  a name and a ring, or an operation for windows
does   tries the laws on samples, and puts it into the catalog
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from viewmill.algebra.operations import Operation
from viewmill.algebra.relations import Aggregate
from viewmill.algebra.ring_laws import broken_law, commutes
from viewmill.algebra.rings import Ring
from viewmill.algebra.walk import walk_relations
from viewmill.errors import InvalidArgument, NameInUse
from viewmill.mill.core import Core
from viewmill.sql import aggregates, functions
from viewmill.sql.catalog import RegisteredRing
from viewmill.sql.dialect import names_function
from viewmill.sql.lower_time_windows import WINDOW


def _register_ring(core: Core, name: str, ring: Ring) -> None:
    broken = _tried(name, lambda: broken_law(ring))
    if broken is not None:
        raise InvalidArgument(
            f"{name} is no ring: {broken.split(' does not hold')[0]} does not hold",
            detail=broken,
            hint="A sum that rows enter and leave needs all laws; MAX, for one, has no negation.",
        )
    core.catalog.rings[name.lower()] = RegisteredRing(name, ring, commutes(ring))


def _register_operation(core: Core, name: str, operation: Operation) -> None:
    """Register an operation for windows; its constructor has checked its laws."""
    known = replace(operation, name=operation.name or name)
    core.catalog.rings[name.lower()] = RegisteredRing(name, known, operation.commutative)


def _tried(name: str, work: Callable[[], Any]) -> Any:
    try:
        return work()
    except InvalidArgument:
        raise
    except Exception as why:
        raise InvalidArgument(
            f"the functions of {name} failed on a sample",
            detail=f"{type(why).__name__}: {why}",
            hint="add and multiply take two payloads, negate one, lift a number.",
        ) from why


# What can be registered, and how. A new kind of aggregate is a line here.
KINDS: dict[type, Callable[[Core, str, Any], None]] = {
    Ring: _register_ring,
    Operation: _register_operation,
}


def register_aggregate(core: Core, name: str, aggregate: object) -> None:
    """Register a user's aggregate under a name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidArgument(f"{name!r} is no name for an aggregate")
    known = {*functions.function_names(), WINDOW}
    if aggregates.is_aggregate(name) or name.lower() in known:
        raise NameInUse(f"{name} is a function of SQL", hint="Choose another name.")
    if not names_function(name):
        raise NameInUse(
            f"{name} has a meaning of its own in SQL, so {name}(x) would not be read as a call",
            hint=f"Choose another name: my_{name}, for one.",
        )
    take = KINDS.get(type(aggregate))
    if take is None:
        kinds = " or ".join(sorted(f"vm.{each.__name__}" for each in KINDS))
        raise InvalidArgument(f"{type(aggregate).__name__} cannot be registered; it takes {kinds}")
    _refuse_change(core, name, aggregate)
    take(core, name, aggregate)


def _refuse_change(core: Core, name: str, aggregate: object) -> None:
    """Raise if a view uses another aggregate that is registered under this name."""
    known = core.catalog.rings.get(name.lower())
    if known is None or known.ring == aggregate:
        return
    for entry in core.catalog.views():
        for relation in walk_relations(entry.query):
            calls = relation.aggregates if isinstance(relation, Aggregate) else ()
            if any(call.function.lower() == name.lower() for _, call in calls):
                raise NameInUse(
                    f'{name} is another {_kind(known.ring)}, and view "{entry.name}" uses it',
                    hint=f"Drop {entry.name} first, or choose another name.",
                )


def _kind(aggregate: Ring | Operation) -> str:
    return "ring" if isinstance(aggregate, Ring) else "operation"
