"""The types of values, Spark's, and the machine word that holds each.

Every value that moves or is kept is one 8-byte word: integers, dates (days), timestamps (UTC
microseconds), decimals (scaled), booleans and dictionary ids are int64; floats are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from viewmill.algebra.names import type_spelling, type_words


@dataclass(frozen=True)
class Boolean:
    """True or false."""

    def __str__(self) -> str:
        return "BOOLEAN"


@dataclass(frozen=True)
class Integer:
    """A whole number of `bits` bits: TINYINT 8, SMALLINT 16, INT 32, BIGINT 64."""

    bits: int = 64

    def __str__(self) -> str:
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]

    @cached_property
    def low(self) -> int:
        """The smallest value."""
        return -(1 << (self.bits - 1))

    @cached_property
    def high(self) -> int:
        """The largest value."""
        return (1 << (self.bits - 1)) - 1


@dataclass(frozen=True)
class Float:
    """A floating-point number of `bits` bits: FLOAT 32, DOUBLE 64."""

    bits: int = 64

    def __str__(self) -> str:
        return "DOUBLE" if self.bits == 64 else "FLOAT"


@dataclass(frozen=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int = 10
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True)
class Wide:
    """A DECIMAL of more than 18 digits where it is kept: one word does not hold every value.

    Columns of tables and views have this type. Values are carried by codes (`deltas.wide_codes`);
    what computes with one casts it to the DECIMAL that it shows.
    """

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"

    @property
    def shown(self) -> Decimal:
        """The type that SQL gives it."""
        return Decimal(self.precision, self.scale)


@dataclass(frozen=True)
class String:
    """Text, compared as UTF-8 bytes."""

    def __str__(self) -> str:
        return "STRING"


@dataclass(frozen=True)
class Date:
    """A day."""

    def __str__(self) -> str:
        return "DATE"


@dataclass(frozen=True)
class Timestamp:
    """A moment, in UTC microseconds."""

    def __str__(self) -> str:
        return "TIMESTAMP"


@dataclass(frozen=True)
class Interval:
    """A span of time: months and microseconds apart, as in SQL. Only inside expressions."""

    def __str__(self) -> str:
        return "INTERVAL"


@dataclass(frozen=True)
class Null:
    """The type of a bare NULL."""

    def __str__(self) -> str:
        return "VOID"


@dataclass(frozen=True)
class Nested:
    """BINARY, ARRAY, STRUCT, MAP: kernels carry a value whole, by its id in the dictionary.

    `name` is Spark's spelling: ARRAY<INT>, MAP<STRING, INT>, STRUCT<a: INT, `b c`: DATE>.
    """

    name: str

    def __post_init__(self) -> None:
        if type(self) is Nested:
            object.__setattr__(self, "name", type_spelling(self.name))

    def __str__(self) -> str:
        return self.name

    @cached_property
    def is_exact(self) -> bool:
        """Whether equal values print alike and so share an id: 0.0 and -0.0, and maps, do not."""
        return type(self) is Nested and type_words(self.name) <= _EXACT_WORDS

    @cached_property
    def is_carried(self) -> bool:
        """Whether kernels may keep it beside a key: engines too tell apart what prints apart."""
        return type(self) is Nested and type_words(self.name) <= {*_EXACT_WORDS, "MAP"}


_EXACT_WORDS = {
    "ARRAY", "STRUCT", "BINARY", "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT",
    "INTEGER", "BIGINT", "LONG", "DECIMAL", "DEC", "NUMERIC", "STRING", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ",
}  # fmt: skip

Number = Integer | Float | Decimal | Wide
Type = Boolean | Number | String | Date | Timestamp | Interval | Null | Nested

BOOLEAN = Boolean()
INT = Integer(32)
BIGINT = Integer(64)
FLOAT = Float(32)
DOUBLE = Float(64)
STRING = String()
DATE = Date()
TIMESTAMP = Timestamp()
INTERVAL = Interval()
NULL = Null()


def is_numeric(type_: Type) -> bool:
    """Integers, decimals and floats."""
    return isinstance(type_, Integer | Decimal | Float)


def is_float_word(type_: Type) -> bool:
    """Whether values of this type are held as float64; all others are int64."""
    return isinstance(type_, Float)


def has_equal_words(type_: Type) -> bool:
    """Whether equal values of a column of this type are equal words, so that it can be a key."""
    return type_.is_exact if isinstance(type_, Nested) else not isinstance(type_, Null)


def has_kept_words(type_: Type) -> bool:
    """Whether rows with a column of this type can be kept, where none is compared."""
    return type_.is_carried if isinstance(type_, Nested) else not isinstance(type_, Null)


def kept_type(type_: Type) -> Type:
    """The type of a column that holds values of a type."""
    if isinstance(type_, Decimal) and may_be_wide(type_):
        return Wide(type_.precision, type_.scale)
    return type_


def shown_type(type_: Type) -> Type:
    """The type that SQL gives to the values of a column."""
    return type_.shown if isinstance(type_, Wide) else type_


def may_be_wide(type_: Type) -> bool:
    """Whether a value of this type may be wider than a word, which holds 18 digits."""
    return isinstance(type_, Decimal) and type_.precision > 18
