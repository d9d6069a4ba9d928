"""What the general algorithm keeps: the outer rows with their aggregates, and the inner rows.

entries   outer rows by the columns that conditions and correlations read (free(q), and what is
          compared): how many, what the view sums of them, and, as notes, each correlated aggregate
          and what of the entry the view shows
inner_i   rows inside by the columns that the correlation reads (bound(q)): how many, their sum;
          for MIN and MAX by the value as well. In order, if the correlation is one inequality: the
          aggregate of an entry is then one walk, and a large batch walks once for each entry
fixed_i   an aggregate without correlation: one entry, or the values in order for MIN and MAX
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from viewmill.algebra.conditions import filtered
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.relations import Aggregate, Named, Project, Relation, Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, Date, Decimal, Float, Integer, Nested, Null, Timestamp
from viewmill.algebra.walk import columns_of, map_parts
from viewmill.codegen.aggregates import Kept, Payload, count_rows, zero_if_null
from viewmill.codegen.linear import columns_as, not_null
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.states import Indexed, Ordered, Slot, State
from viewmill.strategies.aggregate_index.general_query import GeneralQuery
from viewmill.strategies.aggregate_index.general_query import Nested as NestedValue
from viewmill.strategies.aggregate_index.query import FLIPPED

ORDERED = ("<", "<=", ">", ">=")
SPECIALS = ("nan", "plus", "minus")  # floats that are not finite
_EXACT = (Integer, Decimal, Date, Timestamp)


class Keys:
    """The expressions over one table that make the key of a state, each once."""

    def __init__(self, scan: Scan, prefix: str) -> None:
        self._names, self._prefix = set(scan.schema.names), prefix
        self.named: dict[Expression, str] = {}

    def lift(self, expression: Expression) -> Expression:
        """The expression over the key: what reads only this table is a column of it."""
        read = columns_of(expression)
        if read and read <= self._names and _is_safe(expression):
            if isinstance(expression.type, Nested | Null):
                raise NotTaken(f"a column of type {expression.type}", expression.span)
            name = self.named.setdefault(expression, f"{self._prefix}_{len(self.named) + 1}")
            return Column(name, expression.type, expression.nullable)
        return map_parts(expression, self.lift)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns of the key; a constant if nothing is read."""
        if not self.named:
            return (Field("one", BIGINT, nullable=False),)
        return tuple(Field(n, each.type, each.nullable) for each, n in self.named.items())

    def grouped(
        self,
        rows: Relation,
        calls: Sequence[tuple[str, AggregateCall]],
        more: tuple[Named, ...] = (),
    ) -> Relation:
        """Rows by key, with what `calls` make of them, 0 where that is NULL."""
        keys = tuple((name, each) for each, name in self.named.items())
        group = Aggregate(rows, keys, tuple(calls))
        shown = columns_as(self.fields) if keys else (("one", Literal(0, BIGINT)),)
        sums = tuple((name, zero_if_null(name, call.type)) for name, call in calls)
        return Project(group, (*shown, *sums, *more))


def _is_safe(expression: Expression) -> bool:
    """Whether an expression may be computed before anyone asks: it cannot fail but by overflow."""
    match expression:
        case Column() | Literal():
            return True
        case Call(function="+" | "-" | "*"):
            return isinstance(expression.type, _EXACT) and all(map(_is_safe, expression.arguments))
        case Cast(lenient=False):
            types = (Integer, Decimal)
            is_number = isinstance(expression.type, types) and isinstance(
                expression.input.type, types
            )
            return is_number and _is_safe(expression.input)
        case _:
            return False


@dataclass
class Inner:
    """The rows that a nested aggregate reads."""

    value: NestedValue
    name: str
    keys: Keys
    predicate: tuple[Expression, ...]  # over the keys of both sides; () is without correlation

    @property
    def comparisons(self) -> list[tuple[Column, str, Column]]:
        """The predicate as comparisons of an inner with an outer column, if it is nothing else."""
        found = [_comparison(each, {f.name for f in self.keys.fields}) for each in self.predicate]
        return [each for each in found if each is not None] if None not in found else []

    @property
    def lookup(self) -> OneOf["order", "equal", "loop"]:
        """How the aggregate of one entry is found."""
        if self.value.is_extreme or not self.comparisons:
            return "loop"
        signs = {sign for _, sign, _ in self.comparisons}
        if signs == {"="} and len(self.comparisons) == len(self.keys.named):
            return "equal"
        (inner, sign, outer), *others = self.comparisons
        is_one = sign in ORDERED and not others and _have_one_order(inner, outer)
        return "order" if is_one and not self.is_real else "loop"

    @property
    def is_fixed(self) -> bool:
        """Whether the aggregate is the same for all rows outside."""
        return not self.predicate

    @property
    def is_summed(self) -> bool:
        """Whether it needs a sum."""
        return self.value.call.function in ("sum", "avg")

    @property
    def is_real(self) -> bool:
        """Whether it needs a sum of floats."""
        argument = self.value.argument
        return self.is_summed and argument is not None and isinstance(argument.type, Float)

    @property
    def sums(self) -> tuple[Slot, ...]:
        """The slots of its sum; of floats what is not finite is counted apart."""
        if not self.is_summed:
            return ()
        if not self.is_real:
            return (Slot("sum", "wide"),)
        return (Slot("sum", "sum"), *(Slot(name, "int") for name in SPECIALS))

    @property
    def sum_names(self) -> list[str]:
        """The slots of its count and its sum."""
        return ["count", *(slot.name for slot in self.sums)]

    @property
    def kind(self) -> Indexed | Ordered:
        """The kind of the state."""
        slots = (Slot("count", "int"), *self.sums)
        if self.is_fixed and self.value.is_extreme:
            return Ordered(self.keys.fields[0], (Slot("count", "wide"),))
        if self.lookup == "order":
            (level,) = self.keys.fields
            words = tuple(Slot(slot.name, "wide") for slot in slots)
            return Ordered(replace(level, nullable=False), words)
        return Indexed(self.keys.fields, slots, journal=True)

    def state(self) -> State:
        """The state with its definition."""
        value, rows = self.value, self.rows()
        calls: list[tuple[str, AggregateCall]] = [("count", count_rows())]
        if self.is_real:
            kept = {each.slot.name: each.definition for each in Payload((("", value.call),)).kept}
            calls += [(slot.name, kept[f"{slot.name}_1"]) for slot in self.sums]
        elif self.is_summed:
            assert value.argument is not None
            calls.append(("sum", _exact_sum(value.argument)))
        return State(self.name, self.kind, self.keys.grouped(rows, calls))

    def rows(self) -> Relation:
        """The rows that count."""
        value = self.value
        read = [] if value.argument is None else [value.argument]
        if self.lookup == "order":
            read += self.keys.named
        given = [not_null(each) for each in dict.fromkeys(read) if each.nullable]
        return filtered(value.scan, (*value.where, *given))

    @property
    def notes(self) -> tuple[Slot, ...]:
        """The slots of the aggregate in an entry."""
        kinds = {"best": "int", "seen": "int"}
        if not self.value.is_extreme:
            kinds = {"count": "int", **{slot.name: slot.kind for slot in self.sums}}
        return tuple(Slot(self.slot(n), kind, is_note=True) for n, kind in kinds.items())  # type: ignore[arg-type]

    def slot(self, name: str) -> str:
        """The name of one of them."""
        return f"{self.value.name[1:]}_{name}"


class Entries:
    """The outer rows."""

    def __init__(self, query: GeneralQuery, source: Source) -> None:
        self.query, self.name = query, "entries"
        self.keys = Keys(query.scan, "outer")
        self.inner = [self._inner(each, i, source) for i, each in enumerate(query.values, 1)]
        self.conditions = [self.keys.lift(each) for each in query.conditions]
        self.groups = [(name, self.keys.lift(each)) for name, each in query.head.keys]
        self.payload = Payload(query.head.aggregates)
        self._require_exact()

    def _inner(self, value: NestedValue, number: int, source: Source) -> Inner:
        keys = Keys(value.scan, f"inner_{number}")
        predicate = tuple(self.keys.lift(keys.lift(each)) for each in value.correlated)
        if value.is_extreme:
            assert value.argument is not None
            if not predicate and not isinstance(value.argument.type, _EXACT):
                kind = value.argument.type
                raise NotTaken(f"{value.call.function.upper()} of {kind} inside", value.span)
            keys.named.setdefault(value.argument, f"inner_{number}_value")
        name = source.name(f"inner_{number}" if predicate else f"fixed_{number}")
        return Inner(value, name, keys, predicate)

    def _require_exact(self) -> None:
        for each in self.payload.arguments:
            if each.extreme or each.distinct:
                raise NotTaken("MIN, MAX and DISTINCT outside are a block of their own")
            if each.summed and each.value is not None and isinstance(each.value.type, Float):
                raise NotTaken(f"a sum of {each.value.type} outside is a block of its own")

    @property
    def correlated(self) -> list[Inner]:
        """The values that change from row to row."""
        return [each for each in self.inner if not each.is_fixed]

    @property
    def kept(self) -> list[Kept]:
        """What the view sums."""
        return self.payload.kept

    @property
    def kind(self) -> Indexed:
        """The kind of the state."""
        kept = [each.slot for each in self.kept]
        shown = [Slot(f"{slot.name}_shown", slot.kind, is_note=True) for slot in kept]
        notes = [slot for each in self.correlated for slot in each.notes]
        known = Slot("known", "int", is_note=True)
        return Indexed(self.keys.fields, (*kept, *shown, known, *notes), journal=True)

    def state(self) -> State:
        """The state with its definition; notes are 0 there."""
        calls = tuple((each.slot.name, each.definition) for each in self.kept)
        rows = filtered(self.query.scan, self.query.where)
        notes = tuple(
            (slot.name, Cast(Literal(0, BIGINT), slot.type, False))
            for slot in self.kind.payload
            if slot.is_note
        )
        return State(self.name, self.kind, self.keys.grouped(rows, calls, notes))


def _comparison(expression: Expression, inner: set[str]) -> tuple[Column, str, Column] | None:
    """A comparison of two columns, the inner one first."""
    if not isinstance(expression, Call) or expression.function not in FLIPPED:
        return None
    left, right = expression.arguments
    if not isinstance(left, Column) or not isinstance(right, Column):
        return None
    if (left.name in inner) == (right.name in inner) or left.type != right.type:
        return None
    if left.name in inner:
        return left, expression.function, right
    return right, FLIPPED[expression.function], left


def _have_one_order(inner: Column, outer: Column) -> bool:
    return isinstance(inner.type, _EXACT) and inner.type == outer.type


def _exact_sum(value: Expression) -> AggregateCall:
    """A sum that cannot overflow: integers are added as decimals."""
    if isinstance(value.type, Integer):
        value = Cast(value, Decimal(20, 0), value.nullable)
    assert isinstance(value.type, Decimal)
    type_ = Decimal(min(38, value.type.precision + 10), value.type.scale)
    return AggregateCall("sum", (value,), type_, True)
