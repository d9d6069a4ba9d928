"""The techniques of final aggregation: what each needs, and what it can do.

takes  the aggregates of a query, or what a lane of views offers
gives  the techniques that apply, and the reason why another does not
"""

from __future__ import annotations

from collections.abc import Sequence

from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.types import Decimal, Integer
from viewmill.codegen.window_shape import operation_of
from viewmill.errors import InvalidArgument, Span, nearest
from viewmill.strategies.shared_window.cost import STORED

TECHNIQUES = tuple(STORED)
NEEDS = {"slickdeque_inv": "inverse", "panes_inv": "inverse", "slickdeque_noninv": "selective"}
# Techniques that keep one window; the others answer all windows of a tree.
FOR_ONE = ("panes_inv", "twostacks", "daba")
_ANY = "naive, flatfat, bint, flatfit, twostacks and daba take any associative operation."


def applicable(offers: frozenset[str]) -> list[str]:
    """The techniques that the planner may choose where there is this to choose from."""
    usable = offers - {"inverse"} if "float_inverse" in offers else offers
    return [each for each in TECHNIQUES if NEEDS.get(each, "") in ("", *usable)]


def why_not(offers: frozenset[str]) -> list[str]:
    """Why the planner does not consider the remaining techniques."""
    said = []
    if "float_inverse" in offers:
        said.append("the inverse is not used: it would lose digits of floats")
    elif "inverse" not in offers:
        said.append(
            "slickdeque_inv and panes_inv do not apply: not all that is kept has an inverse"
        )
    if "selective" not in offers:
        said.append("slickdeque_noninv does not apply: what is kept does not choose one of two")
    return said


def offered(calls: Sequence[AggregateCall]) -> str:
    """What all these aggregates have: "inverse"; "selective", where some are and the rest have an
    inverse; or nothing."""
    others = [call for call in calls if not _has_inverse(call)]
    if not others:
        return "inverse"
    return "selective" if all(map(_is_selective, others)) else ""


def check_technique(
    technique: str, calls: Sequence[AggregateCall], span: Span | None, *, every: bool = False
) -> None:
    """Refuse a technique that these aggregates cannot use, or that cannot answer every window."""
    if technique not in TECHNIQUES:
        raise InvalidArgument(
            f"there is no technique {technique!r} for windows in SQL",
            hint=f"{nearest(technique, TECHNIQUES) or ''} One of {', '.join(TECHNIQUES)}.".strip(),
            span=span,
        )
    if every and technique in FOR_ONE:
        raise InvalidArgument(
            f"{technique} keeps one range only, and GROUP BY window asks for many",
            hint="naive, flatfat, bint and flatfit take any associative operation.",
            span=span,
        )
    need = NEEDS.get(technique)
    if need == "inverse":
        without = next((call for call in calls if not _has_inverse(call)), None)
        if without is not None:
            raise InvalidArgument(
                f"{technique} needs an inverse, which {without.function} does not have",
                detail="Floats have none either: what is subtracted is not what was added.",
                hint=_ANY,
                span=span,
            )
    if need == "selective":
        counts = [call for call in calls if call.function == "count"]
        without = next((c for c in calls if not _is_selective(c) and c not in counts), None)
        if without is None and len(counts) == len(calls):
            without = calls[0] if calls else None
        if without is not None or not calls:
            name = "a query without aggregates" if without is None else without.function
            raise InvalidArgument(
                f"{technique} needs a selective operation, which {name} is not",
                detail="It keeps the values that may still be chosen: of two, always one.",
                hint=_ANY,
                span=span,
            )


def _has_inverse(call: AggregateCall) -> bool:
    own = operation_of(call)
    if own is not None and own.operation is not None:
        return own.operation.has("inverse")
    if call.function == "count":
        return True
    whole = call.function in ("sum", "avg")
    return whole and isinstance(call.arguments[0].type, Integer | Decimal)


def _is_selective(call: AggregateCall) -> bool:
    own = operation_of(call)
    if own is not None and own.operation is not None:
        return own.operation.has("selective")
    chosen = ("min", "max", "min_by", "max_by", "first", "last", "any_value")
    return call.function in chosen
