"""Ask every strategy, compare what they offer, choose.

takes  a rewritten relation, statistics, and what the user asked for
gives  `Plan`
next   mill (which builds the program)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.relations import Relation
from viewmill.errors import InvalidArgument, UnsupportedQuery, nearest
from viewmill.planner.plan import Plan
from viewmill.strategies.dataflow.strategy import Dataflow
from viewmill.strategies.recompute.strategy import Recompute
from viewmill.strategies.strategy import Candidate, Rejection, Statistics, Strategy

STRATEGIES: tuple[Strategy, ...] = (Dataflow(), Recompute())

# A refresh is judged at this many changed rows: small against any table worth maintaining.
_TYPICAL_CHANGE = 1000


@dataclass(frozen=True)
class Wish:
    """What the CREATE statement says about the way of maintenance."""

    refresh_policy: OneOf["auto", "incremental", "incremental_strict", "full"] = "auto"
    strategy: str | None = None


def plan(view: str, query: Relation, statistics: Statistics, wish: Wish | None = None) -> Plan:
    """The cheapest candidate that the wish allows."""
    wish = wish or Wish()
    _check_name(wish)
    answers = [strategy.match(query, statistics) for strategy in STRATEGIES]
    candidates = [each for each in answers if isinstance(each, Candidate)]
    rejections = tuple(each for each in answers if isinstance(each, Rejection))
    allowed = [each for each in candidates if _is_allowed(each, wish)]
    if not allowed:
        raise _nothing_allowed(view, wish, rejections)
    chosen = min(allowed, key=lambda each: each.cost.total_us(_TYPICAL_CHANGE))
    others = tuple(each for each in candidates if each is not chosen)
    strategy = next(each for each in STRATEGIES if each.name == chosen.strategy)
    program = strategy.emit(chosen, view)
    return Plan(view, chosen, others, rejections, _reason(chosen, allowed, wish), program)


def _check_name(wish: Wish) -> None:
    names = [strategy.name for strategy in STRATEGIES]
    if wish.strategy is not None and wish.strategy not in names:
        raise InvalidArgument(f'no strategy "{wish.strategy}"', hint=nearest(wish.strategy, names))


def _is_allowed(candidate: Candidate, wish: Wish) -> bool:
    if wish.strategy is not None:
        return candidate.strategy == wish.strategy
    if wish.refresh_policy == "full":
        return candidate.strategy == "recompute"
    if wish.refresh_policy == "incremental_strict":
        return candidate.strategy != "recompute"
    return True


def _nothing_allowed(view: str, wish: Wish, rejections: tuple[Rejection, ...]) -> UnsupportedQuery:
    named = [each for each in rejections if wish.strategy in (None, each.strategy)]
    span = next((each.span for each in named if each.span is not None), None)
    reasons = "; ".join(f"{each.strategy}: {each.reason}" for each in named)
    what = f"with strategy {wish.strategy}" if wish.strategy else "incrementally"
    return UnsupportedQuery(
        f'view "{view}" cannot be maintained {what}',
        detail=reasons,
        hint="REFRESH POLICY AUTO falls back to recompute; EXPLAIN shows every strategy's answer.",
        span=span,
    )


def _reason(chosen: Candidate, allowed: list[Candidate], wish: Wish) -> str:
    if wish.strategy is not None:
        return f"STRATEGY {wish.strategy} was asked for"
    if wish.refresh_policy == "full":
        return "REFRESH POLICY FULL was asked for"
    if len(allowed) == 1:
        return "the only strategy that takes this query"
    return f"the cheapest at {_TYPICAL_CHANGE} changed rows per refresh"
