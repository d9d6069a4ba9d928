"""What the recipes of CONTRIBUTING.md add to a copy of the project: a small example of each kind.

takes  the folder of a copied package
does   adds each recipe's files, and its lines in files that are there; no recipe touches a fourth
"""

from __future__ import annotations

from pathlib import Path

Files = dict[str, str]  # whole files by path
Lines = tuple[tuple[str, str, str], ...]  # path, the line they come before, the lines

AGGREGATE = """
from viewmill.algebra.aggregates.declaration import AggregateFunction, Linear
from viewmill.algebra.aggregates.parts import compared, count_where
from viewmill.algebra.expressions import Literal
from viewmill.algebra.types import BIGINT


def _linear(call):
    value = call.arguments[0]
    positive = compared(">", value, Literal(0, value.type))
    return Linear((count_where(call, positive),), lambda counts: counts[0])


AGGREGATES = (
    AggregateFunction(
        "count_positive", ("whole",), BIGINT, nullable=False, linear=_linear,
        duckdb="count({distinct}CASE WHEN {0} > 0 THEN 1 END){suffix}",
    ),
)
"""

KIND = """
@dataclass(frozen=True)
class Tally(KeysAndPayloads):
    \"\"\"One number.\"\"\"

    adds: ClassVar[str] = "tally_add"
    reads: ClassVar[str] = "tally_old tally_now"

    key: tuple[Field, ...] = ()
    payload: tuple[Slot, ...] = (Slot("n", "int"),)


"""

STORE = """

class TallyStore:
    def __init__(self, kind):
        self.words = np.zeros(2, np.int64)
        self.handle = HANDLE

    nbytes = 16

    def make_room(self):
        return False

    def commit(self):
        self.words[1] = self.words[0]

    def rollback(self):
        self.words[0] = self.words[1]

    def clear(self):
        self.words[:] = 0

    def show_committed(self, on):
        self.shown = on

    def load_payload(self, keys, payload):
        raise NotImplementedError

    def export_payload(self):
        raise NotImplementedError


STORES = {Tally: TallyStore}
"""

COMPILED_STATE = """
import numpy as np

from viewmill.kernels.compiler import structure
from viewmill.kernels.structures.memory import load_word, store_word
from viewmill.program.states import Tally


@structure
def tally_add(s, m):
    store_word(s, load_word(s) + m)


@structure
def tally_now(s):
    return load_word(s)


@structure
def tally_old(s):
    return load_word(s + 8)
""" + STORE.replace("HANDLE", "int(self.words.ctypes.data)")

PLAIN_STATE = """
import numpy as np

from viewmill.program.states import Tally


def tally_add(s, m):
    s[0] += m


def tally_now(s):
    return int(s[0])


def tally_old(s):
    return int(s[1])
""" + STORE.replace("HANDLE", "self.words")

SINK = """
class Collected:
    guarantee, takes_each_version, takes_whole = "at least once", True, False
    title = "a list"

    def __init__(self, rows):
        self.rows = rows

    def open(self, origin):
        pass

    def replace(self, rows):
        self.rows[:] = rows.to_arrow().to_pylist()

    def apply(self, change):
        self.rows += change.to_arrow().to_pylist()

    def has_taken(self, change):
        return False

    def close(self):
        pass


collected = Collected
"""

SOURCE = """
import pyarrow as pa

from viewmill.sources.source import Step


class Numbers:
    has_more_columns, reads, title = False, "numbers", "numbers"

    def __init__(self, count):
        self.count = count

    def schema(self):
        return pa.schema([("n", pa.int64())])

    def changes(self, offsets, schema, key=()):
        first = int(offsets.get("n", 0))
        if first < self.count:
            rows = pa.table({"n": list(range(first, self.count))}, schema=schema)
            yield Step(rows, {"n": str(self.count)})

    def close(self):
        pass


numbers = Numbers
"""

POLICY = """
@dataclass(frozen=True)
class Hastily:
    \"\"\"When two rows wait.\"\"\"

    def __str__(self) -> str:
        return "REFRESH HASTILY"


"""

COMMAND = """
def hello() -> None:
    \"\"\"Greet.\"\"\"
    print("hello from a new command")
"""

RULE = """
from viewmill.algebra.expressions import Call
from viewmill.algebra.relations import Filter
from viewmill.algebra.walk import transform


def drop_double_not(query):
    return transform(query, _drop)


def _drop(relation):
    if isinstance(relation, Filter):
        match relation.condition:
            case Call("not", (Call("not", (inner,)),)):
                return Filter(relation.input, inner)
    return relation
"""

_WINDOW = (
    '        WindowFunction("place", INT, _UP_TO_ROW, parts_peers=True, duckdb="row_number"),\n'
)
# A function of Spark that is not modelled yet.
_POSITION = (
    '    "bitmap_bit_position": PythonFunction(lambda x: (x - 1) % 32768, (BIGINT,), BIGINT),\n'
)

RECIPES: dict[str, tuple[Files, Lines]] = {
    "aggregate": ({"algebra/aggregates/count_positive.py": AGGREGATE}, ()),
    "ring": ({}, ()),  # a user's: it is registered, not added
    "kind of state": (
        {
            "kernels/structures/tally.py": COMPILED_STATE,
            "kernels/plain/tally.py": PLAIN_STATE,
        },
        (
            ("program/states.py", "# All kinds; each", KIND),
            ("program/states.py", "Keyed | Indexed | Listed", "Tally | "),
        ),
    ),
    "scalar function": (
        {},
        (("program/python_functions.py", '    "shiftleft": PythonFunction(', _POSITION),),
    ),
    "window function": (
        {},
        (
            ("algebra/window_functions.py", '        WindowFunction("rank"', _WINDOW),
            (
                "strategies/dataflow/operators/window_calls.py",
                '    "row_number": Ranking,',
                '    "place": Ranking,\n',
            ),
        ),
    ),
    "sink": (
        {"sinks/collected.py": SINK},
        (("sinks/__init__.py", "__all__", "from viewmill.sinks.collected import collected\n"),),
    ),
    "source": (
        {"sources/numbers.py": SOURCE},
        (("sources/__init__.py", "__all__", "from viewmill.sources.numbers import numbers\n"),),
    ),
    "policy": (
        {},
        (
            ("algebra/refresh.py", "Policy = Immediate", POLICY),
            ("algebra/refresh.py", "Immediate | OnDemand |", "Hastily | "),
            ("sql/parse_clauses.py", "    Immediate,", "    Hastily,\n"),
            ("sql/parse_clauses.py", '"IMMEDIATE", "ON DEMAND", "EVERY"', '"HASTILY", '),
            (
                "sql/parse_clauses.py",
                '        case "IMMEDIATE":',
                '        case "HASTILY":\n            return Hastily()\n',
            ),
            ("policies/policies.py", "    Immediate,", "    Hastily,\n"),
            (
                "policies/policies.py",
                "        case EveryRows(rows):",
                "        case Hastily():\n            return waiting.rows >= 2\n",
            ),
        ),
    ),
    "command": (
        {"cli/hello.py": COMMAND},
        (
            ("cli/main.py", "from viewmill.cli.init", "from viewmill.cli.hello import hello\n"),
            ("cli/main.py", "    init, run, dry_run", "    hello,\n"),
        ),
    ),
    "rewrite rule": (
        {"rewrite/drop_double_not.py": RULE},
        (
            (
                "rewrite/rules.py",
                "from viewmill.rewrite.drop_limits",
                "from viewmill.rewrite.drop_double_not import drop_double_not\n",
            ),
            ("rewrite/rules.py", "    fold_dates,\n    drop_limits", "    drop_double_not,\n"),
        ),
    ),
}


def touched(kind: str) -> set[str]:
    """The files that a recipe touches."""
    files, lines = RECIPES[kind]
    return {*files, *(path for path, _, _ in lines)}


def follow(kind: str, copy: Path) -> None:
    """Do what a recipe says, in a copy of the package."""
    files, lines = RECIPES[kind]
    for path, text in files.items():
        (copy / path).write_text(text)
    for path, before, added in lines:
        text = (copy / path).read_text()
        assert text.count(before) == 1, f"{path} has {before!r} {text.count(before)} times"
        (copy / path).write_text(text.replace(before, added + before))
