"""TUMBLE, HOP, CUMULATE and SESSION in FROM: a table's rows with the windows that they are in.

takes  tokens at such a call, also within TABLE(...)
gives  the subquery it stands for: all columns of the table, window_start, window_end, window_time
next   sql.dialect, whose parser this is a part of

    FROM TABLE(HOP(TABLE trades, DESCRIPTOR(t), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))

A row at 12:07 is once in the window from 12:00 to 12:10, and once in that from 12:05 to 12:15.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp, parse_one
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokenizer_core import TokenType

from viewmill.algebra.units import parse_duration
from viewmill.algebra.windows import LONGEST
from viewmill.errors import InvalidArgument

_TIME, _ROWS, _KEY = "#time", "#rows", "#key"
_MOST_WINDOWS = 10_000  # of one row: it is written once for each
_LENGTHS: dict[str, tuple[str, ...]] = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}
_REQUIRED = {"TUMBLE": 1, "HOP": 2, "CUMULATE": 2, "SESSION": 1}
_BORDERS = """
    timestamp_micros({start}) AS window_start, timestamp_micros({end}) AS window_end,
    timestamp_micros({end} - 1) AS window_time"""
# Every row with its time in microseconds, and those columns of ours left out again.
_TICKS = """(SELECT *, unix_micros(`#time`) AS `#ticks` FROM `#rows`
    WHERE `#time` IS NOT NULL)"""
_FIXED = """SELECT * EXCEPT (`#ticks`, `#base`, `#step`), {borders}
    FROM (SELECT *, `#ticks` - pmod(`#ticks` - ({offset}), {grid}) AS `#base` FROM {ticks})
    CROSS JOIN (VALUES {steps}) AS `#steps` (`#step`)
    WHERE {inside}"""
_SESSION = """SELECT * EXCEPT (`#ticks`, `#before`, `#begun`, `#last`), {borders} FROM (
    SELECT *, max(`#ticks`) OVER (PARTITION BY `#key`, `#begun`) AS `#last` FROM (
    SELECT *, max(CASE WHEN `#before` IS NULL OR `#ticks` > `#before` + {gap} THEN `#ticks` END)
        OVER (PARTITION BY `#key` ORDER BY `#ticks`) AS `#begun` FROM (
    SELECT *, lag(`#ticks`) OVER (PARTITION BY `#key` ORDER BY `#ticks`) AS `#before`
    FROM {ticks})))"""


class _Call(NamedTuple):
    """What stands in the parentheses."""

    rows: exp.Expr
    keys: list[exp.Expr]
    time: exp.Expr
    lengths: dict[str, int]


class TimeTableParser(DatabricksParser):
    """Reads the calls where FROM expects a table."""

    _LENGTH_WORDS: ClassVar[frozenset[str]] = frozenset(w for ws in _LENGTHS.values() for w in ws)

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        made = None if args or options.get("schema") else self._parse_time_table()
        if made is None:
            found: exp.Expr | None = super()._parse_table(*args, **options)
            return found
        if options.get("joins"):
            for join in self._parse_joins(alias_tokens=options.get("alias_tokens")):
                made.append("joins", join)
        return made

    def _parse_time_table(self) -> exp.Subquery | None:
        start, index = self._curr, self._index
        wrapped = self._match_pair(TokenType.TABLE, TokenType.L_PAREN)
        name = self._curr.text.upper() if self._curr else ""
        if name not in _LENGTHS or not self._next or self._next.token_type != TokenType.L_PAREN:
            self._retreat(index)
            return None
        self._advance(2)
        call = self._parse_time_call(name)
        self._match_r_paren()
        if wrapped:
            self._match_r_paren()
        query = self._windows_of(name, call)
        query.meta.update(start=start.start, end=self._prev.end, is_call=True)
        return self._parse_subquery(this=query, parse_alias=True)

    def _parse_time_call(self, name: str) -> _Call:
        self._match_name("DATA")
        rows = self._parse_rows_of_windows()
        keys: list[exp.Expr] = []
        if self._match(TokenType.PARTITION_BY):
            if name != "SESSION":
                self.raise_error(f"{name} takes no PARTITION BY", self._prev)
            keys = self._parse_keys()
        self._expect_comma()
        self._match_name("TIMECOL")
        is_descriptor = self._match_text_seq("DESCRIPTOR", "(")
        time = self._column_of_rows()
        if is_descriptor:
            self._match_r_paren()
        lengths = self._parse_lengths(name)
        return _Call(rows, keys, time, lengths)

    def _parse_keys(self) -> list[exp.Expr]:
        """k, j before DESCRIPTOR(...), or (k, j)."""
        if self._match(TokenType.L_PAREN):
            keys = self._parse_csv(self._column_of_rows)
            self._match_r_paren()
            return keys
        keys = [self._column_of_rows()]
        while self._curr and self._curr.token_type == TokenType.COMMA and self._is_key_next():
            self._advance()
            keys.append(self._column_of_rows())
        return keys

    def _is_key_next(self) -> bool:
        following = [each.text.upper() for each in self._tokens[self._index + 1 : self._index + 3]]
        ends = following[:1] == ["TIMECOL"] or following == ["DESCRIPTOR", "("]
        return (
            not ends
            and following[1:] == [","]
            and "DESCRIPTOR" in (each.text.upper() for each in self._tokens[self._index :])
        )

    def _parse_rows_of_windows(self) -> exp.Expr:
        """TABLE trades, trades, or a query in parentheses."""
        self._match(TokenType.TABLE)
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            rows = self._parse_select(table=True, parse_subquery_alias=False)
        else:
            rows = self._parse_table_parts()
        if rows is None:
            self.raise_error("Expected a table")
        assert rows is not None
        return rows

    def _column_of_rows(self) -> exp.Expr:
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.raise_error("Expected a column")
        while self._match(TokenType.DOT):  # the table's name, or its alias, before the column's
            name = self._parse_id_var()
        return exp.Column(this=name)

    def _parse_lengths(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        order = _LENGTHS[name]
        while self._match(TokenType.COMMA):
            word = self._match_name(*self._LENGTH_WORDS)
            place = self._curr
            key = word or next((each for each in order if each not in found), "")
            if key not in order or key in found:
                self.raise_error(f"{name} takes {', '.join(order)}", place or self._prev)
            found[key] = self._parse_length(key == "OFFSET")
        missing = [each for each in order[: _REQUIRED[name]] if each not in found]
        if missing:
            self.raise_error(f"{name} needs {', '.join(missing)}", self._curr or self._prev)
        return found

    def _parse_length(self, is_offset: bool) -> int:
        place = self._curr
        node = self._parse_unary()
        sign = -1 if isinstance(node, exp.Neg) else 1
        node = node.this if isinstance(node, exp.Neg) else node
        text = ""
        if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
            text = f"{node.this.name} {node.text('unit')}"
        elif isinstance(node, exp.Literal) and node.is_string:
            words = node.name.split()
            text = " ".join(words[1:] if words and words[0].lower() == "interval" else words)
        try:
            length = sign * parse_duration(text, signed=True)
        except InvalidArgument:
            self.raise_error("Expected a length of time, like INTERVAL 10 MINUTES", place)
            raise
        if (length <= 0 and not is_offset) or abs(length) >= LONGEST:
            self.raise_error("A window is longer than nothing, and shorter than 146,000 years",
                             place)  # fmt: skip
        return length

    def _match_name(self, *names: str) -> str | None:
        """NAME => before an argument."""
        is_named = self._next is not None and self._next.token_type == TokenType.FARROW
        if not is_named or self._curr.text.upper() not in names:
            return None
        word = str(self._curr.text).upper()
        self._advance(2)
        return word

    def _expect_comma(self) -> None:
        if not self._match(TokenType.COMMA):
            self.raise_error("Expected ,")

    def _windows_of(self, name: str, call: _Call) -> exp.Expr:
        lengths = call.lengths
        if name == "SESSION":
            borders = _borders("`#begun`", f"(`#last` + {lengths['GAP']})")
            text = _SESSION.format(borders=borders, gap=lengths["GAP"], ticks=_TICKS)
            return _filled(text, call)
        size, offset = lengths["SIZE"], lengths.get("OFFSET", 0)
        step = lengths.get("SLIDE", lengths.get("STEP", size))
        if step > size or (name == "CUMULATE" and size % step):
            self.raise_error(
                "A window slides by at most its size" if name == "HOP"
                else "The size of CUMULATE is a multiple of its step", self._prev,
            )  # fmt: skip
        if -(-size // step) > _MOST_WINDOWS:
            self.raise_error(f"A row may be in {_MOST_WINDOWS:,} windows at most", self._prev)
        return _filled(_fixed(name, size, step, offset), call)


def _fixed(name: str, size: int, step: int, offset: int) -> str:
    count = -(-size // step)
    steps = ", ".join(f"({i * step}L)" for i in range(count))
    start, inside = "(`#base` - `#step`)", f"`#base` - `#step` + {size} > `#ticks`"
    end = f"(`#base` - `#step` + {size})"
    grid = step
    if name == "CUMULATE":  # all begin where the longest does
        start, end, grid = "`#base`", f"(`#base` + `#step` + {step})", size
        inside = f"`#base` + `#step` + {step} > `#ticks`"
    return _FIXED.format(borders=_borders(start, end), offset=offset, grid=grid, ticks=_TICKS,
                         steps=steps, inside=inside)  # fmt: skip


def _borders(start: str, end: str) -> str:
    return _BORDERS.format(start=start, end=end)


def _filled(template: str, call: _Call) -> exp.Expr:
    """The template with the user's table and columns in their places, as trees and not as text."""
    tree = parse_one(template, read="databricks")
    for node in tree.walk():
        node.meta.clear()
    _replace(tree, _TIME, [call.time])
    _replace(tree, _KEY, call.keys or [exp.Literal.number(1)])
    rows = call.rows
    if isinstance(rows, exp.Table):
        rows.set("alias", rows.args.get("alias"))
    for table in list(tree.find_all(exp.Table)):
        if table.name == _ROWS:
            table.replace(rows)
    return tree


def _replace(tree: exp.Expr, name: str, by: Sequence[exp.Expr]) -> None:
    for column in list(tree.find_all(exp.Column)):
        if column.name != name:
            continue
        if isinstance(column.parent, exp.Window) and column.arg_key == "partition_by":
            keys = [key for key in column.parent.args["partition_by"] if key is not column]
            column.parent.set("partition_by", [*(each.copy() for each in by), *keys])
        else:
            column.replace(by[0].copy())
