"""The aggregate functions that are declared in one place: each file here names some of them.

A new file is found by itself. `AGGREGATES` in it is a tuple of `AggregateFunction`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from viewmill.algebra.aggregates.declaration import AggregateFunction, Linear, Moments
from viewmill.algebra.expressions import Aggregate
from viewmill.algebra.types import Integer

__all__ = [
    "DECLARED",
    "AggregateFunction",
    "Linear",
    "Moments",
    "is_count",
    "linear_parts",
    "moments_of",
]


def _declared() -> dict[str, AggregateFunction]:
    modules = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
    functions = [each for module in modules for each in getattr(module, "AGGREGATES", ())]
    return {each.name: each for each in functions}


DECLARED = _declared()


def linear_parts(call: Aggregate) -> Linear | None:
    """The counts and sums that make a call, None if there are none.

    Those of different values do not add up over groups of rows.
    """
    function = DECLARED.get(call.function)
    if function is None or function.linear is None or call.distinct:
        return None
    return function.linear(call)


def is_count(call: Aggregate) -> bool:
    """Whether an aggregate of no rows is 0; it is NULL of all others that show one number."""
    return isinstance(call.type, Integer) and not call.nullable


def moments_of(function: str) -> Moments | None:
    """What a function makes of moments, None if it is of another kind."""
    return DECLARED[function].moments if function in DECLARED else None
