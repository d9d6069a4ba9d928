"""Write the function that puts the rows of a factorized result together, one after another.

takes  `TreePlan` with a result
gives  enumerate_rows(at, state, ..., out, texts, errors): nested loops over lists, whose positions
       `at` keeps, so that it stops when `out` is full or the rows are as many as the last word of
       `at` asks for, and goes on from there. No list on the way is empty, so the delay between two
       rows depends on the query alone
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from viewmill.algebra.expressions import Column
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.source import Source
from viewmill.program.program import Enumeration, ListedFactor
from viewmill.program.states import Listed
from viewmill.strategies.view_tree.plan import Node, TreePlan
from viewmill.strategies.view_tree.result import STATE, emit_column
from viewmill.strategies.view_tree.rings import arithmetic
from viewmill.strategies.view_tree.rows import key_text, value_of
from viewmill.strategies.view_tree.states import StateRef
from viewmill.strategies.view_tree.tree import View


def write_enumeration(source: Source, plan: TreePlan, states: list[str]) -> Enumeration:
    """The function, and what is needed to count without it."""
    assert plan.result is not None
    return _Writer(source, plan, plan.result).write(states)


@dataclass
class _Writer:
    source: Source
    plan: TreePlan
    top: Node
    words: dict[str, Operand] = field(default_factory=dict)  # of the variables, as in keys
    values: dict[str, Operand] = field(default_factory=dict)
    times: list[str] = field(default_factory=list)
    depth: int = 0

    def write(self, states: list[str]) -> Enumeration:
        source, function = self.source, self.source.name("enumerate_rows")
        arguments = ", ".join(("at", *states, "out", "texts", "errors"))
        with source.block(f"def {function}({arguments}):"):
            with ExitStack() as stack:
                self._node(self.top, stack)
                if not self.depth:
                    self.depth = 1
                    self._rows_without_columns(stack)
                with source.block(f"if emit_full(out) or at[{self.depth}] == 0:"):
                    source.line("return 1")
                source.line(f"at[{self.depth}] -= 1")
                self._emit()
            source.line("return 0")
        source.line()
        return Enumeration(function, self.depth, STATE, self._factors())

    def _node(self, node: Node, stack: ExitStack) -> None:
        """Open the loops of a node and all below it."""
        if node.values is not None:
            entry = self._loop(node.values, stack)
            if not node.rows and not node.children:
                # Everything below it is counted only, and this is the count.
                self.times.append(self._count(node.values, entry))
        for view in node.counted if node.rows or node.children else ():
            self._lookup(view)
        for view in node.rows:
            self.times.append(self._count(view, self._loop(view, stack)))
        for child in node.children:
            self._node(child, stack)

    def _loop(self, view: View, stack: ExitStack) -> str:
        """Write a resumable loop over a list; return the variable of its entry."""
        source, place = self.source, self._place(view)
        assert isinstance(place.kind, Listed)
        at = f"at[{self.depth}]"
        self.depth += 1
        found = source.name(f"l_{view.name}")
        source.line(f"{found} = list_of({place.state}, {self._key(place.first)})")
        stack.callback(source.line, f"{at} = 0")
        loop = source.block(f"while {at} < list_size({place.state}, {found}):")
        stack.enter_context(loop)
        stack.callback(source.line, f"{at} += 1")
        entry = source.name(f"e_{view.name}")
        source.line(f"{entry} = list_at({place.state}, {found}, {at})")
        self._bind(place, entry)
        return entry

    def _bind(self, place: StateRef, entry: str) -> None:
        """The variables that an entry makes known."""
        assert isinstance(place.kind, Listed)
        source, fields = self.source, place.kind.rest
        for i, each in enumerate(fields):
            word, null = source.name(f"{each.name}_key"), None
            source.line(f"{word} = list_word({place.state}, {entry}, {i})")
            if each.nullable:
                null = source.name(f"{each.name}_null")
                bits = f"list_word({place.state}, {entry}, {len(fields)})"
                source.line(f"{null} = ({bits} >> {i}) & 1 != 0")
            self.words[each.name] = Operand(word)  # only joined ones are looked up: never NULL
            self.values[each.name] = Operand(value_of(word, each), null)

    def _lookup(self, view: View) -> None:
        """How often rows are there that show nothing of their own."""
        place, entry = self.plan.places.for_lookup(view), self.source.name(f"e_{view.name}")
        if isinstance(place.kind, Listed):
            rest = tuple(each.name for each in place.kind.rest)
            found = f"list_find({place.state}, {self._key(place.first)}, {self._key(rest)})"
        else:
            found = f"indexed_find({place.state}, {self._key(view.keys)})"
        self.source.line(f"{entry} = {found}")
        times = self.source.name("times")
        self.source.line(f"{times} = {self._count(view, entry)} if {entry} != 0 else 0")
        self.times.append(times)

    def _count(self, view: View, entry: str) -> str:
        """The row count of a view's entry as a number."""
        place = self._place(view)
        (slot,) = self.plan.layout.slots(view)
        count = arithmetic.read(place.slot_ref(view, entry), slot)
        return count.text if count.kind == "int" else f"wide_low({count.text})"

    def _place(self, view: View) -> StateRef:
        return self.plan.places.of(view)[0]

    def _key(self, names: tuple[str, ...]) -> str:
        fields = [self.plan.places.field_of(name) for name in names]
        return key_text([self.words[name] for name in names], fields)

    def _rows_without_columns(self, stack: ExitStack) -> None:
        """Nothing is shown but constants: one row, as often as there are rows."""
        source = self.source
        source.line(f"e = indexed_find({STATE}, ())")
        stack.enter_context(source.block("if at[0] == 0 and e != 0:"))
        stack.callback(source.line, "at[0] = 1")
        self.times = [f"wide_low(wide_at({STATE}, e, 0))"]

    def _emit(self) -> None:
        source, block = self.source, self.plan.block
        bound = {name: self.values[variable] for name, variable in block.keys}
        scalar = Scalar(source, bound, "0")
        operands = [scalar.emit(each) for _, each in block.outputs]
        fields = block.query.schema.fields
        for i, (operand, each) in enumerate(zip(operands, fields, strict=True)):
            emit_column(source, i, operand, each)
        source.line(f"emit(out, {' * '.join(self.times) or '1'})")

    # Counting.

    def _factors(self) -> tuple[ListedFactor, ...] | None:
        """How different rows are counted, None where different values may make equal rows."""
        shown = {v for _, v in self.plan.block.keys}
        outputs = [each for _, each in self.plan.block.outputs]
        hidden = {each.variable for each in self.top.walk() if each.variable} - shown
        plain = all(isinstance(each, Column) for each in outputs)
        return None if hidden or not plain else self._below(self.top)

    def _below(self, node: Node) -> tuple[ListedFactor, ...]:
        """The lists that an entry of a node leads to."""
        found = [self._list(view, ()) for view in node.rows]
        for child in node.children:
            assert child.values is not None
            found.append(self._list(child.values, self._below(child)))
        return tuple(found)

    def _list(self, view: View, children: tuple[ListedFactor, ...]) -> ListedFactor:
        place = self._place(view)
        assert isinstance(place.kind, Listed)
        rest = tuple(each.name for each in place.kind.rest)
        return ListedFactor(place.state, place.first, rest, children)
