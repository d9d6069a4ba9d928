"""Odd names and odd values for sessions."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

_NAMES = (
    "t", "T1", "Bids", "ORDERS", "select", "count", "rows", "a b", "käse", "Ωmega", "日本", "it's",
    'say "x"', "semi;colon", "da--sh", "ſ", "ﬁ", "x1", "_m", "for", "None", "lambda", "v[0]", "50%",
    "{brace}", "a.b", "emit", "flush", "key", "Value", "delta", "#", "1st",
)  # fmt: skip

_VALUES: dict[str, tuple[Any, ...]] = {
    "INT": (0, 1, 2, -1),
    "BIGINT": (0, 1, 2, 3, -1, -2),
    "DOUBLE": (0.0, 1.0, 0.5, -2.0, 0.1, 1.5),
    "STRING": ("a", "b", "", "A"),
    "BOOLEAN": (True, False),
    "DECIMAL(12,2)": (Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), Decimal("0.01")),
    "DECIMAL(38,4)": (Decimal("0.0000"), Decimal("1.5000"), Decimal("-12345678901234567890.0001")),
}
_EXTREMES: dict[str, tuple[Any, ...]] = {
    "INT": (2**31 - 1, -(2**31)),
    "BIGINT": (2**62, -(2**62), 2**63 - 1, -(2**63)),
    "DOUBLE": (float("nan"), float("inf"), float("-inf"), -0.0, 1e15, -1e15, 1e-300, 1e300),
    "STRING": ("é", "日本", "it's", "a\nb", "\\", "%", "x\u2028y"),
    "BOOLEAN": (True,),
    "DECIMAL(12,2)": (Decimal("9999999999.99"), Decimal("-9999999999.99")),
    "DECIMAL(38,4)": (Decimal("9" * 34 + ".9999"), Decimal("-" + "9" * 34 + ".9999")),
}


START = (dt.datetime(2024, 1, 1) - dt.datetime(1970, 1, 1)).total_seconds()


def draw_name(rng: random.Random, number: int) -> str:
    """A name that no other has: odd, or plain in capitals or not; the number makes it unique."""
    stem = rng.choice(_NAMES)
    return f"{stem}{number}" if rng.random() < 0.8 else f"{stem} {number}"


def draw_names(rng: random.Random, count: int) -> list[str]:
    """Names of columns, all different, also when case is ignored."""
    found: dict[str, str] = {}
    while len(found) < count:
        name = rng.choice(_NAMES)
        found.setdefault(name.casefold(), name)
    return list(found.values())


def draw_value(rng: random.Random, type_: str, *, wild: float) -> Any:
    """A value: NULL at times, an extreme one with the chance `wild`."""
    if rng.random() < 0.12:
        return None
    return rng.choice(_EXTREMES[type_] if rng.random() < wild else _VALUES[type_])


def draw_time(rng: random.Random, around: float) -> dt.datetime:
    """A moment near so many seconds after 2024."""
    later = around + rng.choice([0.0, 0.5, 1.0, 2.0, 3.0, 7.25]) - rng.choice([0, 0, 0, 1, 4])
    return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=START + later)


NESTED = ("ARRAY<INT>", "STRUCT<p: INT, q: STRING>", "MAP<STRING, INT>")


def draw_nested(rng: random.Random, type_: str) -> Any:
    """A list or map, as a tuple, or a struct; NULL at times."""
    if rng.random() < 0.15:
        return None
    if type_.startswith("ARRAY"):
        return tuple(rng.choice([0, 1, 2, None]) for _ in range(rng.choice([0, 1, 2, 2, 3])))
    if type_.startswith("STRUCT"):
        return {"p": rng.choice([0, 1, None]), "q": rng.choice(["a", "", None])}
    keys = rng.sample(["a", "b", ""], rng.choice([0, 1, 2]))
    return tuple((key, rng.choice([0, 1, None])) for key in keys)


def respelt(rng: random.Random, name: str) -> str:
    """A name as another user writes it: case does not matter, for letters of ASCII at least."""
    if not name.isascii() or rng.random() < 0.6:
        return name
    return rng.choice([name.upper(), name.lower(), name.swapcase()])


def quoted(name: str) -> str:
    """A name as Spark quotes it."""
    return "`" + name.replace("`", "``") + "`"
