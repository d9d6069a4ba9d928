"""Patterns by which text is read as a moment: to_timestamp('31.12.2024', 'dd.MM.yyyy')."""

from __future__ import annotations

import re
from functools import cache

# Spark's letters, the digits that must stand there, and what they say.
_LETTERS = {
    "yyyy": ("4", "year"), "MM": ("2", "month"), "M": ("1,2", "month"), "dd": ("2", "day"),
    "d": ("1,2", "day"), "HH": ("2", "hour"), "H": ("1,2", "hour"), "mm": ("2", "minute"),
    "ss": ("2", "second"), "SSS": ("3", "millisecond"), "SSSSSS": ("6", "microsecond"),
}  # fmt: skip
_WORDS = "|".join(sorted(_LETTERS, key=len, reverse=True))
QUOTED = "'(?:[^']|'')*'"  # text as it is, in which two quotes are one
_PARTS = re.compile(f"{QUOTED}|{_WORDS}|[A-Za-z']|[^A-Za-z']+")


def unquoted(part: str) -> str:
    """What quoted text in a pattern stands for."""
    return part[1:-1].replace("''", "'") or "'"


@cache
def text_shape(pattern: str) -> str | None:
    """What text looks like that the pattern can read, as a regular expression with named groups.

    None unless every letter is known, stands there once, and year, month and day are said.

    >>> text_shape("d.MM.yyyy")
    '(?P<day>[0-9]{1,2})\\\\.(?P<month>[0-9]{2})\\\\.(?P<year>[0-9]{4})'
    >>> text_shape("yyyy-MM-dd'") is None  # a quote that is not closed
    True
    """
    made = ""
    said: list[str] = []
    for part in _PARTS.findall(pattern):
        if part in _LETTERS:
            width, unit = _LETTERS[part]
            made += f"(?P<{unit}>[0-9]{{{width}}})"
            said.append(unit)
        elif part[0] == "'" and len(part) > 1:
            made += re.escape(unquoted(part))
        elif part[0].isalpha() or part == "'":
            return None
        else:
            made += re.escape(part)
    days = {"year", "month", "day"}
    return made if days <= set(said) and len(said) == len(set(said)) else None
