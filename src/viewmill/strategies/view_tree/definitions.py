"""The definition of every state as a relation, computed the way the tree computes: bottom up.

takes  the block, the layout, the places
gives  relations over the tables: a leaf groups its table, a join multiplies what its children keep,
       so that no join of rows is ever spelled out
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from fractions import Fraction

from viewmill.algebra.conditions import conjunction, filtered, together
from viewmill.algebra.expressions import Aggregate as AggregateCall
from viewmill.algebra.expressions import Call, Cast, Column, Expression, Literal
from viewmill.algebra.relations import (
    Aggregate,
    Join,
    Named,
    Project,
    Relation,
    SetOperation,
)
from viewmill.algebra.types import BIGINT, BOOLEAN, DOUBLE, Decimal, Float, Integer, Type
from viewmill.program.states import Slot
from viewmill.strategies.view_tree.block import Block
from viewmill.strategies.view_tree.polynomials import Factor, Term, float_fraction, variable_owner
from viewmill.strategies.view_tree.result import PRESENT, Result
from viewmill.strategies.view_tree.rings.numbers import Numbers, RootSlot, Signature
from viewmill.strategies.view_tree.states import StateRef
from viewmill.strategies.view_tree.tree import View

_WIDEST = 38


@dataclass
class Definitions:
    """Writes the definitions of one program."""

    block: Block
    numbers: Numbers

    # Views.

    def view(self, view: View) -> Relation:
        """A view: its keys as "view.variable", its slots as "view:slot"."""
        if view.is_leaf:
            return self._leaf(view)
        slots = self.numbers.by_signature[view.name]
        calls = tuple(
            (f"{view.name}:{slot.name}", _sum(self._product(view, signature)))
            for signature, slot in slots.items()
        )
        return _without_null(Aggregate(self._joined(view), self._keys(view), calls), view.keys)

    def _leaf(self, view: View) -> Relation:
        (alias,) = view.relations
        keys = tuple(
            (f"{view.name}.{name}", self.block.variable(name).member(alias)) for name in view.keys
        )
        slots = self.numbers.by_signature[view.name]
        calls = tuple(
            (f"{view.name}:{slot.name}", _lifted(dict(signature).get(alias, Factor())))
            for signature, slot in slots.items()
        )
        return _without_null(Aggregate(self._rows(alias), keys, calls), view.keys)

    def _rows(self, alias: str) -> Relation:
        """The rows of a table that the join can meet."""
        occurrence = self.block.occurrence(alias)
        conditions = list(occurrence.where)
        for variable in self.block.variables_of(alias):
            member = variable.member(alias)
            if variable.is_joined and member.nullable:
                is_null = Call("is_null", (member,), BOOLEAN, False)
                conditions.append(Call("not", (is_null,), BOOLEAN, False))
        return filtered(occurrence.scan, conditions)

    def _keys(self, view: View) -> tuple[Named, ...]:
        return tuple((f"{view.name}.{name}", self._from_child(view, name)) for name in view.keys)

    def _from_child(self, view: View, name: str) -> Column:
        """A variable as a column of the first child that has it."""
        child = next(each for each in view.children if name in each.keys)
        return self._column(child, name)

    def _column(self, view: View, name: str) -> Column:
        variable = self.block.variable(name)
        return Column(f"{view.name}.{name}", variable.type, variable.nullable)

    def _joined(self, view: View) -> Relation:
        """The children, joined on the variables they share."""
        first, *others = view.children
        relation, known = self.view(first), dict.fromkeys(first.keys, first)
        for other in others:
            condition = together(
                _equal(self._column(known[key], key), self._column(other, key))
                for key in other.keys
                if key in known
            )
            kind = "cross" if condition is None else "inner"
            relation = Join(kind, relation, self.view(other), condition)  # type: ignore[arg-type]
            known |= {key: other for key in other.keys if key not in known}
        for indicator in view.indicators:
            condition = together(
                _equal(self._column(known[key], key), self._column(indicator, key))
                for key in indicator.keys
            )
            relation = Join("inner", relation, self._indicator(indicator), condition)
        return relation

    def _indicator(self, view: View) -> Relation:
        """The keys that a table has, and how many keys of the table's own view each stands for."""
        (alias,) = [each.alias for each in self.block.occurrences if each.alias == view.indicates]
        own = [(v.name, v.member(alias)) for v in self.block.variables_of(alias)]
        distinct = Aggregate(
            self._rows(alias), tuple((f"{view.name}.own.{name}", each) for name, each in own), ()
        )
        keys = tuple(
            (f"{view.name}.{name}", Column(f"{view.name}.own.{name}", each.type, each.nullable))
            for name, each in own
            if name in view.keys
        )
        count = AggregateCall("count", (), BIGINT, False)
        return Aggregate(distinct, keys, ((f"{view.name}:keys", count),))

    def _product(self, view: View, signature: Signature) -> Expression:
        """The product that a slot sums, of the children's slots and the view's own variable."""
        parts: list[Expression] = []
        for child in view.children:
            own = self.numbers.restrict(signature, child)
            parts.append(self._slot_column(child, own))
        for variable in view.variables:
            factor = dict(signature).get(variable_owner(variable))
            for _ in factor.values if factor is not None else ():
                parts.append(self._from_child(view, variable))
        return _multiplied(parts)

    def _slot_column(self, view: View, signature: Signature) -> Expression:
        slot = self.numbers.by_signature[view.name][signature]
        type_ = _slot_type(slot, view, signature)
        return Column(f"{view.name}:{slot.name}", type_, False)

    # States.

    def place(self, place: StateRef) -> Relation:
        """A state: the view it holds, or several side by side."""
        if len(place.views) == 1:
            (view,) = place.views
            if view.indicates is not None:
                return self._counted(place, view)
            keys = tuple((f.name, self._column(view, f.name)) for f in place.kind.key)
            slots = tuple(
                (slot.name, self._slot_column(view, signature))
                for signature, slot in self.numbers.by_signature[view.name].items()
            )
            return Project(self.view(view), (*keys, *slots))
        return self._fused(place)

    def _counted(self, place: StateRef, view: View) -> Relation:
        """The state of an indicator: how many keys of its table each of its keys stands for."""
        keys = tuple((f.name, self._column(view, f.name)) for f in place.kind.key)
        count = Column(f"{view.name}:keys", BIGINT, False)
        return Project(self._indicator(view), (*keys, ("keys", count)))

    def _fused(self, place: StateRef) -> Relation:
        """Each view with zeros for the others' slots, then added up."""
        keys = place.kind.key
        union: Relation | None = None
        types = self._fused_types(place)
        for view in place.views:
            own = {
                place.names[view.name, slot.name]: self._slot_column(view, signature)
                for signature, slot in self.numbers.by_signature[view.name].items()
            }
            prefix = f"{place.state}.{view.name}"
            outputs: list[Named] = [
                (f"{prefix}.{f.name}", self._column(view, f.name)) for f in keys
            ]
            for slot in place.kind.payload:
                value = own.get(slot.name, _zero(types[slot.name]))
                outputs.append((f"{prefix}:{slot.name}", value))
            side = Project(self.view(view), tuple(outputs))
            union = side if union is None else SetOperation("union", True, union, side)
        assert union is not None
        first = f"{place.state}.{place.views[0].name}"
        named = tuple((f.name, Column(f"{first}.{f.name}", f.type, f.nullable)) for f in keys)
        calls = tuple(
            (f":{s.name}", _sum(Column(f"{first}:{s.name}", types[s.name], False)))
            for s in place.kind.payload
        )
        return _without_null(Aggregate(union, named, calls), tuple(f.name for f in keys))

    def _fused_types(self, place: StateRef) -> dict[str, Type]:
        return {
            place.names[view.name, slot.name]: _slot_type(slot, view, signature)
            for view in place.views
            for signature, slot in self.numbers.by_signature[view.name].items()
        }

    def result(self, result: Result) -> Relation:
        """The root."""
        root = self.numbers.root
        calls = tuple(
            (f":{each.slot.name}", _sum(self._root_value(each))) for each in self.numbers.root_slots
        )
        keys = tuple((name, self._from_child(root, name)) for name in root.keys)
        total = _without_null(Aggregate(self._joined(root), keys, calls), root.keys)
        if not self.block.is_global:
            return total
        columns = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in total.schema)
        return Project(total, (*columns, (PRESENT, Literal(1, BIGINT))))

    def _root_value(self, root_slot: RootSlot) -> Expression:
        """A sum of products, each with its coefficient."""
        parts = [self._root_term(term, root_slot) for term in root_slot.terms]
        if not parts:
            return _zero(DOUBLE if root_slot.slot.kind == "sum" else Decimal(_WIDEST, 0))
        total = parts[0]
        for each in parts[1:]:
            total = Call("+", (total, each), total.type, False)
        return total

    def _root_term(self, term: Term, root_slot: RootSlot) -> Expression:
        product = self._product(self.numbers.root, term.factors)
        if root_slot.slot.kind == "sum":
            return _scaled(_as_double(product), term.coefficient)
        whole = _exact(product)
        assert isinstance(whole.type, Decimal)
        scale = whole.type.scale
        # Coefficients count in words: 10 for a product with one digit less than the sum.
        shift = max(root_slot.scale - scale, 0)
        factor = term.coefficient / Fraction(10) ** shift
        if factor != 1:
            assert term.coefficient.denominator == 1
            digits = 0 if factor.denominator == 1 else shift  # 1.5 has one
            value = decimal.Decimal(int(factor * 10**digits)).scaleb(-digits)
            whole = _times(whole, Literal(value, Decimal(_WIDEST, digits)))
        target = Decimal(_WIDEST, root_slot.scale)
        return whole if whole.type == target else Cast(whole, target, False)


def _lifted(factor: Factor) -> AggregateCall:
    """The aggregate over one table's rows that a slot of its leaf keeps."""
    where: Expression | None = None
    for guard in factor.guards:
        where = guard if where is None else conjunction(where, guard)
    if not factor.values:
        return AggregateCall("count", (), BIGINT, False, where=where)
    values = [_as_double(each) if factor.is_float else _exact(each) for each in factor.values]
    product = values[0]
    for each in values[1:]:
        product = _times(product, each)
    type_: Type = DOUBLE if factor.is_float else Decimal(_WIDEST, factor.scale)
    return AggregateCall("sum", (product,), type_, True, where=where)


def _sum(value: Expression) -> AggregateCall:
    if isinstance(value.type, Float):
        return AggregateCall("sum", (value,), DOUBLE, True)
    whole = _exact(value)
    assert isinstance(whole.type, Decimal)
    return AggregateCall("sum", (whole,), Decimal(_WIDEST, whole.type.scale), True)


def _slot_type(slot: Slot, view: View, signature: Signature) -> Type:
    """The type of a slot's column."""
    if slot.kind == "sum":
        return DOUBLE
    if view.is_leaf and not any(factor.values for _, factor in signature):
        return BIGINT
    return Decimal(_WIDEST, sum(factor.scale for _, factor in signature))


def _without_null(group: Aggregate, keys: tuple[str, ...]) -> Relation:
    """A group-by whose sums over nothing are zero."""
    outputs: list[Named] = []
    for i, field in enumerate(group.schema):
        column = Column(field.name, field.type, field.nullable)
        if i < len(keys) or not field.nullable:
            outputs.append((field.name, column))
        else:
            zero = _zero(field.type)
            outputs.append((field.name, Call("coalesce", (column, zero), field.type, False)))
    return Project(group, tuple(outputs))


def _zero(type_: Type) -> Literal:
    if isinstance(type_, Float):
        return Literal(0.0, type_)
    return Literal(decimal.Decimal(0) if isinstance(type_, Decimal) else 0, type_)


def _equal(left: Expression, right: Expression) -> Expression:
    return Call("=", (left, right), BOOLEAN, left.nullable or right.nullable)


def _exact(value: Expression) -> Expression:
    """An exact value as a wide decimal with its own digits after the point."""
    if isinstance(value.type, Decimal):
        target = Decimal(_WIDEST, value.type.scale)
        return value if value.type == target else Cast(value, target, value.nullable)
    assert isinstance(value.type, Integer)
    return Cast(value, Decimal(_WIDEST, 0), value.nullable)


def _as_double(value: Expression) -> Expression:
    return value if isinstance(value.type, Float) else Cast(value, DOUBLE, value.nullable)


def _scaled(value: Expression, coefficient: Fraction) -> Expression:
    """A float times a constant, as triggers have it."""
    up, down = float_fraction(coefficient)
    if up != 1.0:
        value = _times(value, Literal(up, DOUBLE))
    if down != 1.0:
        value = Call("/", (value, Literal(down, DOUBLE)), DOUBLE, value.nullable)
    return value


def _times(left: Expression, right: Expression) -> Expression:
    if isinstance(left.type, Float):
        return Call("*", (left, right), DOUBLE, left.nullable or right.nullable)
    assert isinstance(left.type, Decimal)
    assert isinstance(right.type, Decimal)
    type_ = Decimal(_WIDEST, left.type.scale + right.type.scale)
    return Call("*", (left, right), type_, left.nullable or right.nullable)


def _multiplied(parts: list[Expression]) -> Expression:
    if any(isinstance(part.type, Float) for part in parts):
        parts = [_as_double(part) for part in parts]
    else:
        parts = [_exact(part) for part in parts]
    product = parts[0]
    for part in parts[1:]:
        product = _times(product, part)
    return product
