"""Lines of generated source, indented, with names that are never used twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from viewmill.algebra.display import display
from viewmill.algebra.expressions import Expression
from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.walk import walk_relations
from viewmill.errors import RefusedCode, Span
from viewmill.program.generated_source import Names, comments, identifier, is_one_line
from viewmill.program.program import Input, Message
from viewmill.program.text_functions import EVERY_TEXT, Lookup, base_column
from viewmill.program.trigger_functions import FUNCTIONS

# Names that generated lines call, so that no column may take them.
_CALLED = FUNCTIONS | {
    "abs", "bool", "float", "int", "range", "max", "min",
    "before", "change", "contents", "flush", "ranked", "show", "shown", "times",
}  # fmt: skip

_LINES = str.maketrans("└├─│", "++-|")  # of a tree, in ASCII


class Source:
    """Collects the text of a trigger, its messages and the texts it mentions."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.messages: list[Message] = []
        self.texts: list[str] = []
        self.lookups: list[Lookup] = []
        self.origins: dict[str, tuple[str, str]] = {}  # input and column that a name comes from
        self._depth = 0
        self._names = Names(_CALLED)

    def line(self, text: str = "") -> None:
        """One line at the present depth."""
        if not is_one_line(text):
            raise RefusedCode("generated code is written line by line, in printable ASCII")
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A line that ends with a colon, and what is inside it."""
        self.line(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    def name(self, wish: str) -> str:
        """A Python name that reads like `wish` and is new, and that no ring's function has."""
        base = identifier(wish)
        return self._names.new(f"v_{base}" if base.startswith("ring_") else base)

    def reserve(self, *names: str) -> None:
        """Reserve names that already have a meaning, so that no variable gets them."""
        self._names.reserve(names)

    def comment(self, text: str) -> None:
        """Write `text` as comment lines, safe for any content."""
        for line in comments(text):
            self.line(line)

    def message(self, kind: str, text: str, span: Span | None) -> int:
        """The code of a failure."""
        message = Message(kind, text, span)
        if message not in self.messages:
            self.messages.append(message)
        return self.messages.index(message)

    def text(self, value: str) -> str:
        """The expression for the dictionary id of a string."""
        if value not in self.texts:
            self.texts.append(value)
        return f"text(texts, {self.texts.index(value)})"

    def know(self, scan: Scan, input_: Input) -> None:
        """Note that the columns of a scan come from this input, under its own names."""
        for name, own in zip(scan.schema.names, input_.schema.names, strict=True):
            self.origins[name] = (input_.name, own)

    def lookup(self, expression: Expression) -> int | None:
        """The id of a lookup function over a string column; None if its source is unknown."""
        origin = self.origins.get(base_column(expression).name)
        if origin is None:
            return None
        names = frozenset(name for name, each in self.origins.items() if each == origin)
        made = Lookup(*origin, names, expression)
        if made not in self.lookups:
            self.lookups.append(made)
        return self.lookups.index(made)

    def every_text(self) -> int:
        """The id of the table of all strings, to compare them by order."""
        if EVERY_TEXT not in self.lookups:
            self.lookups.append(EVERY_TEXT)
        return self.lookups.index(EVERY_TEXT)

    def under(self, query: Relation, more: Iterable[str] = ()) -> str:
        """The whole text, under comments with the query and `more` lines."""
        said = [_sql_of(query), "", display(query).translate(_LINES), *more]
        head = [line for text in said for line in comments(text)]
        return "\n".join([*head, "", ""]) + str(self)

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def _sql_of(query: Relation) -> str:
    """The text that the query was read from."""
    spans = (getattr(each, "span", None) for each in walk_relations(query))
    return next((span.sql for span in spans if span is not None), "")
