"""A program: what one block of a view keeps, and what runs when a delta arrives. Data only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from typing import Literal as OneOf

from viewmill.algebra.expressions import Expression
from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.relations import Named, Relation
from viewmill.algebra.rings import Ring
from viewmill.algebra.schema import Schema
from viewmill.errors import Span
from viewmill.program.arrays import Arrays
from viewmill.program.exchange import ONE_SHARD, Exchange
from viewmill.program.exchange import Single as Single  # a name of this module, too
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.states import Indexed, State
from viewmill.program.text_functions import Lookup
from viewmill.program.window_parts import WindowParts
from viewmill.program.windows import Windowed

if TYPE_CHECKING:
    import pyarrow as pa

    from viewmill.deltas.delta import Delta
    from viewmill.deltas.product import Product
    from viewmill.program.kept_parts import KeptParts


@dataclass(frozen=True)
class Input:
    """An occurrence of a source: a self-join has two inputs of one source."""

    name: str
    source: str
    schema: Schema  # the source's own column names
    static: bool = False


@dataclass(frozen=True)
class Test:
    """A comparison of a column with one of some constants, or with another column."""

    column: str
    operator: str  # = <> < <= > >=
    words: tuple[int | str, ...] = ()  # more than one: equal to one of them
    other: str | None = None


@dataclass(frozen=True)
class Trigger:
    """What runs when a delta of `input` arrives.

    function(start, size, multiplicity, column, [column_null,] ..., state, ..., texts, errors)
    works on rows start to size and returns where it stopped: at size, or where a state is full.
    """

    input: str
    function: str
    columns: tuple[str, ...]  # of the input, in the order of the arguments
    # The cost of a row when all states are full: a fill feeds the most expensive input first.
    steps: float = field(default=1.0, repr=False, compare=False)
    # The first conditions of the trigger. Rows that fail them need not be passed to it.
    pushed_filter: tuple[Test, ...] = field(default=(), repr=False, compare=False)
    # The columns by which a batch is summed first if they repeat in it; none where that saves
    # nothing.
    keys: tuple[str, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class FactorColumns:
    """What a product trigger reads of a factor: columns in the order of the arguments, a value."""

    columns: tuple[str, ...]
    has_value: bool


@dataclass(frozen=True)
class ProductTrigger:
    """What runs when a product of one shape arrives.

    function(size, multiplicity, column, [column_null,] ... for each factor, state, ..., scratch,
    ..., texts, errors) gives 1, or 0 if it failed before it changed anything. Scratch states are
    empty when it starts; nobody else reads them.
    """

    source: str
    function: str
    factors: tuple[FactorColumns, ...]
    value: str | None  # the column whose shares the factors have
    scratch: tuple[tuple[str, Indexed], ...]
    texts: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Message:
    """What failure number i means."""

    kind: str  # the name of an error class in viewmill.errors
    text: str
    span: Span | None = None


@dataclass(frozen=True)
class ListedFactor:
    """A list of a factorized result, found by `first`, and the lists that an entry leads to."""

    state: str
    first: tuple[str, ...]
    rest: tuple[str, ...]
    children: tuple[ListedFactor, ...] = ()


@dataclass(frozen=True)
class Enumeration:
    """How the rows of a factorized result are put together.

    function(at, state, ..., out, texts, errors) emits rows from the positions `at` on, as many as
    `out` takes and the word behind the positions asks for, and gives 1 if there are more. `counted`
    is the state whose only entry holds the number of rows. `factors` are the lists at the top, None
    where different values may make equal rows.
    """

    function: str
    depth: int
    counted: str
    factors: tuple[ListedFactor, ...] | None


@dataclass(frozen=True)
class Triggers:
    """A body that is generated Python source.

    Besides the triggers it defines flush(start, state, ..., out, texts, errors), which emits the
    change since the last commit, and contents(start, state, ..., out, texts, errors), which emits
    every row. Both return where they stopped, or -1 at the end.
    """

    source: str
    triggers: tuple[Trigger, ...]
    texts: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    rebuild: bool = False  # after a load rebuild(state, ..., texts, errors) completes the states
    lookups: tuple[Lookup, ...] = ()  # functions of strings: look_word(texts, i, id)
    replays: tuple[Trigger, ...] = ()  # like triggers, with `out`: the view after each row
    rings: tuple[tuple[str, Ring], ...] = ()  # of users: prefix_add, prefix_lift_0 are functions
    enumeration: Enumeration | None = None  # then `flush` emits nothing, and there is no `contents`
    result: str = ""  # the state whose touched entries `flush` emits, one after another


@dataclass(frozen=True)
class Queries:
    """A body that is a query for the engine: the view is computed again."""

    query: Relation


@dataclass(frozen=True)
class ByRow:
    """A body without states: the rows that pass, with what Python computes of each of them.

    `names` are the input's columns as the expressions call them.
    """

    names: tuple[str, ...]
    where: tuple[Expression, ...]
    outputs: tuple[Named, ...]


@dataclass(frozen=True)
class Recursive:
    """A body that feeds the output of a program of triggers back to it, until nothing is made.

    `step` reads the rows of the last step as its input `rows`; the last column there and of its
    output is the number of that step. The rows of the input `base` are step 0. Without `all` a row
    belongs to the first step that makes it. Rows of step number `limit` are an error.
    """

    base: str
    rows: str
    step: Program
    all: bool
    limit: int
    span: Span | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Step:
    """A function of time that never falls, in microseconds, days or a count since 1970.

    add        what is added
    scale      days as microseconds: multiplied by `number`
    floor      divided by `number`, downwards
    divide     divided by `number`, towards zero
    truncate   down to a multiple of `number` microseconds after `offset`
    calendar   down to the first of a group of `number` months
    months     `number` months later, at the end of a shorter month
    year       the number of the year
    """

    kind: str
    number: int = 1
    offset: int = 0
    in_days: bool = False  # of `calendar`, `months`: whether the argument is a day


@dataclass(frozen=True)
class TimeBound:
    """A comparison of a column with a function of the clock: the steps, the first one first."""

    column: int
    sign: str  # = < <= > >=, with the column on the left
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Timed:
    """A body that shows the rows of `input` while all bounds hold, as time passes."""

    input: str
    bounds: tuple[TimeBound, ...]
    tables: tuple[str, ...] = ()  # the least of their watermarks is the time, if there are any


@dataclass(frozen=True)
class MomentParts:
    """A body that puts cofactors with categories together, from inputs that are blocks.

    A row of `whole` is a group: its keys first, at `place` the moments of its numbers. `outputs`
    are the columns of it that are shown. The other inputs have the keys, one or two categories, and
    the moments or the count of the rows with these.
    """

    type: MixedMoments
    key_count: int
    place: int
    outputs: tuple[int, ...]
    whole: str
    by_category: tuple[str, ...]
    by_pair: tuple[str, ...]


@dataclass(frozen=True)
class Exploded:
    """A body without states: a row for each element of the array in a column.

    See `algebra.relations.Explode`; the columns that are made come last.
    """

    input: str
    column: int
    form: OneOf["explode", "posexplode", "inline"]
    outer: bool


Body = (
    Triggers
    | Arrays
    | ByRow
    | Queries
    | PartQueries
    | Windowed
    | WindowParts
    | PatternQueries
    | Recursive
    | Timed
    | MomentParts
    | Exploded
)


@dataclass(frozen=True)
class Program:
    """One block of a view, ready to be built."""

    strategy: str
    query: Relation
    inputs: tuple[Input, ...]
    output: Schema
    states: tuple[State, ...]
    body: Body
    exchange: Exchange = ONE_SHARD  # how a pipeline in shards spreads it

    @property
    def fingerprint(self) -> str:
        """Names the program: equal text, equal fingerprint."""
        text = repr((self.strategy, self.inputs, self.output, self.states, self.body))
        return blake2b(text.encode(), digest_size=6).hexdigest()


class Maintainer(Protocol):
    """A program at work; every maintainer is a subclass of this.

    apply, advance and flush change states but not what is committed; commit makes the change last;
    rollback goes back to exactly the last commit.

    What only some maintainers can do has the answer of the others here.
    """

    is_lost: bool = False  # a trigger stopped midway, so that the states mean nothing
    compiled: bool = True  # its triggers are not interpreted
    late_rows: int = 0  # rows that came too late for their windows
    enumerator: Any = None  # reads the rows of a factorized result, which are not listed
    family: Any = None  # the windows of a table that it is a member of

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Feed the change of one input; nothing is emitted."""

    def flush(self) -> Delta:
        """The change of the output since the last commit. Overflow is raised here."""

    def apply_and_flush(self, input: str, delta: Delta, is_lent: bool) -> Delta:
        """Feed the change of one input, and give that of the output.

        What is lent is good until this maintainer is asked again.
        """
        self.apply(input, delta)
        return self.flush()

    def commit(self) -> None:
        """Keep what was applied."""

    def rollback(self) -> None:
        """Undo everything applied since the last commit."""

    def contents(self) -> Delta:
        """The output as committed."""

    def load(self, state: str, rows: Iterable[pa.RecordBatch]) -> None:
        """Replace a state by the rows of its definition."""
        raise KeyError(state)

    def release(self, state: str) -> None:
        """Give the state's memory back."""
        raise KeyError(state)

    def snapshot(self, state: str) -> Iterator[pa.RecordBatch]:
        """The rows of a state; `load` is the inverse."""
        raise KeyError(state)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        return {}

    @property
    def triggered(self) -> Maintainer:
        """The maintainer that runs triggers: of a recursive CTE that of its step."""
        return self

    @property
    def kept_parts(self) -> KeptParts | None:
        """The parts of a temporal view or a pattern."""
        return None

    def has_moved(self) -> bool:
        """Whether those who read it must look again, although no row changed: a part came."""
        return False

    def count_rows(self) -> int | None:
        """The number of rows shown; None where it is counted from the changes."""
        return None

    def moment_groups(self) -> Any:
        """The groups of a cofactor over categories, as they are kept; None of another program."""
        return None

    def can_replay(self, input: str) -> bool:
        """Whether rows of this input can be fed one at a time, recording the view after each."""
        return False


@runtime_checkable
class RowHolder(Maintainer, Protocol):
    """A maintainer that can take the rows of a view over from another, as they are."""

    def hold(self, contents: Delta) -> None:
        """These are the rows that it shows from now on."""
