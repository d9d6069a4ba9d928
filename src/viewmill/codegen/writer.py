"""The frame of a program with several states: heads of functions, loops, the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from viewmill.algebra.expressions import Column, Expression
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Field
from viewmill.algebra.types import Boolean, Float, Nested, has_equal_words, has_kept_words
from viewmill.codegen.inputs import input_of
from viewmill.codegen.linear import used_columns
from viewmill.codegen.pushed_filter import pushed_filter_of
from viewmill.codegen.scalar import Operand, Scalar
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.codegen.words import MOST_KEYS, Argument, bind_argument
from viewmill.program.program import Input, Program, Trigger, Triggers
from viewmill.program.states import Listed, Ordered, Passing, Sorted, State, StateKind

_RESERVED = (
    "start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "out", "settle",
)  # fmt: skip

_PREFETCH_DISTANCE = 16  # rows


class Writer:
    """Collects the states, then the triggers, then flush and contents of one program."""

    def __init__(self, query: Relation, strategy: str) -> None:
        self.query, self.strategy = query, strategy
        self.source = Source()
        for word in _RESERVED:
            self.source.name(word)
        self.states: list[State] = []
        self.inputs: list[Input] = []
        self.triggers: list[Trigger] = []

    def know(self, scans: Iterable[Scan]) -> None:
        """The scans that are read; before the first function, for what it computes of strings."""
        for scan in scans:
            self.source.know(scan, input_of(scan))

    def state(self, wish: str, kind: StateKind, definition: Relation, *, rows: bool = False) -> str:
        """Keep a state; gives its name. All are declared before the first function.

        `rows` if it is no matter whether equal rows are one entry or several.
        """
        _check_key(kind, rows=rows)
        if isinstance(kind, Ordered | Sorted):
            _check_order(kind)
        name = self.source.name(wish)
        self.states.append(State(name, kind, definition))
        return name

    @property
    def handles(self) -> list[str]:
        """The states as arguments."""
        return [state.name for state in self.states]

    @contextmanager
    def trigger(
        self,
        scan: Scan,
        reads: Sequence[Expression],
        where: Sequence[Expression],
        prefetched: tuple[str, Sequence[Expression]] = ("", ()),
    ) -> Iterator[Scalar]:
        """Open a trigger: head, loop, filter. Inside, `i` is the row and `m` its multiplicity.

        `prefetched` is a state that each row looks up, and its key.
        """
        source, input_ = self.source, input_of(scan)
        arguments = list(self._arguments(scan, input_, used_columns([*reads, *where])))
        bound = {each.column: bind_argument(each, scan) for each in arguments}
        texts = [text for each in arguments for text in (each.value, each.null) if text]
        names = ["start", "size", "multiplicity", *texts, *self.handles, "texts", "errors"]
        function = source.name(f"on_{input_.name}")
        own = dict(zip(scan.schema.names, input_.schema.names, strict=True))
        columns = tuple(own[each.column] for each in arguments)
        self.inputs.append(input_)
        pushed = pushed_filter_of(where, own)
        self.triggers.append(Trigger(input_.name, function, columns, pushed_filter=pushed))
        with source.block(f"def {function}({', '.join(names)}):"):
            fetch = _fetch(source, bound, *prefetched)
            with source.block("for i in range(start, size):"):
                if fetch:
                    source.line(fetch)
                with source.block("if failed(errors):"):
                    source.line("return i")
                source.line("m = multiplicity[i]")
                scalar = Scalar(source, bound, "i")
                skip_unless(scalar, where)
                yield scalar
            source.line("return size")
        source.line()

    def _arguments(self, scan: Scan, input_: Input, used: set[str]) -> Iterator[Argument]:
        own = dict(zip(scan.schema.names, input_.schema.names, strict=True))
        for field in scan.schema:
            if field.name in used:
                if not has_kept_words(field.type):
                    raise NotTaken(f"a column of type {field.type}", scan.span)
                value = self.source.name(own[field.name])
                null = self.source.name(f"{value}_null") if field.nullable else None
                yield Argument(field.name, value, null)

    @contextmanager
    def loop(self, name: str, count: str, *, settle: bool = False) -> Iterator[None]:
        """The head and the loop over t of flush or contents."""
        source, states = self.source, ", ".join(self.handles)
        with source.block(f"def {name}(start, {states}, out, texts, errors):"):
            if settle:
                with source.block("if start == 0:"):
                    source.line(f"settle({states}, texts, errors)")
            with source.block(f"for t in range(start, {count}):"):
                with source.block("if emit_full(out):"):
                    source.line("return t")
                yield
            source.line("return -1")
        source.line()

    @contextmanager
    def settle(self) -> Iterator[None]:
        """Open the function that runs once before the first row is emitted."""
        states = ", ".join(self.handles)
        with self.source.block(f"def settle({states}, texts, errors):"):
            yield
            self.source.line("return 0")
        self.source.line()

    def program(self, *, rebuild: bool = False, result: str = "") -> Program:
        """Put the pieces together; `rebuild` if a function of that name completes a load.

        What fails in `flush` is a touched entry of the state `result`.
        """
        return Program(
            strategy=self.strategy,
            query=self.query,
            inputs=tuple(self.inputs),
            output=self.query.schema,
            states=tuple(self.states),
            body=Triggers(
                source=self.source.under(self.query),
                triggers=tuple(self.triggers),
                rebuild=rebuild,
                texts=tuple(self.source.texts),
                lookups=tuple(self.source.lookups),
                messages=tuple(self.source.messages),
                result=result,
            ),
        )


def _fetch(
    source: Source, bound: Mapping[str, Operand], state: str, keys: Sequence[Expression]
) -> str:
    """The line that prefetches a later row's entry; none if its key must be computed."""
    words = [bound[each.name].value for each in keys if isinstance(each, Column)]
    is_plain = len(words) == len(keys)
    if (
        not state
        or not words
        or not is_plain
        or any(isinstance(each.type, Float | Boolean) for each in keys)
    ):
        return ""
    far = source.name("far")
    source.line(f"{far} = exceeds_cache({state})")
    later = ", ".join(each.replace("[i]", f"[i + {_PREFETCH_DISTANCE}]") for each in words)
    return f"if {far} and i + {_PREFETCH_DISTANCE} < size: indexed_fetch({state}, ({later},))"


def skip_unless(scalar: Scalar, conditions: Sequence[Expression]) -> None:
    """Write what goes on to the next row unless all conditions are true."""
    for condition in conditions:
        with scalar.source.block(f"if not {scalar.is_true(condition)}:"):
            scalar.source.line("continue")


def _check_order(kind: Ordered | Sorted) -> None:
    """Raise `NotTaken` for an order by ids, which say nothing of it."""
    ordered = (kind.level,) if isinstance(kind, Ordered) else kind.key
    for field in ordered:
        if isinstance(field.type, Nested):
            raise NotTaken(f"an order of {field.type}")


def _check_key(kind: StateKind, *, rows: bool) -> None:
    """Raise `NotTaken` for columns that tell too few or too many rows apart."""
    check_width(kind.key)
    if isinstance(kind, Listed):
        strict = kind.first
    else:
        strict = () if rows or isinstance(kind, Passing) else kind.key
    for field in strict:
        if not has_equal_words(field.type):
            raise NotTaken(f"a column of type {field.type}")


def check_width(fields: Sequence[Field]) -> None:
    """Raise `NotTaken` for columns that a key cannot hold."""
    if len(fields) > MOST_KEYS:
        raise NotTaken(f"more than {MOST_KEYS} columns")
    for field in fields:
        if not has_kept_words(field.type):
            raise NotTaken(f"a column of type {field.type}")
