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
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from viewmill.algebra.dates import add_months
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
)
from viewmill.program.date_texts import date_text
from viewmill.program.json_paths import get_json_object
from viewmill.program.text_values import read_date, read_real, read_timestamp


class Unfit(ValueError):
    """The arguments have no result: Spark would raise an error of this kind."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class PythonFunction:
    """A Python function and the types of its parameters; the first `required` are mandatory."""

    function: Callable[..., Any]
    parameters: tuple[Type, ...]
    result: Type
    required: int | None = None

    @property
    def least(self) -> int:
        """How many parameters are required."""
        return len(self.parameters) if self.required is None else self.required


_WORD, _HALF = 2**64, 2**63
_WIDE = decimal.Context(prec=1000)


def _signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


# Numbers.


def _shift(bits: int, way: str) -> Callable[[int, int], int]:
    """Shift as Java does: only the low bits of the count matter."""

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


_EXACT: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": _WIDE.add, "-": _WIDE.subtract, "*": _WIDE.multiply, "/": _WIDE.divide,
    "%": _WIDE.remainder,
}  # fmt: skip


def _try_exact(sign: str, a: str, b: str, precision: int, scale: int) -> str | None:
    """Decimal arithmetic on texts; None on overflow and on division by zero."""
    left, right = decimal.Decimal(a), decimal.Decimal(b)
    if sign == "/" and not right:
        return None
    exact = _EXACT[sign](left, right)
    fitted = exact.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, _WIDE)
    most = decimal.Decimal(10) ** (precision - scale)
    return f"{fitted:f}" if fitted.copy_abs() < most else None


def _exact(sign: str, a: str, b: str, precision: int, scale: int) -> str:
    """Decimal arithmetic on texts; overflow and division by zero are errors."""
    if sign in "/%" and not decimal.Decimal(b):
        raise Unfit("EvaluationFailed", "division by zero")
    made = _try_exact(sign, a, b, precision, scale)
    if made is None:
        raise Unfit("Overflow", f"{a} {sign} {b} does not fit DECIMAL({precision},{scale})")
    return made


def rounded(value: float, digits: int, way: str = decimal.ROUND_HALF_UP) -> float:
    """Rounded as it is shown: 1.005 is 1.01. There is no negative zero."""
    if not math.isfinite(value):
        return value
    exact, unit = decimal.Decimal(repr(value)), decimal.Decimal(1).scaleb(-digits)
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -digits:
        return value + 0.0
    return float(exact.quantize(unit, way, _WIDE)) + 0.0


def _half_even(value: float, digits: int) -> float:
    return rounded(value, digits, decimal.ROUND_HALF_EVEN)


def _half_even_text(text: str, digits: int) -> str:
    unit = decimal.Decimal(1).scaleb(-digits)
    return f"{decimal.Decimal(text).quantize(unit, decimal.ROUND_HALF_EVEN, _WIDE):f}"


def _rint(x: float) -> float:
    return math.copysign(round(x), x) if math.isfinite(x) else x


def _factorial(n: int) -> int | None:
    return math.factorial(n) if 0 <= n <= 20 else None


def _width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    ends_are_finite = math.isfinite(low) and math.isfinite(high)
    if not 0 < count < _HALF - 1 or low == high or math.isnan(value) or not ends_are_finite:
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low or value >= high:
        return 0 if value < low else count + 1
    share = count * (value - low) / (high - low)
    return 1 if math.isnan(share) else int(share) + 1  # Java's whole number of NaN is 0


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
    return None if x <= -1 else math.log1p(x)


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
    if not text or not (text[0].isascii() and text[0].isalpha()):
        return text
    first, *others = (each.upper() if each.isascii() else each for each in text)
    code, last = first, _SOUNDS.get(first, 0)
    for letter in others:
        digit = _SOUNDS.get(letter, 0)
        if digit and digit != last:
            code += str(digit)
        if letter not in "HW":  # letters of one sound on both sides of these count once
            last = digit
    return code[:4].ljust(4, "0")


_MOST_SHOWN_DIGITS = 10_000
_MOST_FLOAT_DIGITS = 340  # which Java shows of a DOUBLE


def _format_number(number: decimal.Decimal, digits: int) -> str | None:
    if digits < 0:
        return None
    if digits > _MOST_SHOWN_DIGITS:
        raise Unfit("EvaluationFailed", f"{digits} digits are more than {_MOST_SHOWN_DIGITS}")
    context = decimal.Context(prec=400 + digits)
    unit = decimal.Decimal(1).scaleb(-digits, context)
    rounded = number.quantize(unit, decimal.ROUND_HALF_EVEN, context)
    return f"{rounded:,f}"


def _format_float(value: float, digits: int) -> str | None:
    if digits >= 0 and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    digits = min(digits, _MOST_FLOAT_DIGITS)
    shortest = decimal.Decimal(repr(value))  # 0.1 has one digit, whatever its bits say
    exponent = shortest.as_tuple().exponent
    is_whole = isinstance(exponent, int) and -exponent <= digits
    return _format_number(shortest if is_whole else decimal.Decimal(value), digits)


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
    """Digits in another base; as many as are digits count, if 64 bits are enough for them."""
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36):
        return None
    text = text.strip(" ")
    if not text:
        return None
    minus, number = text[0] == "-", 0
    for letter in text[1:] if minus else text:
        digit = int(letter, 36) if letter.isascii() and letter.isalnum() else 36
        if digit >= source:
            break
        number = number * source + digit
    if number >= _WORD:
        raise Unfit("Overflow", f"{text!r} needs more than 64 bits")
    if target > 0:
        below = (_WORD - number) % _WORD if number < _HALF else _WORD - 1
        return _in_base(below if minus else number, target)
    number = _signed(number, 64)
    return ("-" if minus or number < 0 else "") + _in_base(abs(number), -target)


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


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


_SURROGATES = re.compile("%ed%[ab][0-9a-f]%[89ab][0-9a-f]", re.IGNORECASE)


def _url_decode(text: str) -> str:
    """What is no UTF-8 is shown as �, one for the three bytes of half a character."""
    if re.search("%(?![0-9a-fA-F]{2})", text):
        raise Unfit("EvaluationFailed", f"{text!r} is no URL: two digits follow each %")
    return unquote_plus(_SURROGATES.sub("%EF%BF%BD", text), errors="replace")


_NAMED = re.compile(r"\(\?<(?=[a-zA-Z])")  # a group with a name, as Java writes it


@lru_cache(1000)
def regex(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once; classes like \\w and (?i) are of ASCII, as in Java."""
    try:
        return re.compile(_NAMED.sub("(?P<", pattern), re.ASCII)
    except re.error as why:
        raise Unfit("EvaluationFailed", f"{pattern!r} is no regular expression: {why}") from None


def regexp_like(text: str, pattern: str) -> bool:
    """Whether it is found."""
    return regex(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """What a group matched, '' where nothing did."""
    compiled = regex(pattern)
    if not 0 <= group <= compiled.groups:
        raise Unfit("EvaluationFailed", f"{pattern!r} has no group {group}")
    found = compiled.search(text)
    return (found.group(group) or "") if found is not None else ""


def regexp_replace(text: str, pattern: str, new: str) -> str:
    """Every match replaced, $1 in `new` by the group, what follows a backslash by itself."""
    compiled = regex(pattern)
    parts = _replacement(new, compiled.groups)
    return compiled.sub(
        lambda found: "".join(
            each if isinstance(each, str) else found.group(each) or "" for each in parts
        ),
        text,
    )


@lru_cache(1000)
def _replacement(new: str, groups: int) -> list[str | int]:
    """Letters and numbers of groups. A number takes as many digits as there are groups for."""
    parts, i = list[str | int](), 0
    while i < len(new):
        if new[i] == "\\":
            if i + 1 == len(new):
                raise Unfit("EvaluationFailed", f"{new!r} ends with a backslash")
            parts.append(new[i + 1])
            i += 2
        elif new[i] == "$":
            digits = re.match("[0-9]*", new[i + 1 :], re.ASCII)
            number = digits[0] if digits else ""
            while len(number) > 1 and int(number) > groups:
                number = number[:-1]
            if not number or int(number) > groups:
                raise Unfit("EvaluationFailed", f"{new!r} names a group that is not there")
            parts.append(int(number))
            i += 1 + len(number)
        else:
            parts.append(new[i])
            i += 1
    return parts


def _regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in regex(pattern).finditer(text))


def _regexp_substr(text: str, pattern: str) -> str | None:
    found = regex(pattern).search(text)
    return (found.group() or None) if found is not None else None


def _regexp_instr(text: str, pattern: str, group: int = 0) -> int:
    """The 1-based position of the match, 0 if none; like Spark, `group` is ignored."""
    found = regex(pattern).search(text)
    return 0 if found is None else found.start() + 1


def initcap(text: str) -> str:
    """Words with a capital first."""
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


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
) -> dt.datetime | None:
    if not math.isfinite(second):
        return None
    start = dt.datetime(year, month, day, hour, minute)
    second = rounded(second, 6)
    if not (0 <= second < 60 or second == 60):
        raise Unfit("EvaluationFailed", f"second {second} is not one of 0 to 59")
    return start + dt.timedelta(microseconds=round(second * 1_000_000))


def _whole_months_between(start: dt.datetime, end: dt.datetime) -> int:
    """Months between two moments as Java counts: partial days are dropped, a month has 31 days."""
    day = end.date()
    if day > start.date() and end.time() < start.time():
        day -= dt.timedelta(days=1)
    elif day < start.date() and end.time() > start.time():
        day += dt.timedelta(days=1)
    away = ((day.year - start.year) * 12 + day.month - start.month) * 32 + day.day - start.day
    return away // 32 if away >= 0 else -(-away // 32)


_LONGS, _INTS = (BIGINT, INT), (INT, INT)
_MATH = (DOUBLE,)

PYTHON_FUNCTIONS: dict[str, PythonFunction] = {
    "shiftleft": PythonFunction(_shift(32, "left"), _INTS, INT),
    "shiftright": PythonFunction(_shift(32, "right"), _INTS, INT),
    "shiftrightunsigned": PythonFunction(_shift(32, "unsigned"), _INTS, INT),
    "shiftleft_long": PythonFunction(_shift(64, "left"), _LONGS, BIGINT),
    "shiftright_long": PythonFunction(_shift(64, "right"), _LONGS, BIGINT),
    "shiftrightunsigned_long": PythonFunction(_shift(64, "unsigned"), _LONGS, BIGINT),
    "try_add": PythonFunction(_try(lambda a, b: a + b), (BIGINT, BIGINT), BIGINT),
    "try_subtract": PythonFunction(_try(lambda a, b: a - b), (BIGINT, BIGINT), BIGINT),
    "try_multiply": PythonFunction(_try(lambda a, b: a * b), (BIGINT, BIGINT), BIGINT),
    "exact": PythonFunction(_exact, (STRING, STRING, STRING, INT, INT), STRING),
    "try_exact": PythonFunction(_try_exact, (STRING, STRING, STRING, INT, INT), STRING),
    "bround": PythonFunction(_half_even, (DOUBLE, INT), DOUBLE),
    "bround_text": PythonFunction(_half_even_text, (STRING, INT), STRING),
    "round_float": PythonFunction(rounded, (DOUBLE, INT), DOUBLE),
    "rint": PythonFunction(_rint, _MATH, DOUBLE),
    "factorial": PythonFunction(_factorial, (INT,), BIGINT),
    "width_bucket": PythonFunction(_width_bucket, (DOUBLE, DOUBLE, DOUBLE, BIGINT), BIGINT),
    "hypot": PythonFunction(_real(math.hypot), (DOUBLE, DOUBLE), DOUBLE),
    "expm1": PythonFunction(_real(math.expm1), _MATH, DOUBLE),
    "log1p": PythonFunction(_log1p, _MATH, DOUBLE),
    "sinh": PythonFunction(_real(math.sinh), _MATH, DOUBLE),
    "cosh": PythonFunction(_real(math.cosh), _MATH, DOUBLE),
    "tanh": PythonFunction(_real(math.tanh), _MATH, DOUBLE),
    "cot": PythonFunction(_inverse(math.tan), _MATH, DOUBLE),
    "sec": PythonFunction(_inverse(math.cos), _MATH, DOUBLE),
    "csc": PythonFunction(_inverse(math.sin), _MATH, DOUBLE),
    "bin": PythonFunction(lambda n: f"{n % _WORD:b}", (BIGINT,), STRING),
    "conv": PythonFunction(_conv, (STRING, INT, INT), STRING),
    "crc32": PythonFunction(lambda text: zlib.crc32(text.encode()), (STRING,), BIGINT),
    "soundex": PythonFunction(_soundex, (STRING,), STRING),
    "levenshtein": PythonFunction(_levenshtein, (STRING, STRING, INT), INT, 2),
    "format_number": PythonFunction(_format_float, (DOUBLE, INT), STRING),
    "format_exact": PythonFunction(_format_exact, (STRING, INT), STRING),
    "space": PythonFunction(lambda n: " " * max(n, 0), (INT,), STRING),
    "find_in_set": PythonFunction(_find_in_set, (STRING, STRING), INT),
    "overlay": PythonFunction(_overlay, (STRING, STRING, INT, INT), STRING, 3),
    "bit_length": PythonFunction(lambda text: 8 * len(text.encode()), (STRING,), INT),
    "base64": PythonFunction(_base64, (STRING,), STRING),
    "url_encode": PythonFunction(_url_encode, (STRING,), STRING),
    "url_decode": PythonFunction(_url_decode, (STRING,), STRING),
    "luhn_check": PythonFunction(_luhn_check, (STRING,), BOOLEAN),
    "java_like": PythonFunction(regexp_like, (STRING, STRING), BOOLEAN),
    "java_extract": PythonFunction(regexp_extract, (STRING, STRING, INT), STRING, 2),
    "java_replace": PythonFunction(regexp_replace, (STRING, STRING, STRING), STRING),
    "regexp_count": PythonFunction(_regexp_count, (STRING, STRING), INT),
    "regexp_substr": PythonFunction(_regexp_substr, (STRING, STRING), STRING),
    "regexp_instr": PythonFunction(_regexp_instr, (STRING, STRING, INT), INT, 2),
    "get_json_object": PythonFunction(get_json_object, (STRING, STRING), STRING),
    "split_at": PythonFunction(_split_at, (STRING, STRING, INT), STRING),
    "split_get": PythonFunction(_split_get, (STRING, STRING, INT), STRING),
    "split_element": PythonFunction(_split_element, (STRING, STRING, INT), STRING),
    "split_size": PythonFunction(lambda text, by: len(split(text, by)), (STRING, STRING), INT),
    "split_contains": PythonFunction(
        lambda text, by, part: part in split(text, by), (STRING, STRING, STRING), BOOLEAN
    ),
    "text_upper": PythonFunction(str.upper, (STRING,), STRING),
    "text_lower": PythonFunction(str.lower, (STRING,), STRING),
    "text_initcap": PythonFunction(initcap, (STRING,), STRING),
    "text_date": PythonFunction(read_date, (STRING,), DATE),
    "text_timestamp": PythonFunction(read_timestamp, (STRING,), TIMESTAMP),
    "date_text": PythonFunction(date_text, (TIMESTAMP, STRING), STRING),
    "text_real": PythonFunction(read_real, (STRING,), DOUBLE),
    "make_timestamp": PythonFunction(_make_timestamp, (INT, INT, INT, INT, INT, DOUBLE), TIMESTAMP),
    "whole_months_between": PythonFunction(_whole_months_between, (TIMESTAMP, TIMESTAMP), BIGINT),
    "timestamp_add_months": PythonFunction(add_months, (TIMESTAMP, INT), TIMESTAMP),
}  # fmt: skip
