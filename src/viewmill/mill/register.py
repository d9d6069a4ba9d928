"""Register Python aggregates and functions of users for SQL.

takes  a name and a ring, an operation for windows, or a function
does   tries the laws on samples, and puts it into the catalog
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.algebra.operations import Operation
from viewmill.algebra.relations import Aggregate
from viewmill.algebra.ring_laws import broken_law, commutes
from viewmill.algebra.rings import Ring
from viewmill.algebra.types import Interval, Nested, Null, Type
from viewmill.algebra.user_functions import Function, UserFunction
from viewmill.algebra.walk import user_calls, walk_relations
from viewmill.errors import InvalidArgument, NameInUse, TypeMismatch, UnknownName
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.program.parts import PartQueries
from viewmill.sql import aggregates, functions
from viewmill.sql.catalog import RegisteredRing
from viewmill.sql.data_types import type_of
from viewmill.sql.dialect import names_function
from viewmill.sql.lower_time_windows import WINDOW
from viewmill.sql.parse_type import SHOWN
from viewmill.sql.spark_functions import SPARK_FUNCTIONS

_TYPES = f"Types: {', '.join(SHOWN)}."


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


def _register_function(core: Core, name: str, function: Function) -> None:
    result = _result_type(function.spelled_type)
    made = UserFunction(name, function.code, result, function.takes, function.is_deterministic)
    known = core.catalog.functions.get(name.lower())
    users = [] if known is None else [v.name for v in core.catalog.views() if _calls(v, known)]
    if known is not None and users:
        if not known.does_the_same(made):
            raise NameInUse(
                f'{name} is another function, and view "{users[0]}" uses it',
                hint=f"Drop {users[0]} first, or choose another name.",
            )
        return
    core.catalog.functions[name.lower()] = made


def _result_type(spelled: str | None) -> Type:
    try:
        type_ = type_of(exp.DataType.build(str(spelled), dialect="databricks"))
    except (SqlglotError, UnknownName, TypeMismatch, ValueError):
        raise InvalidArgument(f"there is no type {spelled!r}", hint=_TYPES) from None
    if isinstance(type_, Nested | Interval | Null):
        raise InvalidArgument(f"a function cannot give a value of type {type_}", hint=_TYPES)
    return type_


def _calls(view: ViewEntry, function: UserFunction) -> bool:
    """Whether a view calls a function; of a temporal view its text says so."""
    if any(call.user is function for call in user_calls(view.query)):
        return True
    return isinstance(view.block.program.body, PartQueries) and bool(
        re.search(rf"\b{re.escape(function.name)}\s*\(", view.sql, re.IGNORECASE)
    )


# What can be registered, and how. A new kind of aggregate is a line here.
KINDS: dict[type, Callable[[Core, str, Any], None]] = {
    Ring: _register_ring,
    Operation: _register_operation,
    Function: _register_function,
}


def register_one(core: Core, name: str, aggregate: object) -> None:
    """Register what a user wrote under a name."""
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidArgument(f"{name!r} is no name for a function")
    known = {*functions.function_names(), WINDOW}
    if isinstance(aggregate, Function):
        known |= SPARK_FUNCTIONS
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
    others = core.catalog.rings if isinstance(aggregate, Function) else core.catalog.functions
    if name.lower() in others:
        raise NameInUse(f"{name} is registered as something else", hint="Choose another name.")
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
