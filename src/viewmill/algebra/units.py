"""Sizes and durations as people write them: '64 MB', '10 minutes'.

takes  text (or a plain number of bytes)
gives  bytes, microseconds
next   sql.parse_clauses, mill (connect(memory=...)), the spec file
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from viewmill.errors import InvalidArgument

BYTES_BY_UNIT = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}

MICROSECONDS_BY_UNIT = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}

_SIZE_HINT = "Write a number and a unit: '512 MB', '64 MiB', '2 GB', or a number of bytes."
_DURATION_HINT = f"Write a number and a unit of {', '.join(MICROSECONDS_BY_UNIT)}: '10 minutes'."


def parse_bytes(text: str | int) -> int:
    """How many bytes `text` means; a bare number is bytes.

    >>> parse_bytes("512 MB"), parse_bytes("1.5KiB"), parse_bytes("4096")
    (512000000, 1536, 4096)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        number, unit = Decimal(text), ""
    else:
        number, unit = _number_and_unit(str(text), _SIZE_HINT)
    scale = BYTES_BY_UNIT.get(unit.upper() or "B")
    if scale is None:
        raise InvalidArgument(f'unknown unit of memory "{unit}"', hint=_SIZE_HINT)
    size = int(number * scale)
    if size < 0:
        raise InvalidArgument(f"memory cannot be less than nothing, got {text}", hint=_SIZE_HINT)
    return size


def parse_duration(text: str, *, signed: bool = False) -> int:
    """How many microseconds `text` means; several terms add up. Only `signed` ones are negative.

    >>> parse_duration("10 minutes"), parse_duration("1 hour 30 minutes")
    (600000000, 5400000000)
    >>> parse_duration("-5 seconds", signed=True)
    -5000000
    """
    terms = text.split()
    if not terms or len(terms) % 2:
        raise InvalidArgument(f"not a duration: '{text}'", hint=_DURATION_HINT)
    pairs = zip(terms[::2], terms[1::2], strict=True)
    total = 0
    for text_of, unit in pairs:
        number = _number(text_of, _DURATION_HINT)
        sign = -1 if signed and number < 0 else 1
        total += sign * to_microseconds(sign * number, unit)
    return total


def to_microseconds(number: Decimal | int, unit: str) -> int:
    """`number` of `unit` in microseconds; the unit in singular or plural, any case."""
    name = unit.upper().removesuffix("S")
    if name in ("MONTH", "QUARTER", "YEAR"):
        raise InvalidArgument(f"a {name} has no fixed length", hint="Give it in days.")
    if name not in MICROSECONDS_BY_UNIT:
        raise InvalidArgument(f'unknown unit of time "{unit}"', hint=_DURATION_HINT)
    microseconds = number * MICROSECONDS_BY_UNIT[name]
    if microseconds < 0 or microseconds != int(microseconds):
        raise InvalidArgument(
            f"a duration is a whole number of microseconds, not negative: {number} {unit}"
        )
    return int(microseconds)


def interval_sql(microseconds: int) -> str:
    """The duration as an SQL interval in the largest unit that divides it.

    >>> interval_sql(90_000_000)
    "INTERVAL '90' SECONDS"
    """
    for unit in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"):
        count, rest = divmod(microseconds, MICROSECONDS_BY_UNIT[unit])
        if count and not rest:
            return f"INTERVAL '{count}' {unit}{'S' if count > 1 else ''}"
    return f"INTERVAL '{microseconds}' MICROSECONDS"


def _number_and_unit(text: str, hint: str) -> tuple[Decimal, str]:
    text = text.strip()
    split = next((i for i, letter in enumerate(text) if letter.isalpha()), len(text))
    return _number(text[:split].strip() or text, hint), text[split:].strip()


def _number(text: str, hint: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise InvalidArgument(f"not a number: '{text}'", hint=hint) from None
    if not number.is_finite():
        raise InvalidArgument(f"not a number: '{text}'", hint=hint)
    return number
