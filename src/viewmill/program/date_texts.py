"""Moments as text by a pattern, as Java's DateTimeFormatter writes them in UTC."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import cache

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")

Write = Callable[[dt.datetime], str]
_PARTS = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")


def _number(read: Callable[[dt.datetime], int], most: int = 2) -> Callable[[int], Write | None]:
    def made(count: int) -> Write | None:
        return (lambda t: str(read(t)).zfill(count)) if count <= most else None

    return made


def _year(count: int) -> Write | None:
    if count == 2:
        return lambda t: f"{t.year % 100:02d}"
    return (lambda t: str(t.year).zfill(count)) if count <= 6 else None


def _month(count: int) -> Write | None:
    if count <= 2:
        return lambda t: str(t.month).zfill(count)
    return {3: lambda t: MONTHS[t.month - 1][:3], 4: lambda t: MONTHS[t.month - 1]}.get(count)


def _quarter(count: int) -> Write | None:
    def number(t: dt.datetime) -> int:
        return (t.month + 2) // 3

    if count <= 2:
        return lambda t: str(number(t)).zfill(count)
    return {3: lambda t: f"Q{number(t)}", 4: lambda t: _QUARTERS[number(t) - 1]}.get(count)


def _day_name(count: int) -> Write | None:
    if count == 4:
        return lambda t: DAYS[t.weekday()]
    return (lambda t: DAYS[t.weekday()][:3]) if count < 4 else None


def _fraction(count: int) -> Write | None:
    return (lambda t: f"{t.microsecond:06d}000"[:count]) if count <= 9 else None


def _words(*texts: str) -> Callable[[int], Write | None]:
    """A text for each number of letters; "" where there is none."""

    def made(count: int) -> Write | None:
        text = texts[count - 1] if count <= len(texts) else ""
        return (lambda t: text) if text else None

    return made


_LETTERS: dict[str, Callable[[int], Write | None]] = {
    "G": _words("AD", "AD", "AD", "Anno Domini"),
    "y": _year, "M": _month, "L": _month, "Q": _quarter, "q": _quarter, "E": _day_name,
    "S": _fraction,
    "d": _number(lambda t: t.day), "D": _number(lambda t: t.timetuple().tm_yday, 3),
    "F": _number(lambda t: (t.day - 1) % 7 + 1, 1),
    "H": _number(lambda t: t.hour), "k": _number(lambda t: t.hour or 24),
    "K": _number(lambda t: t.hour % 12), "h": _number(lambda t: (t.hour + 11) % 12 + 1),
    "m": _number(lambda t: t.minute), "s": _number(lambda t: t.second),
    "a": lambda count: (lambda t: "AM" if t.hour < 12 else "PM") if count == 1 else None,
    "V": _words("", "UTC"),
    "z": _words("UTC", "UTC", "UTC", "Coordinated Universal Time"),
    "O": _words("GMT", "", "", "GMT"),
    "X": _words("Z", "Z", "Z", "Z", "Z"),
    "x": _words("+00", "+0000", "+00:00", "+0000", "+00:00"),
    "Z": _words("+0000", "+0000", "+0000", "GMT", "Z"),
}  # fmt: skip


@cache
def date_writer(pattern: str) -> Write | None:
    """What writes a moment by a pattern; None if the pattern has letters of another meaning."""
    parts: list[Write] = []
    for found in _PARTS.finditer(pattern):
        part = found.group()
        if part[0].isalpha():
            letter = _LETTERS.get(part[0])
            write = None if letter is None else letter(len(part))
            if write is None:
                return None
            parts.append(write)
        elif part == "'" or (set(part) & set("{}#") and part[0] != "'"):
            return None
        else:
            text = part[1:-1].replace("''", "'") or "'" if part[0] == "'" else part
            # [ and ] hold what a text may leave out; a moment leaves nothing out.
            plain = text if part[0] == "'" else text.replace("[", "").replace("]", "")
            parts.append(lambda t, plain=plain: plain)  # type: ignore[misc]
    return lambda t: "".join(write(t) for write in parts)


def date_text(moment: dt.datetime, pattern: str) -> str:
    """A moment by a pattern that `date_writer` knows."""
    write = date_writer(pattern)
    assert write is not None
    return write(moment)
