"""Why a row of a view is there: the rows that it was made from.

takes  a view and one of its rows
gives  the rows of its tables, joined as the query joins them, that pass its filters and, below a
       GROUP BY, belong to the row's group

The engine finds them, over the tables as they are now. A second GROUP BY below the first one is
taken as it is: its rows are the answer.
"""

from __future__ import annotations

from typing import Any

from viewmill.algebra.expressions import Column, Expression, Literal
from viewmill.algebra.relations import (
    Aggregate,
    Distinct,
    Filter,
    Limit,
    Project,
    Relation,
    SetOperation,
    Sort,
)
from viewmill.algebra.schema import Schema
from viewmill.algebra.types import Nested
from viewmill.algebra.walk import columns_of, sources, substitute
from viewmill.console.replies import rows_reply
from viewmill.errors import InvalidArgument, UnsupportedQuery
from viewmill.mill.mill import Mill
from viewmill.mill.readers import rows_of
from viewmill.mill.temporal import is_temporal
from viewmill.sql.operators import compare, conjunction

SHOWN = 50


def why(mill: Mill, name: str, row: list[str | None], shown: int) -> dict[str, Any]:
    """The rows that a row was made from; `row` is texts, as a page shows one of the first rows."""
    view = mill.view(name)
    if is_temporal(mill.core.catalog.view(name)):
        raise UnsupportedQuery(
            "why is not known of views in parts and of patterns",
            hint="EXPLAIN says what they read.",
        )
    first = view.head(shown)
    texts = rows_reply(first, 0)["rows"]
    if row not in texts:
        raise InvalidArgument("the row is no longer there", hint="Read the rows again.")
    values = rows_of(first.slice(texts.index(row), 1))[0]
    found = origins(view.query, _equal(view.query.schema, values))
    with mill.core.lock:
        answers = [_run(mill, each) for each in found]
    return {"of": answers}


def _run(mill: Mill, relation: Relation) -> dict[str, Any]:
    table = mill.core.run(Limit(relation, SHOWN + 1))
    reply = rows_reply(table.slice(0, SHOWN), table.num_rows)
    return {**reply, "reads": list(sources(relation)), "is_cut": table.num_rows > SHOWN}


def _equal(schema: Schema, values: tuple[Any, ...]) -> list[Expression]:
    """That each column has the value that it has in the row."""
    return [
        compare("<=>", Column(field.name, field.type, field.nullable),
                Literal(value, field.type), None)
        for field, value in zip(schema, values, strict=True)
        if not isinstance(field.type, Nested)
    ]  # fmt: skip


def origins(
    relation: Relation, wanted: list[Expression], *, is_grouped: bool = False
) -> list[Relation]:
    """What the rows that meet all conditions were made from; several for a UNION."""
    match relation:
        case Project(inside, outputs):
            by_name = dict(outputs)
            below = [substitute(each, by_name) for each in wanted]
            return origins(inside, below, is_grouped=is_grouped)
        case Filter(inside, condition):
            return origins(inside, [*wanted, condition], is_grouped=is_grouped)
        case Sort() | Limit() | Distinct():
            return origins(relation.input, wanted, is_grouped=is_grouped)
        case SetOperation("union", _, left, right):
            pairs = zip(left.schema, right.schema, strict=True)
            by_name = {a.name: Column(b.name, b.type, b.nullable) for a, b in pairs}
            below = [substitute(each, by_name) for each in wanted]
            return [
                *origins(left, wanted, is_grouped=is_grouped),
                *origins(right, below, is_grouped=is_grouped),
            ]
        case Aggregate() if not is_grouped:
            return _of_group(relation, wanted)
        case _:
            every = conjunction(wanted)
            return [relation if every is None else Filter(relation, every)]


def _of_group(relation: Aggregate, wanted: list[Expression]) -> list[Relation]:
    if relation.grouping_sets is not None:
        raise UnsupportedQuery("why is not known of rows of ROLLUP, CUBE and GROUPING SETS")
    keys = dict(relation.keys)
    below = [substitute(each, keys) for each in wanted if columns_of(each) <= keys.keys()]
    return origins(relation.input, below, is_grouped=True)
