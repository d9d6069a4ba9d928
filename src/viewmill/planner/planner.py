"""Ask every strategy, compare what they offer, choose.

takes  a rewritten relation, statistics, and what the user asked for
gives  `Plan`
next   mill (which builds the programs)

A strategy may take the whole query. If none maintains it incrementally, subqueries are turned into
joins and the query is cut into blocks; if no strategy takes some block, the view is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from viewmill.algebra.clock import clock_reads, is_timed, wall_clock_reads
from viewmill.algebra.hints import Hints
from viewmill.algebra.relations import Relation, Sort
from viewmill.algebra.walk import scans
from viewmill.errors import InvalidArgument, Span, UnsupportedQuery, nearest
from viewmill.planner.blocks import Cut, NotCut, cut_blocks, prepared
from viewmill.planner.join_fanout import key_fanout, total_fanout
from viewmill.planner.nested_filters import NestedFilters
from viewmill.planner.plan import Plan, PlannedBlock, total_cost
from viewmill.rewrite.distinct_by_first import distinct_by_first
from viewmill.rewrite.laterals_as_joins import lateral_in
from viewmill.rewrite.linear_aggregates import linear_aggregates
from viewmill.rewrite.rules import decorrelate
from viewmill.rewrite.spread_values import spread_values
from viewmill.rewrite.subqueries_as_joins import fails_inside
from viewmill.rewrite.values_beside import values_beside
from viewmill.strategies.aggregate_index.strategy import AggregateIndex, has_nested
from viewmill.strategies.dataflow.strategy import Dataflow
from viewmill.strategies.recompute.strategy import Recompute
from viewmill.strategies.shared_window.strategy import SharedWindow
from viewmill.strategies.strategy import Abilities, Candidate, Rejection, Statistics, Strategy
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
# The cost of joining a changed aggregate with one row, measured on two cores.
_JOINED_ROW_US = 0.03

# An index is preferred to joins up to this cost ratio: joins may meet more rows than estimated.
_MAX_INDEX_COST_RATIO = 1.5

# Refresh costs are estimated for this many changed rows: few, for any table worth maintaining.
_TYPICAL_CHANGE = 1000
# A batch of a small table changes this share of its rows, so more batches, and recomputations, pass
# before a typical number of rows has changed.
_TYPICAL_SHARE = 0.01
_LEAST_CHANGE = 10
# An empty table counts as this large: recomputing a view over it is cheap only until it is filled.
_EXPECTED = 10_000


@dataclass(frozen=True)
class PlanOptions:
    """What the CREATE statement asks for: policy, strategy, hints and form of the result."""

    refresh_policy: OneOf["auto", "incremental", "incremental_strict", "full"] = "auto"
    strategy: str | None = None
    hints: Hints = field(default_factory=Hints)
    result: OneOf["listed", "factorized"] = "listed"
    in_triggers: bool = False  # only what compiles to triggers, as shards run


def plan(
    view: str, query: Relation, statistics: Statistics, options: PlanOptions | None = None
) -> Plan:
    """The cheapest plan that the options allow."""
    options = _checked(options or PlanOptions())
    if options.result == "factorized" or options.hints.dense:
        return _plan_unlisted(view, query, statistics, options)
    candidates, rejections = _ask(query, statistics, options)
    lasting = [each for each in rejections if each.is_lasting]
    if options.strategy in {each.strategy for each in lasting}:
        raise _nothing_allowed(view, query, options, lasting)
    alternatives = [[Cut(view, query, (each,), tuple(rejections))] for each in candidates]
    rows, often = _judged_rows(query, statistics), _batches(query, statistics)
    if (
        min(alternatives, key=lambda alternative: _cost(alternative, rows, often))[0]
        .candidates[0]
        .is_linear
    ):
        try:
            alternatives += _cut(view, query, statistics, options)
        except NotCut as no:
            rejections = _more_exact(rejections, no.rejections)
    if options.strategy is not None and not any(
        _is_allowed(alternative, options) for alternative in alternatives
    ):
        with suppress(NotCut):
            alternatives += _cut(view, query, statistics, options, alone=True)
    allowed = _without_pairs(
        [alternative for alternative in alternatives if _is_allowed(alternative, options)]
    )
    if not allowed:
        raise _nothing_allowed(view, query, options, rejections)
    best = min(allowed, key=lambda alternative: _cost(alternative, rows, often))
    blocks = tuple(_planned(each, is_last=each is best[-1]) for each in best)
    used = {id(cut.candidates[0]) for cut in best}
    others = tuple(_offered(each) for each in candidates if id(each) not in used)
    if len(best) > 1:
        rejections = lasting  # the query was cut, so other rejections of the whole are irrelevant
    reason = _reason(best, allowed, options, rows)
    return Plan(view, query, blocks, others, tuple(rejections), reason, statistics)


def _plan_unlisted(
    view: str, query: Relation, statistics: Statistics, options: PlanOptions
) -> Plan:
    """The plan of a factorized or dense result; only a view tree can keep one."""
    asked = "RESULT FACTORIZED" if options.result == "factorized" else "the hint DENSE"
    if options.strategy not in (None, ViewTree.name) or options.refresh_policy == "full":
        other = f"STRATEGY {options.strategy}" if options.strategy else "REFRESH POLICY FULL"
        raise UnsupportedQuery(
            f"{asked} does not go with {other}",
            detail="The views of a view tree are the result.",
        )
    if options.result == "factorized" and options.hints.dense:
        raise UnsupportedQuery("RESULT FACTORIZED does not go with the hint DENSE")
    answer: Candidate | Rejection
    if isinstance(query, Sort):
        answer = Rejection(ViewTree.name, "ORDER BY: rows come as they are kept", query.span)
    elif any(scan.window for scan in scans(query)):
        answer = Rejection(ViewTree.name, "it knows no windows on tables")
    else:
        factorized = options.result == "factorized"
        answer = ViewTree(factorized=factorized).match(query, statistics, options.hints)
    if isinstance(answer, Rejection):
        form = "factorized" if options.result == "factorized" else "as arrays"
        raise UnsupportedQuery(
            f'the result of view "{view}" cannot be kept {form}',
            detail=answer.reason,
            hint=_UNLISTED[form],
            span=answer.span,
        )
    blocks = (_planned(Cut(view, query, (answer,), ()), is_last=True),)
    return Plan(view, query, blocks, (), (), f"{asked} was asked for", statistics)


_UNLISTED = {
    "factorized": "It takes inner joins on equality, filters of one table, and columns of them; "
    "RESULT LISTED takes everything.",
    "as arrays": "It takes SUM(A1.P * A2.P * ...) over tables of two NOT NULL keys and a DOUBLE, "
    "grouped by both ends of the chain; without the hint every query is taken.",
}


def _ask(
    query: Relation, statistics: Statistics, options: PlanOptions
) -> tuple[list[Candidate], list[Rejection]]:
    linear = linear_aggregates(query)
    obstacles = _obstacles(query, options)
    answers: list[Candidate | Rejection] = []
    for strategy in STRATEGIES:
        can = strategy.abilities
        missing = next((each for each in obstacles if not each.is_met(can)), None)
        if can.recomputes:
            answers.append(strategy.match(query, statistics))
        elif missing is not None:
            answers.append(Rejection(strategy.name, missing.reason, missing.span))
        else:
            answers.append(strategy.match(linear, statistics, options.hints))
    candidates = [each for each in answers if isinstance(each, Candidate)]
    return candidates, [each for each in answers if isinstance(each, Rejection)]


@dataclass(frozen=True)
class _Obstacle:
    """Something in a query that a strategy must be able to do to be asked at all."""

    reason: str  # why a strategy that cannot do it is not asked
    is_met: Callable[[Abilities], bool]
    span: Span | None = None


def _obstacles(query: Relation, options: PlanOptions) -> list[_Obstacle]:
    found = []
    if (clock := next(clock_reads(query), None)) is not None:
        timed, why = is_timed(query), "the clock is not compared with a column"
        found.append(_Obstacle(why, lambda can: can.deadlines and timed, clock.span))
    if (lateral := lateral_in(query)) is not None:
        why = "LATERAL over a subquery of a form that is no join"
        found.append(_Obstacle(why, lambda can: False, lateral.span))
    if options.in_triggers:
        found.append(_Obstacle("it works on the driver's tables", lambda can: can.on_shards))
    if any(scan.window for scan in scans(query)):
        found.append(_Obstacle("it knows no windows on tables", lambda can: can.windows))
    return found


def _cut(
    view: str, query: Relation, statistics: Statistics, options: PlanOptions, *, alone: bool = False
) -> list[list[Cut]]:
    """The alternative cuts of a query into blocks, each with its cheapest candidate first.

    With `alone` only the requested strategy may take blocks. One alternative turns subqueries into
    joins; another leaves nested aggregates to the aggregate index.
    """
    if options.strategy == Recompute.name or options.refresh_policy == "full":
        return []
    alternatives, no = list[list[Cut]](), None
    # As a join, a subquery is evaluated for rows that no row outside asks about.
    stays = statistics.careful and fails_inside(query)
    joined = query if stays else decorrelate(query)
    forms = [(joined, list[tuple[str, Relation]]())]
    filters = NestedFilters(view)
    if (left := lateral_in(joined)) is not None:
        raise NotCut(left, _ask(left, statistics, options)[1])
    if lateral_in(query) is not None:
        query = joined
    rest = filters.take_out(query)
    if filters.blocks:
        forms.append((rest, filters.blocks))
    if has_nested(query) and joined != query:
        forms.append((values_beside(distinct_by_first(query)), []))
    for form, extracted in forms:
        # Windows that are put together from panes first; then a row is written for each window.
        for spread in dict.fromkeys([form, spread_values(form)]):
            try:
                cuts = cut_blocks(
                    view,
                    prepared(spread),
                    lambda part: _ask_worthy(part, statistics, options, alone=alone),
                    extracted,
                    careful=statistics.careful,
                )
            except NotCut as reason:
                no = no or reason
                continue
            alternatives.append(
                [replace(cut, candidates=_best_first(cut, options)) for cut in cuts]
            )
            break
    if no is not None and not alternatives:
        raise no
    if len(alternatives) > 1:  # joins against an index by key
        alternatives[0] = _with_key_fanout(alternatives[0], key_fanout(query, statistics))
        alternatives[0] = _with_total_fanout(alternatives[0], total_fanout(query, statistics))
    steady = [
        alternative
        for alternative in alternatives
        if not any(cut.candidates[0].is_linear for cut in alternative)
    ]
    return (
        _prefer_index(steady, joins=alternatives[0])
        if steady and len(alternatives) > 1
        else steady or alternatives
    )


def _prefer_index(alternatives: list[list[Cut]], joins: list[Cut]) -> list[list[Cut]]:
    """Drop the alternative that uses joins, unless an index costs much more.

    The cost of an index is predictable; that of joins depends on rows that have not arrived yet.
    """
    others = [alternative for alternative in alternatives if alternative is not joins]
    best = min((_alternative_cost(alternative) for alternative in others), default=float("inf"))
    return others if best <= _MAX_INDEX_COST_RATIO * _alternative_cost(joins) else alternatives


def _with_key_fanout(alternative: list[Cut], rows: float) -> list[Cut]:
    """Add the cost of joining a changed aggregate with the rows of its key."""
    if rows <= 1:
        return alternative
    last = alternative[-1].candidates[0]
    cost = replace(last.cost, row_us=last.cost.row_us + _JOINED_ROW_US * rows)
    said = f"a changed row changes the aggregate of its key, which is joined with {rows:.0f} rows"
    dearer = replace(last, cost=cost, notes=(*last.notes, said))
    return [
        *alternative[:-1],
        replace(alternative[-1], candidates=(dearer, *alternative[-1].candidates[1:])),
    ]


def _with_total_fanout(alternative: list[Cut], rows: float) -> list[Cut]:
    """Add the cost of joining a changed uncorrelated aggregate with all rows."""
    if rows == 0:
        return alternative
    last = alternative[-1].candidates[0]
    cost = replace(last.cost, refresh_us=last.cost.refresh_us + _JOINED_ROW_US * rows)
    said = f"an aggregate that is the same for all is joined with {rows:.0f} rows"
    dearer = replace(last, cost=cost, notes=(*last.notes, said))
    return [
        *alternative[:-1],
        replace(alternative[-1], candidates=(dearer, *alternative[-1].candidates[1:])),
    ]


def _without_pairs(alternatives: list[list[Cut]]) -> list[list[Cut]]:
    """Drop alternatives with range joins, if another alternative is incremental.

    A subquery correlated by an inequality becomes a join with n rows for each outer row.
    """
    kept = [
        alternative
        for alternative in alternatives
        if not any(cut.candidates[0].joins_ranges for cut in alternative)
    ]
    others = [alternative for alternative in kept if not alternative[0].candidates[0].recomputes]
    return kept if others else alternatives


def _ask_worthy(
    part: Relation, statistics: Statistics, options: PlanOptions, *, alone: bool
) -> tuple[list[Candidate], list[Rejection]]:
    """The incremental candidates for a part that cost less than recomputing it."""
    candidates, rejections = _ask(part, statistics, options)
    own = [each for each in candidates if not each.recomputes]
    own = [each for each in own if not alone or each.strategy == options.strategy]
    again = [each for each in candidates if each.recomputes]
    limit = min((_candidate_cost(each) for each in again), default=float("inf"))
    limit *= _batches(part, statistics)
    worthy = [e for e in own if _candidate_cost(e) < limit or e.strategy == options.strategy]
    dear = [Rejection(e.strategy, "it costs more than recompute") for e in own if e not in worthy]
    return worthy, [*rejections, *dear]


def _best_first(cut: Cut, options: PlanOptions) -> tuple[Candidate, ...]:
    order = sorted(cut.candidates, key=_candidate_cost)
    return tuple(sorted(order, key=lambda each: each.strategy != options.strategy))


def _candidate_cost(candidate: Candidate) -> float:
    return candidate.cost.total_us(_TYPICAL_CHANGE)


def _alternative_cost(alternative: list[Cut]) -> float:
    return total_cost([cut.candidates[0] for cut in alternative]).total_us(_TYPICAL_CHANGE)


def _cost(alternative: list[Cut], rows: int, often: float) -> float:
    chosen = [cut.candidates[0] for cut in alternative]
    cost = total_cost(chosen).total_us(rows)
    # Rounded, so that the order of float additions does not decide between equal costs.
    return round(cost * often if any(e.recomputes for e in chosen) else cost, 3)


def _batches(query: Relation, statistics: Statistics) -> float:
    """The number of batches in which a typical number of changed rows arrives."""
    read = scans(query)
    rows = max((statistics.rows.get(each.source, 0) for each in read), default=0)
    if any(each.window for each in read):
        return 1.0
    rows = rows or _EXPECTED
    return max(1.0, _TYPICAL_CHANGE / max(_LEAST_CHANGE, rows * _TYPICAL_SHARE))


def _judged_rows(query: Relation, statistics: Statistics) -> int:
    """The changed rows for which costs are estimated: those of a part for windows over parts."""
    found = (statistics.parts.get(scan.source) for scan in scans(query) if scan.window)
    rows = next((each.rows for each in found if each is not None), None)
    return _TYPICAL_CHANGE if rows is None else rows


def _planned(cut: Cut, *, is_last: bool) -> PlannedBlock:
    chosen, *rest = cut.candidates
    # Only the next block reads an inner block, so its rows need not be stored.
    chosen = replace(chosen, passing=not is_last)
    strategy = next(each for each in STRATEGIES if each.name == chosen.strategy)
    program = strategy.emit(chosen)
    others = tuple(map(_offered, rest))
    return PlannedBlock(cut.name, cut.query, _offered(chosen), others, cut.rejections, program)


def _offered(candidate: Candidate) -> Candidate:
    """A candidate as a plan keeps it, without what it has written: a plan lives as long as its
    view, and blocks have the programs that are used."""
    return replace(candidate, program=None)


def _more_exact(whole: Sequence[Rejection], part: Sequence[Rejection]) -> list[Rejection]:
    """Replace rejections of the whole query by those of the part that could not be cut."""
    by_name = {each.strategy: each for each in part}
    return [by_name.get(each.strategy, each) for each in whole]


def _checked(options: PlanOptions) -> PlanOptions:
    """Check that the options can be met; a variable order implies the strategy view_tree."""
    names = [strategy.name for strategy in STRATEGIES]
    if options.strategy is not None and options.strategy not in names:
        raise InvalidArgument(
            f'no strategy "{options.strategy}"', hint=nearest(options.strategy, names)
        )
    if not options.hints.order:
        return options
    (able,) = (each.name for each in STRATEGIES if each.abilities.variable_order)
    if options.strategy not in (None, able) or options.refresh_policy == "full":
        raise InvalidArgument(
            f"VARIABLE_ORDER is a hint for STRATEGY {able}",
            detail="The view was asked for in another way.",
            span=options.hints.span,
        )
    return replace(options, strategy=able)


def _is_allowed(alternative: list[Cut], options: PlanOptions) -> bool:
    chosen = [cut.candidates[0] for cut in alternative]
    if _is_timeless(alternative):
        return False
    if options.strategy is not None:
        return any(each.strategy == options.strategy for each in chosen)
    if options.refresh_policy == "full":
        return all(each.recomputes for each in chosen)
    if options.refresh_policy == "incremental_strict":
        return not any(each.recomputes for each in chosen)
    return True


def _is_timeless(alternative: list[Cut]) -> bool:
    """Whether a query that reads the clock would be recomputed, which no passing of time asks."""
    return any(
        cut.candidates[0].recomputes and next(wall_clock_reads(cut.query), None)
        for cut in alternative
    )


def _no_deadlines(
    view: str, place: Span | None, rejections: Sequence[Rejection]
) -> UnsupportedQuery:
    able = {each.name for each in STRATEGIES if each.abilities.deadlines}
    own = [each for each in rejections if each.strategy in able and each.span is not None]
    reason, span = (own[0].reason, own[0].span) if own else ("it reads the clock", place)
    return UnsupportedQuery(
        f'view "{view}" cannot follow the time',
        detail=f"{reason[0].upper()}{reason[1:]}.",
        hint="Compare a column with now() or current_date(), plus or minus a constant, in WHERE,"
        " HAVING or ON: AND between such conditions. The rest must be incremental.",
        span=span or place,
    )


def _nothing_allowed(
    view: str, query: Relation, options: PlanOptions, rejections: Sequence[Rejection]
) -> UnsupportedQuery:
    named = [each for each in rejections if options.strategy in (None, each.strategy)]
    if (clock := next(wall_clock_reads(query), None)) is not None:
        return _no_deadlines(view, clock.span, named)
    span = next((each.span for each in named if each.span is not None), None)
    reasons = "; ".join(f"{each.strategy}: {each.reason}" for each in named)
    what = f"with strategy {options.strategy}" if options.strategy else "incrementally"
    return UnsupportedQuery(
        f'view "{view}" cannot be maintained {what}',
        detail=reasons,
        hint="REFRESH POLICY AUTO falls back to recompute; EXPLAIN shows every strategy's answer.",
        span=span,
    )


def _reason(
    alternative: list[Cut], allowed: list[list[Cut]], options: PlanOptions, rows: int
) -> str:
    blocks = f"cut into {len(alternative)} blocks: " if len(alternative) > 1 else ""
    if options.hints.order:
        return f"{blocks}the hint VARIABLE_ORDER asks for a view tree"
    if options.strategy is not None:
        return f"{blocks}STRATEGY {options.strategy} was asked for"
    if options.refresh_policy == "full":
        return "REFRESH POLICY FULL was asked for"
    if len(allowed) == 1:
        return f"{blocks}the only strategy that takes this query"
    where = ", as many as a time part has" if rows != _TYPICAL_CHANGE else ""
    return f"{blocks}the cheapest at {rows} changed rows per refresh{where}"
