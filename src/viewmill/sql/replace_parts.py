"""Replace parts of an expression, keeping what is said about nulls true.

takes  an expression, a function that finds replacements
gives  the expression rebuilt; a part that became nullable makes the whole nullable
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viewmill.algebra.expressions import Call, Case, Cast, Expression, parts
from viewmill.algebra.walk import map_parts

Find = Callable[[Expression], Expression | None]


def replace_parts(expression: Expression, find: Find) -> Expression:
    """Replace each outermost part for which `find` has an answer."""
    found = find(expression)
    if found is not None:
        return found
    rebuilt = map_parts(expression, lambda part: replace_parts(part, find))
    if isinstance(rebuilt, Call | Cast | Case) and not rebuilt.nullable:
        # The keys of ROLLUP become nullable, and then so does what is computed from them.
        pairs = zip(parts(expression), parts(rebuilt), strict=True)
        if any(after.nullable and not before.nullable for before, after in pairs):
            return replace(rebuilt, nullable=True)
    return rebuilt
