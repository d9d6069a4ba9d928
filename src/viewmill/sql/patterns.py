"""Patterns of dates: as sqlglot hands them on, as Spark writes them, as DuckDB does."""

from __future__ import annotations

import re

from viewmill.algebra.date_patterns import QUOTED, unquoted

# Spark's letters and strftime's, as DuckDB knows it.
_LETTERS = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "M": "%-m", "dd": "%d",
    "d": "%-d", "EEEE": "%A", "E": "%a", "HH": "%H", "H": "%-H", "hh": "%I", "mm": "%M",
    "ss": "%S", "SSSSSS": "%f", "SSS": "%g", "a": "%p",
}  # fmt: skip
# sqlglot marks those of a fixed width.
_PARSED = {**{b: a for a, b in _LETTERS.items()}, "%Y": "yyyy", "%f": "SSSSSS"}
_MARKS = frozenset("[]{}#")  # which mean something
_SPARK = re.compile(rf"{QUOTED}|(?P<letter>[A-Za-z])(?P=letter)*|[^A-Za-z']+|'")


def to_spark(parsed: str) -> str | None:
    """The pattern in Spark's letters, or None if it has one that is not known.

    >>> to_spark("%Y-%mstrict-%dstrict %Hstrict:%Mstrict")
    'yyyy-MM-dd HH:mm'
    """
    known = True

    def letters(found: re.Match[str]) -> str:
        nonlocal known
        known = known and found.group(1) in _PARSED
        return _PARSED.get(found.group(1), "")

    text = re.sub(r"(%-?[A-Za-z])(?:strict)?", letters, parsed)
    return text if known and to_duckdb(text) is not None else None


def to_duckdb(spark: str) -> str | None:
    """The strftime pattern of a Spark pattern, or None if it has a letter that is not known.

    >>> to_duckdb("yyyy-MM-dd HH:mm")
    '%Y-%m-%d %H:%M'
    """
    made = ""
    for found in _SPARK.finditer(spark):
        part = found.group()
        if part in _LETTERS:
            made += _LETTERS[part]
        elif part[0] == "'" and len(part) > 1:
            made += unquoted(part).replace("%", "%%")
        elif part[0].isalpha() or part == "'" or not _MARKS.isdisjoint(part):
            return None
        else:
            made += part.replace("%", "%%")
    return made
