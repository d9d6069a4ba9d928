"""Golden scripts: commands, `---`, then the output they must print.

takes  a script; `Script` is a mill that understands its commands
does   compares what each command prints with what the script says, or rewrites the script

Commands, one per line (a line that starts with a space continues the one above):

    CREATE ..., SELECT ..., any SQL     carried out; rows, plans and errors are printed
    view name: SELECT ...               a materialized view
    orders + (1, 'ann') (2, 'bob')      rows come; every view prints how it changed
    orders - (1, 'ann')                 rows go
    orders ~ (1, 'cy')                  rows replace those that have their key
    batch orders + (...); lines - (...)      several changes, one refresh
    show STAGE name or SELECT ...       lowered, algebra, plan, program or kernel
    rewrite RULE: SELECT ...            the tree before and after one rule
    rows name, status name key ...      what a view shows, what it says of itself

After every command each view is compared with its definition computed again and with the sum of the
changes it printed, so that a golden script cannot bless a wrong answer.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from viewmill.errors import ViewmillError
from viewmill.testing.oracle import Row, canonical, differences

Run = Callable[[str], str]  # one command in, its printed output out

_NAMES = {"NULL": None, "nan": float("nan"), "inf": float("inf")}
_CHANGE = re.compile(r"(\w+) ([-+~]) (\(.*\))$", re.DOTALL)


def check_script(path: Path, run: Run, *, update: bool = False) -> None:
    """Run every block of `path`; with `update`, rewrite the expected output."""
    actual = "\n\n".join(_run_block(block, run) for block in _blocks(path)) + "\n"
    if update:
        path.write_text(actual)
    assert actual == path.read_text(), f"{path.name} changed; try `make golden`, review the diff"


def _blocks(path: Path) -> list[str]:
    return path.read_text().strip().split("\n\n")


def _run_block(block: str, run: Run) -> str:
    given = block.split("\n---")[0]
    commands = [line for line in given.splitlines() if not line.startswith("#")]
    if not commands:
        return block  # a paragraph of story
    output = [printed for command in _joined(commands) if (printed := run(command))]
    return "\n".join([given, "---", *(output or ["ok"])])


def _joined(lines: Iterable[str]) -> list[str]:
    """Lines with those that continue them."""
    joined: list[str] = []
    for line in lines:
        if line.startswith(" ") and joined:
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    return joined


class Script:
    """A mill that carries out the commands of a golden script."""

    def __init__(self, mill: Any) -> None:
        self._mill = mill
        self._changes: list[str] = []
        self._shown: dict[str, Counter[Row]] = {}

    def run(self, command: str) -> str:
        """Carry out one command; what it prints, without empty lines."""
        try:
            printed = self._carry_out(command)
        except ViewmillError as error:
            printed = f"{type(error).__name__}: {error}"
        self._listen()
        self._check()
        lines = [*self._changes, *printed.splitlines()]
        self._changes.clear()
        return "\n".join(line.rstrip() for line in lines if line.strip())

    def _carry_out(self, command: str) -> str:
        change = _CHANGE.match(command)
        if change:
            self._change(*change.groups())
            return ""
        word, _, rest = command.partition(" ")
        own = {
            "view": self._view, "batch": self._batch, "show": self._show, "rows": self._rows,
            "status": self._status, "rewrite": self._rewrite,
        }.get(word)  # fmt: skip
        if own is not None:
            return own(rest)
        result = self._mill.sql(command)
        return "" if result is None else show_result(result)

    # Changes.

    def _change(self, table: str, sign: str, rows: str) -> None:
        call = {"+": self._mill.insert, "-": self._mill.delete, "~": self._mill.upsert}[sign]
        call(table, read_rows(rows))

    def _batch(self, changes: str) -> str:
        with self._mill.batch():
            for each in changes.split("; "):
                found = _CHANGE.match(each)
                assert found, f"no change: {each}"
                self._change(*found.groups())
        return ""

    # Looking.

    def _view(self, rest: str) -> str:
        name, _, query = rest.partition(": ")
        self._mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        return ""

    def _show(self, rest: str) -> str:
        stage, _, what = rest.partition(" ")
        if stage == "lowered":
            return _display(self._lowered(what))
        text = str(self._mill.show(what, stage))
        return re.sub(r"\b[0-9a-f]{12}\b", "<fingerprint>", text)

    def _rewrite(self, rest: str) -> str:
        rule, _, query = rest.partition(": ")
        before = self._lowered(query)
        after = pkgutil.resolve_name(f"viewmill.rewrite.{rule}:{rule}")(before)
        return f"before\n{_display(before)}\nafter\n{_display(after)}"

    def _lowered(self, query: str) -> Any:
        (statement,) = pkgutil.resolve_name("viewmill.sql.parse:parse")(query)
        lower = pkgutil.resolve_name("viewmill.sql.lower:lower")
        return lower(statement.query, query, self._mill._core.catalog, None)

    def _rows(self, name: str) -> str:
        return show_result(self._mill[name])

    def _status(self, rest: str) -> str:
        name, *keys = rest.split()
        status = self._mill[name].status()
        return "\n".join(f"{key} = {status[key]}" for key in keys)

    # Checking.

    def _listen(self) -> None:
        """Follow views that are new, from what they show now."""
        for name in self._mill.views():
            if name not in self._shown:
                self._shown[name] = _counted(self._mill[name].rows())
                self._mill[name].subscribe(self._note)
        for name in set(self._shown) - set(self._mill.views()):
            del self._shown[name]

    def _note(self, change: Any) -> None:
        signed: dict[str, list[Row]] = {"-": [], "+": []}
        for row, times in change:
            signed["+" if times > 0 else "-"] += [row] * abs(times)
            self._shown[change.view][_name(row)] += times
        for sign, rows in signed.items():
            if rows:
                self._changes.append(f"{change.view} {sign} {show_rows(rows)}")

    def _check(self) -> None:
        for name in self._mill.views():
            view = self._mill[name]
            assert view.verify() == [], f"{name} is wrong"
            shown = self._shown[name]
            rows = [row for row, times in shown.items() for _ in range(times)]
            now = [_name(row) for row in view.rows()]
            assert differences(now, rows) == [], f"the changes of {name} do not add up to its rows"


def _counted(rows: Iterable[Row]) -> Counter[Row]:
    return Counter(map(_name, rows))


def _name(row: Row) -> Row:
    return tuple(canonical(value) for value in row)


def _display(relation: Any) -> str:
    return str(pkgutil.resolve_name("viewmill.algebra.display:display")(relation))


# Rows as text.


def read_rows(text: str) -> list[Row]:
    """Rows as they stand in a script: `(1, 'ann', NULL) (2, 'bob', 1.5)`.

    >>> read_rows("(1, 'ann', NULL) (2, 'bob', -1.5)")
    [(1, 'ann', None), (2, 'bob', -1.5)]
    """
    tree = ast.parse(f"[{text.replace(') (', '), (')}]", mode="eval").body
    assert isinstance(tree, ast.List)
    return [_row(each) for each in tree.elts]


def _row(node: ast.expr) -> Row:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return tuple(_value(part) for part in parts)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _NAMES[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name):
        return -_NAMES[node.operand.id]  # type: ignore[operator]
    return ast.literal_eval(node)


def show_rows(rows: Iterable[Row]) -> str:
    """Rows as they stand in a script, in an order that does not depend on chance.

    >>> show_rows([(2, "bob"), (1, None)])
    "(1, NULL) (2, 'bob')"
    """
    return " ".join(sorted(f"({', '.join(map(_shown, row))})" for row in rows))


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, Decimal):
        return str(value)
    return repr(value) if isinstance(value, str | bool | int | float) else repr(str(value))


def show_result(result: Any) -> str:
    """The rows of a view or a SELECT, one line each; plans as their text."""
    table = result.to_arrow()
    if table.column_names == ["plan"]:
        return "\n".join(table.column(0).to_pylist())
    rows = result.rows()
    return "\n".join(f"({', '.join(map(_shown, row))})" for row in rows) or "no rows"
