"""Rows going out and failures, as Python lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from viewmill.deltas.wide_codes import Wides

Value = int | float | list[float] | None


@dataclass
class Failed:
    """The first failure."""

    words: list[int] = field(default_factory=lambda: [0, -1])  # its code + 1, and its row


def fail(errors: Failed, code: int, row: int) -> None:
    """Note failure `code` in `row`; the first one stays."""
    if not errors.words[0]:
        errors.words[:] = code + 1, row


def failed_at(errors: Failed, row: int) -> None:
    """The failure that was noted is one of this row."""
    errors.words[1] = row


def only_row(errors: Failed, code: int, row: int, value: Any, count: int) -> Any:
    """A value that is there once; several are failure `code`."""
    if count > 1:
        fail(errors, code, row)
    return value


def failed(errors: Failed) -> bool:
    """Whether something failed."""
    return errors.words[0] != 0


@dataclass
class Texts:
    """Dictionary ids of literals, and for each function of strings what it gives by id; the numbers
    of wide decimals by their codes."""

    ids: list[int]
    lookups: list[dict[int, Any]]
    wides: Wides


def text(texts: Texts, i: int) -> int:
    """The dictionary id of literal i."""
    return texts.ids[i]


def look_word(texts: Texts, i: int, id_: int) -> int:
    """What function i gives for the string of an id."""
    word: int = texts.lookups[i][int(id_)]
    return word


def text_less(texts: Texts, i: int, a: int, b: int) -> bool:
    """Whether string a comes before string b, as UTF-8 bytes."""
    first, second = (texts.lookups[i][int(each)].encode() for each in (a, b))
    return bool(first < second)


@dataclass
class Rows:
    """Complete rows with their multiplicities, and the row under way."""

    width: int
    rows: list[tuple[list[Value], int]] = field(default_factory=list)
    current: dict[int, Value] = field(default_factory=dict)


def emit_word(out: Rows, c: int, x: int) -> None:
    """Column c of the row under way is x."""
    out.current[c] = int(x)


def emit_float(out: Rows, c: int, x: float) -> None:
    """Column c of the row under way is the float x."""
    out.current[c] = float(x)


def emit_packed(out: Rows, c: int, p: Sequence[Any]) -> None:
    """Column c of the row under way is the numbers of p."""
    out.current[c] = [float(x) for x in p]


def emit_null(out: Rows, c: int) -> None:
    """Column c of the row under way is NULL."""
    out.current[c] = None


def emit(out: Rows, m: int) -> None:
    """The row under way is complete, with multiplicity m."""
    out.rows.append(([out.current[c] for c in range(out.width)], int(m)))
    out.current = {}


def emit_full(out: Rows) -> bool:
    """Whether there is no room for two more rows: never."""
    return False


def emit_cancel(out: Rows) -> None:
    """Make one row of the last two if they are equal, none if their multiplicities cancel."""
    if len(out.rows) < 2:
        return
    (old, m), (new, n) = out.rows[-2:]
    if repr(old) == repr(new):  # repr tells 0.0 from -0.0 and makes NaN equal to itself
        out.rows[-2:] = [(new, m + n)] if m + n else []


def emit_room(out: Rows) -> int:
    """How many more rows there is room for: as many as anyone needs."""
    return 1 << 40


def out_of_line() -> None:
    """A function that says so is compiled apart from those that call it; here it means nothing."""
