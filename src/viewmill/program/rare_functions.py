"""Functions that an engine may lack: one Python function each, typed as Spark types it.

takes  values, none of which is NULL
gives  a value, None for NULL; or raises `Unfit`, which says what Spark would call an error
next   sql.functions has them in its catalog, program.evaluate computes them for single rows, and
       engines.duckdb computes them by the same Python under the name spark_...
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
import zlib
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
)
from viewmill.program.json_paths import get_json_object


class Unfit(ValueError):
    """There is no value."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Rare:
    """A function, the types of its parameters, of which the first ones are required."""

    function: Callable[..., Any]
    parameters: tuple[Type, ...]
    result: Type
    required: int | None = None

    @property
    def least(self) -> int:
        """How many parameters are required."""
        return len(self.parameters) if self.required is None else self.required


_WORD, _HALF = 2**64, 2**63


def _signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


# Numbers.


def _shift(bits: int, way: str) -> Callable[[int, int], int]:
    """As Java shifts: by the last bits of the count."""

    def shift(value: int, count: int) -> int:
        count &= bits - 1
        if way == "left":
            return _signed(value << count, bits)
        return _signed((value % (1 << bits) if way == "unsigned" else value) >> count, bits)

    return shift


def _try(operation: Callable[[int, int], int]) -> Callable[[int, int], int | None]:
    def compute(a: int, b: int) -> int | None:
        result = operation(a, b)
        return result if -_HALF <= result < _HALF else None

    return compute


def half_even(value: float, digits: int) -> float:
    """Rounded as it is shown, a half to the even neighbour."""
    if not math.isfinite(value) or abs(value) >= 1e15:
        return value
    unit = decimal.Decimal(1).scaleb(-digits)
    return float(decimal.Decimal(repr(value)).quantize(unit, rounding=decimal.ROUND_HALF_EVEN))


def _half_even_text(text: str, digits: int) -> str:
    unit, context = decimal.Decimal(1).scaleb(-digits), decimal.Context(prec=80)
    return f"{decimal.Decimal(text).quantize(unit, decimal.ROUND_HALF_EVEN, context):f}"


def _factorial(n: int) -> int | None:
    return math.factorial(n) if 0 <= n <= 20 else None


def _width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    ends = (value, low, high)
    if count <= 0 or low == high or any(map(math.isnan, ends)) or math.isinf(low + high):
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    return count + 1 if value >= high else int(count * (value - low) / (high - low)) + 1


def _real(function: Callable[..., float]) -> Callable[..., float]:
    """No error, but infinities and NaN."""

    def compute(*values: float) -> float:
        try:
            return function(*values)
        except OverflowError:
            return math.inf if values[0] > 0 or function is not math.sinh else -math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return compute


def _log1p(x: float) -> float | None:
    return math.log1p(x) if x > -1 else None


def _inverse(function: Callable[[float], float]) -> Callable[[float], float]:
    """1 / function(x), where division by zero gives an infinity."""

    def compute(x: float) -> float:
        if not math.isfinite(x):
            return math.nan
        below = function(x)
        return math.copysign(math.inf, below) if below == 0 else 1 / below

    return compute


# Text.


def _levenshtein(a: str, b: str, most: int | None = None) -> int:
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            change = before + (left != right)
            before = row[j]
            row[j] = min(row[j] + 1, row[j - 1] + 1, change)
    return row[-1] if most is None or row[-1] <= most else -1


_SOUNDS = {
    letter: digit
    for digit, letters in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), 1)
    for letter in letters
}


def _soundex(text: str) -> str:
    """A letter and three digits; what begins with no letter of A to Z stays as it is."""
    letters = text.upper()
    if not letters or not "A" <= letters[0] <= "Z":
        return text
    code, last = letters[0], _SOUNDS.get(letters[0], 0)
    for letter in letters[1:]:
        digit = _SOUNDS.get(letter, 0)
        if digit and digit != last:
            code += str(digit)
        if letter not in "HW":  # letters of one sound on both sides of these count once
            last = digit
    return code[:4].ljust(4, "0")


def _format_number(number: decimal.Decimal, digits: int) -> str | None:
    if digits < 0:
        return None
    unit, context = decimal.Decimal(1).scaleb(-digits), decimal.Context(prec=400)
    rounded = number.quantize(unit, decimal.ROUND_HALF_EVEN, context)
    return f"{rounded:,f}"


def _format_float(value: float, digits: int) -> str | None:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return _format_number(decimal.Decimal(value), digits)


def _format_exact(text: str, digits: int) -> str | None:
    return _format_number(decimal.Decimal(text), digits)


def _find_in_set(text: str, among: str) -> int:
    parts = among.split(",")
    return parts.index(text) + 1 if "," not in text and text in parts else 0


def _overlay(text: str, new: str, start: int, count: int | None = None) -> str:
    count = len(new) if count is None or count < 0 else count
    after = start + count  # a negative place counts from the end
    rest = text[after - 1 :] if after > 0 else text[max(after, -len(text)) :] if after else text
    return text[: max(start - 1, 0)] + new + rest


def _conv(text: str, source: int, target: int) -> str | None:
    """Digits in another base; as many as are digits count, what is wider is the largest word."""
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36):
        return None
    text = text.strip()
    if not text:
        return None
    minus, number = text[0] == "-", 0
    for letter in text[1:] if minus else text:
        digit = int(letter, 36) if letter.isascii() and letter.isalnum() else 36
        if digit >= source:
            break
        number = number * source + digit
    number = min(number, _WORD - 1)
    if minus:
        number = (_WORD - number) % _WORD
    if target > 0:
        return _in_base(number, target)
    number = _signed(number, 64)
    return ("-" if number < 0 else "") + _in_base(abs(number), -target)


def _in_base(number: int, base: int) -> str:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text = ""
    while number:
        number, digit = divmod(number, base)
        text = digits[digit] + text
    return text or "0"


def _luhn_check(text: str) -> bool:
    if not text.isascii() or not text.isdigit():
        return False
    total = 0
    for place, letter in enumerate(reversed(text)):
        digit = int(letter) * (1 + place % 2)
        total += digit - 9 * (digit > 9)
    return total % 10 == 0


@cache
def regex(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once."""
    try:
        return re.compile(pattern)
    except re.error as why:
        raise Unfit("EvaluationFailed", f"{pattern!r} is no regular expression: {why}") from None


def _regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in regex(pattern).finditer(text))


def _regexp_substr(text: str, pattern: str) -> str | None:
    found = regex(pattern).search(text)
    return None if found is None else found.group()


def _regexp_instr(text: str, pattern: str) -> int:
    found = regex(pattern).search(text)
    return 0 if found is None else found.start() + 1


# The parts of a text between what a pattern matches.


def split(text: str, pattern: str) -> list[str]:
    """As Spark splits: a match of nothing at the start makes no part; '' cuts into letters."""
    if not pattern:
        return list(text) or [""]
    parts, last = list[str](), 0
    for found in regex(pattern).finditer(text):
        if found.end() == 0:
            continue
        parts.append(text[last : found.start()])
        last = found.end()
    return [*parts, text[last:]]


def _split_at(text: str, pattern: str, index: int) -> str:
    parts = split(text, pattern)
    if not 0 <= index < len(parts):
        raise Unfit("EvaluationFailed", f"there is no index {index} among {len(parts)} parts")
    return parts[index]


def _split_get(text: str, pattern: str, index: int) -> str | None:
    parts = split(text, pattern)
    return parts[index] if 0 <= index < len(parts) else None


def _split_element(text: str, pattern: str, place: int) -> str:
    parts = split(text, pattern)
    if place == 0 or abs(place) > len(parts):
        raise Unfit("EvaluationFailed", f"there is no element {place} of {len(parts)} parts")
    return parts[place - 1 if place > 0 else place]


# Moments.


def _make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: float
) -> dt.datetime:
    start = dt.datetime(year, month, day, hour, minute)
    if not (0 <= second < 60 or second == 60):
        raise Unfit("EvaluationFailed", f"second {second} is not one of 0 to 59")
    return start + dt.timedelta(microseconds=round(second * 1_000_000))


def _add_months(moment: dt.datetime, months: int) -> dt.datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))


def _whole_months_between(start: dt.datetime, end: dt.datetime) -> int:
    """As Java counts: a day that is not whole does not count, months have at most 31 days."""
    day = end.date()
    if day > start.date() and end.time() < start.time():
        day -= dt.timedelta(days=1)
    elif day < start.date() and end.time() > start.time():
        day += dt.timedelta(days=1)
    away = ((day.year - start.year) * 12 + day.month - start.month) * 32 + day.day - start.day
    return away // 32 if away >= 0 else -(-away // 32)


_LONGS, _INTS = (BIGINT, INT), (INT, INT)
_MATH = (DOUBLE,)

RARE: dict[str, Rare] = {
    "shiftleft": Rare(_shift(32, "left"), _INTS, INT),
    "shiftright": Rare(_shift(32, "right"), _INTS, INT),
    "shiftrightunsigned": Rare(_shift(32, "unsigned"), _INTS, INT),
    "shiftleft_long": Rare(_shift(64, "left"), _LONGS, BIGINT),
    "shiftright_long": Rare(_shift(64, "right"), _LONGS, BIGINT),
    "shiftrightunsigned_long": Rare(_shift(64, "unsigned"), _LONGS, BIGINT),
    "try_add": Rare(_try(lambda a, b: a + b), (BIGINT, BIGINT), BIGINT),
    "try_subtract": Rare(_try(lambda a, b: a - b), (BIGINT, BIGINT), BIGINT),
    "try_multiply": Rare(_try(lambda a, b: a * b), (BIGINT, BIGINT), BIGINT),
    "bround": Rare(half_even, (DOUBLE, INT), DOUBLE),
    "bround_text": Rare(_half_even_text, (STRING, INT), STRING),
    "rint": Rare(lambda x: half_even(x, 0), _MATH, DOUBLE),
    "factorial": Rare(_factorial, (INT,), BIGINT),
    "width_bucket": Rare(_width_bucket, (DOUBLE, DOUBLE, DOUBLE, BIGINT), BIGINT),
    "hypot": Rare(_real(math.hypot), (DOUBLE, DOUBLE), DOUBLE),
    "expm1": Rare(_real(math.expm1), _MATH, DOUBLE),
    "log1p": Rare(_log1p, _MATH, DOUBLE),
    "sinh": Rare(_real(math.sinh), _MATH, DOUBLE),
    "cosh": Rare(_real(math.cosh), _MATH, DOUBLE),
    "tanh": Rare(_real(math.tanh), _MATH, DOUBLE),
    "cot": Rare(_inverse(math.tan), _MATH, DOUBLE),
    "sec": Rare(_inverse(math.cos), _MATH, DOUBLE),
    "csc": Rare(_inverse(math.sin), _MATH, DOUBLE),
    "bin": Rare(lambda n: f"{n % _WORD:b}", (BIGINT,), STRING),
    "conv": Rare(_conv, (STRING, INT, INT), STRING),
    "crc32": Rare(lambda text: zlib.crc32(text.encode()), (STRING,), BIGINT),
    "soundex": Rare(_soundex, (STRING,), STRING),
    "levenshtein": Rare(_levenshtein, (STRING, STRING, INT), INT, 2),
    "format_number": Rare(_format_float, (DOUBLE, INT), STRING),
    "format_exact": Rare(_format_exact, (STRING, INT), STRING),
    "space": Rare(lambda n: " " * max(n, 0), (INT,), STRING),
    "find_in_set": Rare(_find_in_set, (STRING, STRING), INT),
    "overlay": Rare(_overlay, (STRING, STRING, INT, INT), STRING, 3),
    "bit_length": Rare(lambda text: 8 * len(text.encode()), (STRING,), INT),
    "base64": Rare(lambda text: base64.b64encode(text.encode()).decode(), (STRING,), STRING),
    "url_encode": Rare(lambda text: quote_plus(text, safe="*"), (STRING,), STRING),
    "url_decode": Rare(lambda text: unquote_plus(text, errors="strict"), (STRING,), STRING),
    "luhn_check": Rare(_luhn_check, (STRING,), BOOLEAN),
    "regexp_count": Rare(_regexp_count, (STRING, STRING), INT),
    "regexp_substr": Rare(_regexp_substr, (STRING, STRING), STRING),
    "regexp_instr": Rare(_regexp_instr, (STRING, STRING), INT),
    "get_json_object": Rare(get_json_object, (STRING, STRING), STRING),
    "split_at": Rare(_split_at, (STRING, STRING, INT), STRING),
    "split_get": Rare(_split_get, (STRING, STRING, INT), STRING),
    "split_element": Rare(_split_element, (STRING, STRING, INT), STRING),
    "split_size": Rare(lambda text, by: len(split(text, by)), (STRING, STRING), INT),
    "split_contains": Rare(
        lambda text, by, part: part in split(text, by), (STRING, STRING, STRING), BOOLEAN
    ),
    "make_timestamp": Rare(_make_timestamp, (INT, INT, INT, INT, INT, DOUBLE), TIMESTAMP),
    "whole_months_between": Rare(_whole_months_between, (TIMESTAMP, TIMESTAMP), BIGINT),
    "timestamp_add_months": Rare(_add_months, (TIMESTAMP, INT), TIMESTAMP),
}  # fmt: skip
