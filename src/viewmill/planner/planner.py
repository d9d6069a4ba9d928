"""Ask every strategy, compare what they offer, choose.

takes  a rewritten relation, statistics, and what the user asked for
gives  `Plan`
next   mill (which builds the programs)

A strategy may take the whole query. If none does that keeps up incrementally, the query is freed of
its subqueries and cut into blocks; if a part is left that none takes, the view is recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Relation, Sort
from viewmill.algebra.walk import scans
from viewmill.codegen.by_row import compute_by_row
from viewmill.errors import InvalidArgument, UnsupportedQuery, nearest
from viewmill.planner.blocks import Cut, NotCut, cut_blocks
from viewmill.planner.moved_rows import met_rows, moved_rows
from viewmill.planner.nested_filters import NestedFilters
from viewmill.planner.plan import Plan, PlannedBlock, total_cost
from viewmill.rewrite.distinct_by_first import distinct_by_first
from viewmill.rewrite.laterals_as_joins import lateral_in
from viewmill.rewrite.rules import decorrelate
from viewmill.rewrite.spread_values import spread_values
from viewmill.rewrite.subqueries_as_joins import fails_inside
from viewmill.rewrite.values_beside import values_beside
from viewmill.strategies.aggregate_index.strategy import AggregateIndex, has_nested
from viewmill.strategies.dataflow.strategy import Dataflow
from viewmill.strategies.recompute.strategy import Recompute
from viewmill.strategies.shared_window.strategy import SharedWindow
from viewmill.strategies.strategy import Candidate, Rejection, Statistics, Strategy
from viewmill.strategies.temporal_view.strategy import TemporalView
from viewmill.strategies.view_tree.strategy import ViewTree

STRATEGIES: tuple[Strategy, ...] = (
    Dataflow(),
    ViewTree(),
    AggregateIndex(),
    SharedWindow(),
    TemporalView(),
    Recompute(),
)
# Those that read a scan as what it is when it has a window.
WINDOWED = ("shared_window", "temporal_view", "recompute")

# A row that a changed aggregate is compared with by a join, measured on two cores.
_MEET_US = 0.03

# How much more an index may cost than joins, which may meet more rows than was guessed.
_MUCH = 1.5

# A refresh is judged at this many changed rows: small against any table worth maintaining.
_TYPICAL_CHANGE = 1000
# Small tables change by this share of their rows at a time: so much more often is all computed
# again until as many have changed.
_TYPICAL_SHARE = 0.01
_LEAST_CHANGE = 10
# An empty table is there to be filled: whether a view over it is worth maintaining is judged as if
# it had this many rows. Computing nothing again is cheap only as long as there is nothing.
_EXPECTED = 10_000


@dataclass(frozen=True)
class Wish:
    """What the CREATE statement says about the way of maintenance."""

    refresh_policy: OneOf["auto", "incremental", "incremental_strict", "full"] = "auto"
    strategy: str | None = None
    hints: Hints = field(default_factory=Hints)
    result: OneOf["listed", "factorized"] = "listed"
    in_triggers: bool = False  # only what compiles to triggers, as shards run


def plan(view: str, query: Relation, statistics: Statistics, wish: Wish | None = None) -> Plan:
    """The cheapest way that the wish allows."""
    wish = _checked(wish or Wish())
    if wish.result == "factorized" or wish.hints.dense:
        return _plan_unlisted(view, query, statistics, wish)
    candidates, rejections = _ask(query, statistics, wish)
    lasting = [each for each in rejections if each.is_lasting]
    if wish.strategy in {each.strategy for each in lasting}:
        raise _nothing_allowed(view, wish, lasting)
    ways = [[Cut(view, query, (each,), tuple(rejections))] for each in candidates]
    rows, often = _judged_rows(query, statistics), _batches(query, statistics)
    if min(ways, key=lambda way: _cost(way, rows, often))[0].candidates[0].is_linear:
        try:
            ways += _cut(view, query, statistics, wish)
        except NotCut as no:
            rejections = _more_exact(rejections, no.rejections)
    if wish.strategy is not None and not any(_is_allowed(way, wish) for way in ways):
        with suppress(NotCut):
            ways += _cut(view, query, statistics, wish, alone=True)
    allowed = _without_pairs([way for way in ways if _is_allowed(way, wish)])
    if not allowed:
        raise _nothing_allowed(view, wish, rejections)
    best = min(allowed, key=lambda way: _cost(way, rows, often))
    blocks = tuple(_planned(each, is_last=each is best[-1]) for each in best)
    used = {id(cut.candidates[0]) for cut in best}
    others = tuple(each for each in candidates if id(each) not in used)
    if len(best) > 1:
        rejections = lasting  # others of the whole query are no news: it was cut
    return Plan(view, query, blocks, others, tuple(rejections), _reason(best, allowed, wish, rows))


def _plan_unlisted(view: str, query: Relation, statistics: Statistics, wish: Wish) -> Plan:
    """A view tree whose views, or arrays, are the result: nothing else keeps one."""
    asked = "RESULT FACTORIZED" if wish.result == "factorized" else "the hint DENSE"
    if wish.strategy not in (None, "view_tree") or wish.refresh_policy == "full":
        other = f"STRATEGY {wish.strategy}" if wish.strategy else "REFRESH POLICY FULL"
        raise UnsupportedQuery(
            f"{asked} does not go with {other}",
            detail="The views of a view tree are the result.",
        )
    if wish.result == "factorized" and wish.hints.dense:
        raise UnsupportedQuery("RESULT FACTORIZED does not go with the hint DENSE")
    answer: Candidate | Rejection
    if isinstance(query, Sort):
        answer = Rejection("view_tree", "ORDER BY: rows come as they are kept", query.span)
    elif any(scan.window for scan in scans(query)):
        answer = Rejection("view_tree", "it knows no windows on tables")
    else:
        factorized = wish.result == "factorized"
        answer = ViewTree(wish.hints, factorized=factorized).match(query, statistics)
    if isinstance(answer, Rejection):
        form = "factorized" if wish.result == "factorized" else "as arrays"
        raise UnsupportedQuery(
            f'the result of view "{view}" cannot be kept {form}',
            detail=answer.reason,
            hint=_UNLISTED[form],
            span=answer.span,
        )
    blocks = (_planned(Cut(view, query, (answer,), ()), is_last=True),)
    return Plan(view, query, blocks, (), (), f"{asked} was asked for")


_UNLISTED = {
    "factorized": "It takes inner joins on equality, filters of one table, and columns of them; "
    "RESULT LISTED takes everything.",
    "as arrays": "It takes SUM(A1.P * A2.P * ...) over tables of two NOT NULL keys and a DOUBLE, "
    "grouped by both ends of the chain; without the hint every query is taken.",
}


def _ask(
    query: Relation, statistics: Statistics, wish: Wish
) -> tuple[list[Candidate], list[Rejection]]:
    windowed = any(scan.window for scan in scans(query))
    lateral = lateral_in(query)
    answers: list[Candidate | Rejection] = []
    for strategy in STRATEGIES:
        if lateral is not None and strategy.name != "recompute":
            why = "LATERAL over a subquery of a form that is no join"
            answers.append(Rejection(strategy.name, why, lateral.span))
        elif wish.in_triggers and strategy.name == "shared_window":
            answers.append(Rejection(strategy.name, "it works on the driver's tables"))
        elif windowed and strategy.name not in WINDOWED:
            answers.append(Rejection(strategy.name, "it knows no windows on tables"))
        elif strategy.name == "view_tree":
            answers.append(ViewTree(wish.hints).match(query, statistics))
        elif strategy.name == "shared_window":
            answers.append(SharedWindow(wish.hints).match(query, statistics))
        else:
            answers.append(strategy.match(query, statistics))
    candidates = [each for each in answers if isinstance(each, Candidate)]
    return candidates, [each for each in answers if isinstance(each, Rejection)]


def _cut(
    view: str, query: Relation, statistics: Statistics, wish: Wish, *, alone: bool = False
) -> list[list[Cut]]:
    """The query in blocks, each with its cheapest incremental candidate first.

    With `alone` only the strategy that was asked for takes blocks. Subqueries become joins, or
    (another way) nested aggregates stay for the index that knows them.
    """
    if wish.strategy == "recompute" or wish.refresh_policy == "full":
        return []
    ways, no = list[list[Cut]](), None
    # As a join, a subquery is evaluated for rows that no row outside asks about.
    stays = statistics.careful and fails_inside(query)
    joined = query if stays else decorrelate(query)
    forms = [(joined, list[tuple[str, Relation]]())]
    filters = NestedFilters(view)
    if (left := lateral_in(joined)) is not None:
        raise NotCut(left, _ask(left, statistics, wish)[1])
    if lateral_in(query) is not None:
        query = joined
    rest = filters.take_out(query)
    if filters.blocks:
        forms.append((rest, filters.blocks))
    if has_nested(query) and joined != query:
        forms.append((values_beside(distinct_by_first(query)), []))
    for form, ahead in forms:
        # Windows that are put together from panes first; then a row is written for each window.
        for spread in dict.fromkeys([form, spread_values(form)]):
            try:
                cuts = cut_blocks(
                    view,
                    compute_by_row(spread),
                    lambda part: _ask_worthy(part, statistics, wish, alone=alone),
                    ahead,
                    careful=statistics.careful,
                )
            except NotCut as reason:
                no = no or reason
                continue
            ways.append([replace(cut, candidates=_best_first(cut, wish)) for cut in cuts])
            break
    if no is not None and not ways:
        raise no
    if len(ways) > 1:  # joins against an index by key
        ways[0] = _with_moved(ways[0], moved_rows(query, statistics))
        ways[0] = _with_met(ways[0], met_rows(query, statistics))
    steady = [way for way in ways if not any(cut.candidates[0].is_linear for cut in way)]
    return _without_guesses(steady, joins=ways[0]) if steady and len(ways) > 1 else steady or ways


def _without_guesses(ways: list[list[Cut]], joins: list[Cut]) -> list[list[Cut]]:
    """The ways without the one by joins, unless an index is much dearer.

    What a changed aggregate meets is known of an index; of joins it hangs on rows not yet seen.
    """
    others = [way for way in ways if way is not joins]
    best = min((_way_cost(way) for way in others), default=float("inf"))
    return others if best <= _MUCH * _way_cost(joins) else ways


def _with_moved(way: list[Cut], rows: float) -> list[Cut]:
    """The way by joins with what it costs to meet the rows of a key whose aggregate changed."""
    if rows <= 1:
        return way
    last = way[-1].candidates[0]
    cost = replace(last.cost, row_us=last.cost.row_us + _MEET_US * rows)
    said = f"a changed row changes the aggregate of its key, which is joined with {rows:.0f} rows"
    dearer = replace(last, cost=cost, notes=(*last.notes, said))
    return [*way[:-1], replace(way[-1], candidates=(dearer, *way[-1].candidates[1:]))]


def _with_met(way: list[Cut], rows: float) -> list[Cut]:
    """The way by joins with what it costs to meet all rows because one aggregate changed."""
    if rows == 0:
        return way
    last = way[-1].candidates[0]
    cost = replace(last.cost, refresh_us=last.cost.refresh_us + _MEET_US * rows)
    said = f"an aggregate that is the same for all is joined with {rows:.0f} rows"
    dearer = replace(last, cost=cost, notes=(*last.notes, said))
    return [*way[:-1], replace(way[-1], candidates=(dearer, *way[-1].candidates[1:]))]


def _without_pairs(ways: list[list[Cut]]) -> list[list[Cut]]:
    """The ways without those that join ranges of rows, if another one is incremental.

    What a subquery compares by an inequality is n rows for each row outside when it is a join.
    """
    kept = [
        way
        for way in ways
        if not any(
            c.candidates[0].is_linear and c.candidates[0].strategy == "dataflow" for c in way
        )
    ]
    others = [way for way in kept if way[0].candidates[0].strategy != "recompute"]
    return kept if others else ways


def _ask_worthy(
    part: Relation, statistics: Statistics, wish: Wish, *, alone: bool
) -> tuple[list[Candidate], list[Rejection]]:
    """The incremental candidates for a part that cost less than computing it again."""
    candidates, rejections = _ask(part, statistics, wish)
    own = [each for each in candidates if each.strategy != "recompute"]
    own = [each for each in own if not alone or each.strategy == wish.strategy]
    again = [each for each in candidates if each.strategy == "recompute"]
    limit = min((_candidate_cost(each) for each in again), default=float("inf"))
    limit *= _batches(part, statistics)
    worthy = [e for e in own if _candidate_cost(e) < limit or e.strategy == wish.strategy]
    dear = [Rejection(e.strategy, "it costs more than recompute") for e in own if e not in worthy]
    return worthy, [*rejections, *dear]


def _best_first(cut: Cut, wish: Wish) -> tuple[Candidate, ...]:
    order = sorted(cut.candidates, key=_candidate_cost)
    return tuple(sorted(order, key=lambda each: each.strategy != wish.strategy))


def _candidate_cost(candidate: Candidate) -> float:
    return candidate.cost.total_us(_TYPICAL_CHANGE)


def _way_cost(way: list[Cut]) -> float:
    return total_cost([cut.candidates[0] for cut in way]).total_us(_TYPICAL_CHANGE)


def _cost(way: list[Cut], rows: int, often: float) -> float:
    chosen = [cut.candidates[0] for cut in way]
    cost = total_cost(chosen).total_us(rows)
    # Rounded: how costs happen to be added must not decide between equal ones.
    return round(cost * often if any(e.strategy == "recompute" for e in chosen) else cost, 3)


def _batches(query: Relation, statistics: Statistics) -> float:
    """In how many batches a typical number of changed rows comes."""
    read = scans(query)
    rows = max((statistics.rows.get(each.source, 0) for each in read), default=0)
    if any(each.window for each in read):
        return 1.0
    rows = rows or _EXPECTED
    return max(1.0, _TYPICAL_CHANGE / max(_LEAST_CHANGE, rows * _TYPICAL_SHARE))


def _judged_rows(query: Relation, statistics: Statistics) -> int:
    """How many rows a refresh is judged at: of a window over time parts, those of a part."""
    found = (statistics.parts.get(scan.source) for scan in scans(query) if scan.window)
    rows = next((each.rows for each in found if each is not None), None)
    return _TYPICAL_CHANGE if rows is None else rows


def _planned(cut: Cut, *, is_last: bool) -> PlannedBlock:
    chosen, *others = cut.candidates
    # Nobody reads an inner block but the next one: what it shows need not be kept.
    chosen = replace(chosen, passing=not is_last)
    strategy = next(each for each in STRATEGIES if each.name == chosen.strategy)
    program = strategy.emit(chosen, cut.name)
    return PlannedBlock(cut.name, cut.query, chosen, tuple(others), cut.rejections, program)


def _more_exact(whole: Sequence[Rejection], part: Sequence[Rejection]) -> list[Rejection]:
    """What is said about the part in the way, where a strategy was asked about it."""
    by_name = {each.strategy: each for each in part}
    return [by_name.get(each.strategy, each) for each in whole]


def _checked(wish: Wish) -> Wish:
    """The wish, if it can be fulfilled at all: a variable order is a wish for a view tree."""
    names = [strategy.name for strategy in STRATEGIES]
    if wish.strategy is not None and wish.strategy not in names:
        raise InvalidArgument(f'no strategy "{wish.strategy}"', hint=nearest(wish.strategy, names))
    if not wish.hints.order:
        return wish
    if wish.strategy not in (None, "view_tree") or wish.refresh_policy == "full":
        raise InvalidArgument(
            "VARIABLE_ORDER is a hint for STRATEGY view_tree",
            detail="The view was asked for in another way.",
            span=wish.hints.span,
        )
    return replace(wish, strategy="view_tree")


def _is_allowed(way: list[Cut], wish: Wish) -> bool:
    names = {cut.candidates[0].strategy for cut in way}
    if wish.strategy is not None:
        return wish.strategy in names
    if wish.refresh_policy == "full":
        return names == {"recompute"}
    if wish.refresh_policy == "incremental_strict":
        return "recompute" not in names
    return True


def _nothing_allowed(view: str, wish: Wish, rejections: Sequence[Rejection]) -> UnsupportedQuery:
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


def _reason(way: list[Cut], allowed: list[list[Cut]], wish: Wish, rows: int) -> str:
    blocks = f"cut into {len(way)} blocks: " if len(way) > 1 else ""
    if wish.hints.order:
        return f"{blocks}the hint VARIABLE_ORDER asks for a view tree"
    if wish.strategy is not None:
        return f"{blocks}STRATEGY {wish.strategy} was asked for"
    if wish.refresh_policy == "full":
        return "REFRESH POLICY FULL was asked for"
    if len(allowed) == 1:
        return f"{blocks}the only strategy that takes this query"
    where = ", as many as a time part has" if rows != _TYPICAL_CHANGE else ""
    return f"{blocks}the cheapest at {rows} changed rows per refresh{where}"
