"""Print algebra: relations as trees, expressions as text that reads like SQL.

takes  Relation, Expression
gives  text for logs, golden files, `viewmill show` and the console
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from viewmill.algebra.expressions import (
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expression,
    Frame,
    InSubquery,
    Literal,
    Over,
    ScalarSubquery,
    SortKey,
    is_engine_function,
)
from viewmill.algebra.relations import (
    Aggregate as AggregateRelation,
)
from viewmill.algebra.relations import (
    Distinct,
    Explode,
    Filter,
    Foreign,
    Join,
    Limit,
    Project,
    Recursion,
    Relation,
    Scan,
    SetOperation,
    Sort,
    Values,
    Window,
    inputs,
)
from viewmill.algebra.types import Date, Interval, Timestamp
from viewmill.algebra.user_functions import shown_function
from viewmill.algebra.walk import expressions, queries

# How tightly an operator binds; what binds less than its surroundings gets parentheses.
_BINDING = {
    "or": 1, "and": 2, "not": 3, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "<=>": 4,
    "like": 4, "rlike": 4, "|": 5, "^": 6, "&": 7, "||": 8, "+": 8, "-": 8,
    "*": 9, "/": 9, "%": 9, "div": 9,
}  # fmt: skip
_ATOM = 10


def tree(label: str, children: Sequence[str] = ()) -> str:
    """Draw `label` above its already drawn `children`.

    >>> print(tree("Join", [tree("Filter: o.open", ["Scan: orders o"]), "Scan: lines l"]))
    Join
    ├─ Filter: o.open
    │  └─ Scan: orders o
    └─ Scan: lines l
    """
    lines = [label]
    for i, child in enumerate(children):
        last = i == len(children) - 1
        first, *rest = child.splitlines()
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return "\n".join(lines)


def display(relation: Relation) -> str:
    """The relation as a tree; queries inside expressions follow the inputs."""
    children = [display(each) for each in _shown_below(relation)]
    for expression in expressions(relation):
        children += [tree("Subquery", [display(query)]) for query in queries(expression)]
    return tree(_label(relation), children)


def _shown_below(relation: Relation) -> tuple[Relation, ...]:
    if isinstance(relation, Recursion):
        return relation.base, relation.step
    return () if isinstance(relation, Foreign) else inputs(relation)


def _label(relation: Relation) -> str:
    match relation:
        case Scan():
            renamed = relation.alias.lower() != relation.source.lower()
            window = f" {relation.window}" if relation.window else ""
            return f"Scan: {relation.source}{window}" + (f" {relation.alias}" if renamed else "")
        case Values():
            rows = ", ".join(f"({_list(row)})" for row in relation.rows)
            return f"Values: {rows}"
        case Filter():
            return f"Filter: {display_expression(relation.condition)}"
        case Project():
            way = " by row" if relation.by_row else ""
            return f"Project{way}: {_named(relation.outputs)}"
        case Join():
            condition = relation.condition
            on = "" if condition is None else f": {display_expression(condition)}"
            lateral = ", lateral" if relation.lateral else ""
            return f"Join {relation.kind}{lateral}{on}"
        case AggregateRelation():
            return _aggregate_label(relation)
        case Window():
            return f"Window: {_named(relation.calls)}"
        case Distinct():
            return "Distinct"
        case SetOperation():
            return relation.kind.capitalize() + (" all" if relation.all else "")
        case Sort():
            return f"Sort: {_keys(relation.keys)}"
        case Limit():
            count = "all" if relation.count is None else str(relation.count)
            return f"Limit: {count}" + (f" offset {relation.offset}" if relation.offset else "")
        case Foreign():
            tables = ", ".join(dict.fromkeys(each.source for each in relation.scans))
            return f"Foreign: {relation.reason}" + (f" (reads {tables})" if tables else "")
        case Explode():
            word = relation.form + (" outer" if relation.outer else "")
            made = ", ".join(each.name for each in relation.made)
            return f"{word.capitalize()}: {relation.array.name} AS {made}"
        case Recursion():
            word = "Recursion all" if relation.all else "Recursion"
            return f"{word}: {relation.name}, {relation.limit} steps at most"


def _aggregate_label(relation: AggregateRelation) -> str:
    by = f" by {_named(relation.keys)}" if relation.keys else ""
    label = f"Aggregate{by}: {_named(relation.aggregates)}".rstrip(": ")
    if relation.grouping_sets is None:
        return label
    names = [name for name, _ in relation.keys]
    sets = [f"({', '.join(names[i] for i in each)})" for each in relation.grouping_sets]
    return f"{label} sets {', '.join(sets)}"


def _named(outputs: Sequence[tuple[str, Expression]]) -> str:
    shown = []
    for name, expression in outputs:
        text = display_expression(expression)
        shown.append(text if text == name else f"{text} AS {name}")
    return ", ".join(shown)


def display_expression(expression: Expression) -> str:
    """The expression as text, with Spark's names of functions and qualified columns.

    >>> from viewmill.algebra.types import INT
    >>> display_expression(Call("+", (Column("o.amount", INT), Literal(1, INT)), INT))
    'o.amount + 1'
    """
    return _text(expression, 0)


def _text(expression: Expression, binding: int) -> str:
    match expression:
        case Column():
            return expression.name
        case Literal():
            return _literal(expression)
        case Cast():
            word = "TRY_CAST" if expression.lenient else "CAST"
            return f"{word}({_text(expression.input, 0)} AS {expression.type})"
        case Call():
            return _call(expression, binding)
        case Case():
            return _case(expression)
        case Aggregate():
            return _aggregate(expression)
        case Over():
            return _over(expression)
        case ScalarSubquery():
            return "(query)"
        case Exists():
            return "EXISTS (query)"
        case InSubquery(values=values):
            left = _text(values[0], _ATOM) if len(values) == 1 else f"({_list(values)})"
            return _wrap(f"{left} IN (query)", 4, binding)


def _wrap(text: str, own: int, around: int) -> str:
    return f"({text})" if own < around else text


def _call(call: Call, binding: int) -> str:
    name, arguments = call.function, call.arguments
    if is_engine_function(name):
        return _engine_call(arguments)
    own = _BINDING.get(name, _ATOM)
    shown = name.upper() if name.isalpha() else name
    if name == "not":
        return _wrap(f"NOT {_text(arguments[0], own)}", own, binding)
    if name == "is_null":
        return _wrap(f"{_text(arguments[0], 5)} IS NULL", 4, binding)
    if name == "in":
        return _wrap(f"{_text(arguments[0], 5)} IN ({_list(arguments[1:])})", 4, binding)
    if name == "-" and len(arguments) == 1:
        return _wrap(f"-{_text(arguments[0], _ATOM)}", 9, binding)
    if own == _ATOM or len(arguments) != 2:
        return f"{shown_function(name)}({_list(arguments)})"
    # The right side of a - (b - c) keeps its parentheses; and, or, +, * do not need them.
    right = own if name in ("and", "or", "+", "*", "||") else own + 1
    text = f"{_text(arguments[0], own)} {shown} {_text(arguments[1], right)}"
    return _wrap(text, own, binding)


def _engine_call(arguments: Sequence[Expression]) -> str:
    """The SQL of a call that only the engine computes, with its arguments in place."""
    text, *given = arguments
    shown = str(text.value) if isinstance(text, Literal) else ""
    for i, each in reversed(list(enumerate(given))):
        shown = shown.replace(f"`@{i}`", display_expression(each))
    return shown


def _case(case: Case) -> str:
    whens = "".join(
        f" WHEN {display_expression(when)} THEN {display_expression(then)}"
        for when, then in case.branches
    )
    return f"CASE{whens} ELSE {display_expression(case.otherwise)} END"


def _aggregate(call: Aggregate) -> str:
    arguments = _list(call.arguments) or ("*" if call.function == "count" else "")
    distinct = "DISTINCT " if call.distinct else ""
    where = "" if call.where is None else f" FILTER (WHERE {display_expression(call.where)})"
    if is_engine_function(call.function):
        return _engine_call(call.arguments) + where
    return f"{call.function}({distinct}{arguments}){where}"


def _over(call: Over) -> str:
    arguments = _list(call.arguments) or ("*" if call.function == "count" else "")
    parts = []
    if call.partition:
        parts.append(f"PARTITION BY {_list(call.partition)}")
    if call.order:
        parts.append(f"ORDER BY {_keys(call.order)}")
    if call.frame is not None:
        parts.append(display_frame(call.frame))
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    if is_engine_function(call.function):
        return f"{_engine_call(call.arguments)}{nulls} OVER ({' '.join(parts)})"
    return f"{call.function}({arguments}){nulls} OVER ({' '.join(parts)})"


def display_frame(frame: Frame) -> str:
    """The frame as SQL writes it."""
    start = _bound(frame.start, "UNBOUNDED PRECEDING")
    end = _bound(frame.end, "UNBOUNDED FOLLOWING")
    return f"{frame.unit.upper()} BETWEEN {start} AND {end}"


def _bound(offset: int | None, unbounded: str) -> str:
    if offset is None:
        return unbounded
    if offset == 0:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _keys(keys: Sequence[SortKey]) -> str:
    return ", ".join(map(_key, keys))


def _key(key: SortKey) -> str:
    text = display_expression(key.expression) + (" DESC" if key.descending else "")
    # Spark's own place for nulls, first when ascending and last when descending, is not said.
    if key.nulls_first == key.descending:
        text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return text


def _list(items: Sequence[Expression]) -> str:
    return ", ".join(map(display_expression, items))


def _literal(literal: Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(literal.type, Timestamp) and isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(literal.type, Date):
        return f"DATE '{value}'"
    if isinstance(literal.type, Interval) and isinstance(value, tuple):
        return display_interval(*value)
    return str(value)


def display_interval(months: int, microseconds: int) -> str:
    """An interval as SQL writes it, in the largest unit that is whole.

    >>> display_interval(0, 86_400_000_000), display_interval(3, 0)
    ("INTERVAL '1' DAY", "INTERVAL '3' MONTH")
    """
    if months and microseconds:
        return f"({display_interval(months, 0)} + {display_interval(0, microseconds)})"
    if months:
        return f"INTERVAL '{months}' MONTH"
    units = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000))
    for unit, size in (*units, ("SECOND", 1_000_000)):
        if microseconds % size == 0:
            return f"INTERVAL '{microseconds // size}' {unit}"
    return f"INTERVAL '{microseconds / 1_000_000:f}' SECOND"
