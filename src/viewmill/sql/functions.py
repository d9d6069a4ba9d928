"""The catalog of scalar functions, typed as Spark 4 types them with ANSI on.

takes  a function's name in Spark's spelling, its typed arguments
gives  an algebra expression with every conversion explicit
next   sql.aggregates has those over groups and windows, sql.operators the signs

Most functions are a `Signature`: what each argument becomes, what comes out. The rest are small
builders at the end of the file. A name that is in neither raises `NotModelled`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewmill.algebra import clock
from viewmill.algebra.expressions import Call, Cast, Expression, Literal
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Date,
    Decimal,
    Integer,
    Interval,
    Null,
    String,
    Timestamp,
    Type,
    is_numeric,
)
from viewmill.errors import Span, TypeMismatch
from viewmill.program.python_functions import PYTHON_FUNCTIONS
from viewmill.sql import decimals, operators, time_functions
from viewmill.sql.coercion import cast, common_types, constant, implicit, unify
from viewmill.sql.not_modelled import NotModelled
from viewmill.sql.operators import is_nullable, make_call

Arguments = tuple[Expression, ...]
Builder = Callable[[Arguments, Span | None], Expression]


@dataclass(frozen=True)
class Signature:
    """The types of the parameters and of the result; the last ones may be left out."""

    parameters: tuple[Type, ...]
    result: Type
    required: int | None = None
    nullable: bool = False  # NULL also when no argument is: ln(0)


def _fixed(*parameters: Type, gives: Type, required: int | None = None) -> Signature:
    return Signature(parameters, gives, required)


_MATH = Signature((DOUBLE,), DOUBLE)
_LOGARITHM = Signature((DOUBLE,), DOUBLE, nullable=True)
_OF_DATE = _fixed(DATE, gives=INT)
_OF_TIME = _fixed(TIMESTAMP, gives=INT)

SIGNATURES: dict[str, Signature] = {
    # Text.
    "upper": _fixed(STRING, gives=STRING),
    "lower": _fixed(STRING, gives=STRING),
    "length": _fixed(STRING, gives=INT),
    "substring": _fixed(STRING, INT, INT, gives=STRING, required=2),
    "trim": _fixed(STRING, STRING, gives=STRING, required=1),
    "ltrim": _fixed(STRING, STRING, gives=STRING, required=1),
    "rtrim": _fixed(STRING, STRING, gives=STRING, required=1),
    "replace": _fixed(STRING, STRING, STRING, gives=STRING, required=2),
    "left": _fixed(STRING, INT, gives=STRING),
    "right": _fixed(STRING, INT, gives=STRING),
    "instr": _fixed(STRING, STRING, gives=INT),
    "split_part": _fixed(STRING, STRING, INT, gives=STRING),
    "lpad": _fixed(STRING, INT, STRING, gives=STRING, required=2),
    "rpad": _fixed(STRING, INT, STRING, gives=STRING, required=2),
    "reverse": _fixed(STRING, gives=STRING),
    "repeat": _fixed(STRING, INT, gives=STRING),
    "translate": _fixed(STRING, STRING, STRING, gives=STRING),
    "ascii": _fixed(STRING, gives=INT),
    "startswith": _fixed(STRING, STRING, gives=BOOLEAN),
    "endswith": _fixed(STRING, STRING, gives=BOOLEAN),
    "contains": _fixed(STRING, STRING, gives=BOOLEAN),
    "md5": _fixed(STRING, gives=STRING),
    "sha1": _fixed(STRING, gives=STRING),
    "octet_length": _fixed(STRING, gives=INT),
    "chr": _fixed(BIGINT, gives=STRING),
    "initcap": _fixed(STRING, gives=STRING),
    "regexp_extract": _fixed(STRING, STRING, INT, gives=STRING, required=2),
    "regexp_replace": _fixed(STRING, STRING, STRING, gives=STRING),
    "substring_index": _fixed(STRING, STRING, INT, gives=STRING),
    # Numbers.
    "sqrt": _MATH, "cbrt": _MATH, "exp": _MATH, "sin": _MATH, "cos": _MATH, "tan": _MATH,
    "asin": _MATH, "acos": _MATH, "atan": _MATH, "radians": _MATH, "degrees": _MATH,
    "sign": _MATH,
    "ln": _LOGARITHM, "log10": _LOGARITHM, "log2": _LOGARITHM,
    "log": Signature((DOUBLE, DOUBLE), DOUBLE, nullable=True),
    "pow": _fixed(DOUBLE, DOUBLE, gives=DOUBLE),
    "atan2": _fixed(DOUBLE, DOUBLE, gives=DOUBLE),
    "pi": _fixed(gives=DOUBLE),
    "e": _fixed(gives=DOUBLE),
    "bit_count": _fixed(BIGINT, gives=INT),
    # Days and moments.
    "year": _OF_DATE, "month": _OF_DATE, "day": _OF_DATE, "quarter": _OF_DATE,
    "dayofweek": _OF_DATE, "weekday": _OF_DATE, "dayofyear": _OF_DATE, "weekofyear": _OF_DATE,
    "hour": _OF_TIME, "minute": _OF_TIME, "second": _OF_TIME,
    "second_fraction": _fixed(TIMESTAMP, gives=Decimal(8, 6)),
    "date_add": _fixed(DATE, INT, gives=DATE),
    "date_sub": _fixed(DATE, INT, gives=DATE),
    "add_months": _fixed(DATE, INT, gives=DATE),
    "datediff": _fixed(DATE, DATE, gives=INT),
    "last_day": _fixed(DATE, gives=DATE),
    "dayname": _fixed(DATE, gives=STRING),
    "monthname": _fixed(DATE, gives=STRING),
    "make_date": _fixed(INT, INT, INT, gives=DATE),
    "unix_seconds": _fixed(TIMESTAMP, gives=BIGINT),
    "unix_millis": _fixed(TIMESTAMP, gives=BIGINT),
    "unix_micros": _fixed(TIMESTAMP, gives=BIGINT),
    "unix_date": _fixed(DATE, gives=INT),
    "date_from_unix_date": _fixed(INT, gives=DATE),
    "timestamp_millis": _fixed(BIGINT, gives=TIMESTAMP),
    "timestamp_micros": _fixed(BIGINT, gives=TIMESTAMP),
    **{
        name: Signature(each.parameters, each.result, each.required, nullable=True)
        for name, each in PYTHON_FUNCTIONS.items()
    },
}  # fmt: skip

SYNONYMS = {
    "substr": "substring", "char_length": "length", "character_length": "length", "len": "length",
    "lcase": "lower", "ucase": "upper", "btrim": "trim", "ceiling": "ceil", "power": "pow",
    "signum": "sign", "nvl": "coalesce", "ifnull": "coalesce", "dayofmonth": "day",
    "negative": "-", "date_diff": "datediff", "starts_with": "startswith",
    "ends_with": "endswith", "dateadd": "date_add",
    "regexp_like": "rlike", "regexp": "rlike", "sha": "sha1", "char": "chr",
    "week": "weekofyear", "dow": "dayofweek", "doy": "dayofyear",
}  # fmt: skip

# Their value is another one at the next refresh, so no view can hold them.
VOLATILE = frozenset({
    "rand", "random", "randn", "uuid", "now", "current_timestamp", "current_date", "curdate",
    "localtimestamp", "current_time", "current_user", "session_user", "user", "shuffle",
    "monotonically_increasing_id", "spark_partition_id", "input_file_name", "randstr", "uniform",
})  # fmt: skip


_MOMENTS = ("now", "current_timestamp", "localtimestamp")
_DAYS = ("current_date", "curdate")


TIMES = frozenset({*_MOMENTS, *_DAYS})


def of_clock(name: str, span: Span | None) -> Expression:
    """The time of the mill, in a view: time alone may change its rows."""
    moment = clock.now(span)
    return cast(moment, DATE) if name in _DAYS else moment


def volatile(name: str, now: dt.datetime, span: Span | None) -> Expression:
    """Such a function in a query that is answered once: time is a constant, chance the engine's."""
    if name in _MOMENTS:
        return Literal(now, TIMESTAMP, span)
    if name in _DAYS:
        return Literal(now.date(), DATE, span)
    raise NotModelled(f"the function {name}", span)


def call(name: str, arguments: Arguments, span: Span | None = None) -> Expression:
    """The function `name` over `arguments`, or NotModelled when the catalog lacks it."""
    name = SYNONYMS.get(name.lower(), name.lower())
    if (builder := BUILDERS.get(name)) is not None:
        _check_count(name, arguments, COUNTS[name], span)
        return builder(arguments, span)
    signature = SIGNATURES.get(name)
    if signature is None:
        raise NotModelled(f"the function {name}", span)
    return _by_signature(name, signature, arguments, span)


def _by_signature(
    name: str, signature: Signature, arguments: Arguments, span: Span | None
) -> Expression:
    most = len(signature.parameters)
    least = most if signature.required is None else signature.required
    _check_count(name, arguments, (least, most), span)
    pairs = zip(arguments, signature.parameters, strict=False)
    converted = tuple(implicit(given, wanted, name) for given, wanted in pairs)
    nullable = signature.nullable or is_nullable(converted)
    return Call(name, converted, signature.result, nullable, span)


def _check_count(
    name: str, arguments: Arguments, counts: tuple[int, int | None], span: Span | None
) -> None:
    least, most = counts
    if len(arguments) < least or (most is not None and len(arguments) > most):
        wanted = (
            f"{least}" if least == most else f"{least} to {most}" if most else f"{least} or more"
        )
        raise TypeMismatch(f"{name} takes {wanted} arguments, got {len(arguments)}", span=span)


# Functions by names of our own, which stand for more than one of Spark's.
_INNER = frozenset({
    "-", "second_fraction", "shiftleft_long", "shiftright_long", "shiftrightunsigned_long",
    "bround_text", "format_exact", "try_exact", "round_float", "java_like", "java_extract",
    "java_replace", "text_upper", "text_lower", "text_initcap", "text_date", "text_timestamp",
    "text_real", "date_text",
    "split_at", "split_get", "split_element", "split_size", "split_contains",
    "timestamp_add_months", "whole_months_between",
})  # fmt: skip


def function_names() -> Iterable[str]:
    """Every scalar function the catalog knows."""
    return {*SIGNATURES, *SYNONYMS, *BUILDERS} - _INNER


def lower_case(text: Expression, span: Span | None) -> Expression:
    """lower(text); of a constant it is one too."""
    if isinstance(text, Literal) and isinstance(text.value, str):
        return Literal(text.value.lower(), STRING, text.span)
    return call("lower", (text,), span)


# Builders.


_AS_NUMBERS: dict[type[Type], str] = {
    Date: "unix_date(day) is the number of the day.",
    Timestamp: "unix_seconds(moment) is the number of the second.",
    Interval: "timestampdiff(SECOND, a, b) counts seconds, datediff(b, a) days.",
}


def number(argument: Expression, what: str) -> Expression:
    """A numeric argument as it is; text is read as DOUBLE."""
    if isinstance(argument.type, String | Null):
        return cast(argument, DOUBLE)
    if not is_numeric(argument.type):
        raise TypeMismatch(
            f"{what} needs a number, got {argument.type}",
            hint=_AS_NUMBERS.get(type(argument.type), ""),
            span=argument.span,
        )
    return argument


def _abs(arguments: Arguments, span: Span | None) -> Expression:
    operand = number(arguments[0], "abs")
    return make_call("abs", (operand,), operand.type, span)


def _round(arguments: Arguments, span: Span | None) -> Expression:
    operand = number(arguments[0], "round")
    digits = 0 if len(arguments) == 1 else constant(arguments[1], "a number of digits")
    if not isinstance(digits, int):
        raise TypeMismatch("round needs a whole number of digits", span=arguments[1].span)
    type_ = operand.type
    if isinstance(type_, Decimal):
        type_ = decimals.round_type(type_, digits)
    return make_call("round", (operand, Literal(digits, INT)), type_, span)


def _whole(name: str) -> Builder:
    def build(arguments: Arguments, span: Span | None) -> Expression:
        operand = number(arguments[0], name)
        type_ = operand.type
        if isinstance(type_, Decimal):
            # ceil(9.5) is 10: one more digit than there were before the point.
            whole = decimals.bounded(type_.precision - type_.scale + 1, 0)
            return make_call(name, (operand,), whole, span)
        if isinstance(type_, Integer):
            return cast(operand, BIGINT)
        return make_call(name, (cast(operand, DOUBLE),), BIGINT, span)

    return build


def _extreme(name: str) -> Builder:
    def build(arguments: Arguments, span: Span | None) -> Expression:
        values = unify(arguments, name)
        # NULLs are passed over: NULL only when all are.
        nullable = all(each.nullable for each in values)
        return Call(name, values, values[0].type, nullable, span)

    return build


def _coalesce(arguments: Arguments, span: Span | None) -> Expression:
    values = unify(arguments, "coalesce")
    nullable = all(each.nullable for each in values)
    return Call("coalesce", values, values[0].type, nullable, span)


def _if(arguments: Arguments, span: Span | None) -> Expression:
    return operators.choose([(arguments[0], arguments[1])], arguments[2], span)


def _nvl2(arguments: Arguments, span: Span | None) -> Expression:
    present = operators.negation(operators.is_null(arguments[0], span), span)
    return operators.choose([(present, arguments[1])], arguments[2], span)


def _nullif(arguments: Arguments, span: Span | None) -> Expression:
    equal = operators.compare("=", arguments[0], arguments[1], span)
    return operators.choose([(equal, Literal(None, NULL))], arguments[0], span)


def _locate(arguments: Arguments, span: Span | None) -> Expression:
    """The place of a text in another from a place on: 0 where that is NULL."""
    part, text = (implicit(each, STRING, "locate") for each in arguments[:2])
    start = implicit(arguments[2], INT, "locate")
    found = make_call("locate", (part, text, start), INT, span)
    if not start.nullable:
        return found
    return operators.choose([(operators.is_null(start, span), Literal(0, INT))], found, span)


def _zeroifnull(arguments: Arguments, span: Span | None) -> Expression:
    return _coalesce((arguments[0], Literal(0, INT)), span)


def _nullifzero(arguments: Arguments, span: Span | None) -> Expression:
    return _nullif((arguments[0], Literal(0, INT)), span)


def _try_over(sign: str) -> Builder:
    """/ and %, NULL over zero."""

    def build(arguments: Arguments, span: Span | None) -> Expression:
        left, right = _lenient(arguments, sign, span)
        plain = operators.arithmetic(sign, left, right, span)
        assert isinstance(plain, Call)
        divisor = _nullifzero(plain.arguments[1:], span)
        made = Call(sign, (plain.arguments[0], divisor), plain.type, True, span)
        return _try_wide(sign, made, span)

    return build


def _lenient(arguments: Arguments, sign: str, span: Span | None) -> Arguments:
    """Text beside a number is NULL where it is no number."""
    types = [each.type for each in arguments]
    if not any(isinstance(each, String) for each in types):
        return arguments
    meeting = common_types(types)
    if meeting is None or all(isinstance(each, String) for each in types):
        return arguments  # as the operator says
    return tuple(
        cast(each, meeting, lenient=True) if isinstance(each.type, String) else each
        for each in arguments
    )


def _try_wide(sign: str, plain: Expression, span: Span | None) -> Expression:
    """Make overflow of a 38-digit decimal NULL; narrower results cannot overflow."""
    type_ = plain.type
    if not isinstance(type_, Decimal) or type_.precision < decimals.MAX_PRECISION or sign == "%":
        return plain
    assert isinstance(plain, Call)
    texts = map(_digits, plain.arguments)
    size = (Literal(type_.precision, INT), Literal(type_.scale, INT))
    arguments = (Literal(sign, STRING), *texts, *size)
    return cast(Call("try_exact", arguments, STRING, True, span), type_)


def _try(name: str, sign: str) -> Builder:
    """NULL where a number does not fit; floats have infinities."""

    def build(arguments: Arguments, span: Span | None) -> Expression:
        left, right = _lenient(arguments, sign, span)
        plain = operators.arithmetic(sign, left, right, span)
        if not isinstance(plain.type, Integer):
            return _try_wide(sign, plain, span)
        left, right = cast(left, BIGINT), cast(right, BIGINT)
        if plain.type == BIGINT:
            return Call(name, (left, right), BIGINT, True, span)
        wide = operators.arithmetic(sign, left, right, span)
        return Cast(wide, plain.type, True, True, span)

    return build


def _shift(name: str) -> Builder:
    def build(arguments: Arguments, span: Span | None) -> Expression:
        long = arguments[0].type == BIGINT
        value = implicit(arguments[0], BIGINT if long else INT, name)
        count = implicit(arguments[1], INT, name)
        made = f"{name}_long" if long else name
        return make_call(made, (value, count), value.type, span)

    return build


def _digits(number: Expression) -> Expression:
    """A number as text, of a constant too: Spark is given the number itself."""
    return Cast(number, STRING, number.nullable, False, number.span)


def _bround(arguments: Arguments, span: Span | None) -> Expression:
    rounded = _round(arguments, span)
    assert isinstance(rounded, Call)
    if isinstance(rounded.type, Decimal):
        texts = (_digits(rounded.arguments[0]), rounded.arguments[1])
        return cast(make_call("bround_text", texts, STRING, span), rounded.type)
    value, digits = cast(rounded.arguments[0], DOUBLE), rounded.arguments[1]
    if isinstance(rounded.type, Integer):
        if isinstance(digits, Literal) and isinstance(digits.value, int) and digits.value >= 0:
            return rounded.arguments[0]
        texts = (_digits(rounded.arguments[0]), digits)
        return cast(make_call("bround_text", texts, STRING, span), rounded.type)
    return cast(make_call("bround", (value, digits), DOUBLE, span), rounded.type)


def _format_number(arguments: Arguments, span: Span | None) -> Expression:
    value = number(arguments[0], "format_number")
    if isinstance(arguments[1].type, String):
        raise NotModelled("format_number by a pattern", span)
    digits = implicit(arguments[1], INT, "format_number")
    if isinstance(value.type, Decimal | Integer):
        return Call("format_exact", (_digits(value), digits), STRING, True, span)
    return Call("format_number", (cast(value, DOUBLE), digits), STRING, True, span)


def _hex(arguments: Arguments, span: Span | None) -> Expression:
    is_text = isinstance(arguments[0].type, String)
    operand = arguments[0] if is_text else implicit(arguments[0], BIGINT, "hex")
    return make_call("hex", (operand,), STRING, span)


def _sha2(arguments: Arguments, span: Span | None) -> Expression:
    if constant(arguments[1], "a length of sha2") not in (0, 256):
        raise NotModelled("sha2 of this length", span)
    text = implicit(arguments[0], STRING, "sha2")
    return make_call("sha2", (text, Literal(256, INT)), STRING, span)


def _typeof(arguments: Arguments, span: Span | None) -> Expression:
    spelled = str(arguments[0].type).lower().replace(": ", ":").replace(", ", ",")
    return Literal(spelled, STRING, span)


def _concat(arguments: Arguments, span: Span | None) -> Expression:
    return make_call(
        "concat", tuple(implicit(each, STRING, "concat") for each in arguments), STRING, span
    )


def _concat_ws(arguments: Arguments, span: Span | None) -> Expression:
    texts = tuple(implicit(each, STRING, "concat_ws") for each in arguments)
    # NULLs among the values are passed over; only the separator makes it NULL.
    return Call("concat_ws", texts, STRING, texts[0].nullable, span)


def _pmod(arguments: Arguments, span: Span | None) -> Expression:
    remainder = operators.arithmetic("%", arguments[0], arguments[1], span)
    assert isinstance(remainder, Call)
    return Call("pmod", remainder.arguments, remainder.type, remainder.nullable, span)


def _isnan(arguments: Arguments, span: Span | None) -> Expression:
    # isnan(NULL) is false.
    return Call("isnan", (implicit(arguments[0], DOUBLE, "isnan"),), BOOLEAN, False, span)


def _minus(arguments: Arguments, span: Span | None) -> Expression:
    return operators.negate(arguments[0], span)


def _positive(arguments: Arguments, span: Span | None) -> Expression:
    negated = operators.negate(arguments[0], span)  # which takes what this takes
    return negated.arguments[0] if isinstance(negated, Call) else arguments[0]


def _mod(arguments: Arguments, span: Span | None) -> Expression:
    return operators.arithmetic("%", arguments[0], arguments[1], span)


def _rlike(arguments: Arguments, span: Span | None) -> Expression:
    return operators.matches("rlike", arguments[0], arguments[1], "", span)


def _isnull(arguments: Arguments, span: Span | None) -> Expression:
    return operators.is_null(arguments[0], span)


def _isnotnull(arguments: Arguments, span: Span | None) -> Expression:
    return operators.negation(operators.is_null(arguments[0], span), span)


def _equal_null(arguments: Arguments, span: Span | None) -> Expression:
    return operators.compare("<=>", arguments[0], arguments[1], span)


def _nanvl(arguments: Arguments, span: Span | None) -> Expression:
    left = implicit(arguments[0], DOUBLE, "nanvl")
    right = implicit(arguments[1], DOUBLE, "nanvl")
    return operators.choose([(_isnan((left,), span), right)], left, span)


def _decode(arguments: Arguments, span: Span | None) -> Expression:
    """decode(x, a, r, b, s, default): NULL is equal to NULL."""
    subject, *rest = arguments
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    branches = [(operators.compare("<=>", subject, a, span), r) for a, r in pairs]
    return operators.choose(branches, rest[-1] if len(rest) % 2 else None, span)


_BUILDERS: dict[str, tuple[Builder, int, int | None]] = {
    **time_functions.BUILDERS,
    "decode": (_decode, 3, None),
    "abs": (_abs, 1, 1), "round": (_round, 1, 2), "floor": (_whole("floor"), 1, 1),
    "ceil": (_whole("ceil"), 1, 1), "greatest": (_extreme("greatest"), 2, None),
    "least": (_extreme("least"), 2, None), "coalesce": (_coalesce, 1, None), "if": (_if, 3, 3),
    "nvl2": (_nvl2, 3, 3), "nullif": (_nullif, 2, 2), "concat": (_concat, 1, None),
    "concat_ws": (_concat_ws, 1, None), "pmod": (_pmod, 2, 2), "mod": (_mod, 2, 2),
    "isnan": (_isnan, 1, 1), "-": (_minus, 1, 1), "rlike": (_rlike, 2, 2),
    "isnull": (_isnull, 1, 1), "isnotnull": (_isnotnull, 1, 1),
    "equal_null": (_equal_null, 2, 2), "nanvl": (_nanvl, 2, 2),
    "try_divide": (_try_over("/"), 2, 2),
    "zeroifnull": (_zeroifnull, 1, 1), "nullifzero": (_nullifzero, 1, 1), "hex": (_hex, 1, 1),
    "locate": (_locate, 3, 3),
    "sha2": (_sha2, 2, 2), "typeof": (_typeof, 1, 1), "try_mod": (_try_over("%"), 2, 2),
    "positive": (_positive, 1, 1),
    "try_add": (_try("try_add", "+"), 2, 2), "try_subtract": (_try("try_subtract", "-"), 2, 2),
    "try_multiply": (_try("try_multiply", "*"), 2, 2), "bround": (_bround, 1, 2),
    "format_number": (_format_number, 2, 2),
    **{name: (_shift(name), 2, 2) for name in ("shiftleft", "shiftright", "shiftrightunsigned")},
}  # fmt: skip
BUILDERS: dict[str, Builder] = {name: entry[0] for name, entry in _BUILDERS.items()}
COUNTS: dict[str, tuple[int, int | None]] = {
    name: (entry[1], entry[2]) for name, entry in _BUILDERS.items()
}

_EXTRACTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    **dict.fromkeys(("DAYOFYEAR", "DOY"), "dayofyear"),
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "second_fraction"),
}


def extract(field: str, argument: Expression, span: Span | None) -> Expression:
    """EXTRACT(field FROM argument); seconds keep their fraction, as in Spark."""
    name = _EXTRACTS.get(field.upper())
    if name is None or not isinstance(argument.type, Date | Timestamp | String):
        if name is None and field.upper() not in ("YEAROFWEEK", "DAYOFWEEK_ISO", "DOW_ISO"):
            hint = "For seconds since 1970 write unix_seconds(moment)."
            raise TypeMismatch(f"EXTRACT does not know {field}", hint=hint, span=span)
        raise NotModelled(f"EXTRACT of {field} from {argument.type}", span)
    return call(name, (argument,), span)
