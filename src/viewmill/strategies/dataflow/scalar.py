"""Scalar expressions to lines of trigger source.

takes  algebra.Expression, and for each column the names that hold it
gives  lines that compute it, and an `Operand`: where the value is, and whether it is NULL

Values are int64 or float64 words, Python booleans for BOOLEAN. SQL's three-valued logic is written
out: an operand carries its own null flag. What Spark judges lazily (AND, OR, CASE) is judged lazily
here too, because x <> 0 AND 1 / x > 2 must not fail.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import Call, Case, Cast, Column, Expression, Literal
from viewmill.algebra.types import (
    BOOLEAN,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Null,
    String,
    Timestamp,
    Type,
)
from viewmill.program.text_functions import base_column, is_text_function
from viewmill.strategies.dataflow.dates import DATES, is_shift, shift, truncation
from viewmill.strategies.dataflow.shape import NotTaken
from viewmill.strategies.dataflow.source import Source

DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1)
_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class Operand:
    """Source text of a value, and of its null flag; None means never NULL."""

    value: str
    null: str | None = None


class Scalar:
    """Writes expressions into `source`; `columns` says where columns are, `row` names the row."""

    def __init__(self, source: Source, columns: Mapping[str, Operand], row: str) -> None:
        self.source, self.columns, self.row = source, columns, row

    def emit(self, expression: Expression) -> Operand:
        """Write what computes `expression`."""
        match expression:
            case Column():
                if expression.outer or expression.name not in self.columns:
                    raise NotTaken("a correlated column", expression.span)
                return self.columns[expression.name]
            case Literal():
                return self._literal(expression)
            case Cast():
                return self._cast(expression)
            case Case():
                return self._case(expression)
            case Call():
                return self._call(expression)
            case _:
                raise NotTaken(
                    f"{display_expression(expression)} is not maintained incrementally yet",
                    expression.span,
                )

    def is_true(self, condition: Expression) -> str:
        """Write a condition; the text that is true when SQL calls it true."""
        operand = self.emit(condition)
        return (
            operand.value if operand.null is None else f"({operand.value} and not {operand.null})"
        )

    # Constants.

    def _literal(self, literal: Literal) -> Operand:
        if literal.value is None:
            return Operand(default(literal.type), "True")
        if isinstance(literal.type, String):
            return Operand(self.source.text(str(literal.value)))
        return Operand(constant(literal))

    # Functions.

    def _call(self, call: Call) -> Operand:
        if call.function in ("and", "or"):
            return self._logic(call)
        if call.function == "coalesce":
            return self._coalesce(call)
        if call.function == "is_null":
            operand = self.emit(call.arguments[0])
            return Operand(operand.null or "False")
        if call.function == "in":
            return self._in(call)
        if call.function == "<=>":
            return self._null_safe_equal(call)
        if is_text_function(call):
            return self._text_function(call)
        if is_shift(call):
            return self._strict(call, [self.emit(call.arguments[0])], shift(call))
        if call.function in ("greatest", "least"):
            return self._extreme(call)
        if call.function in LOGARITHMS:
            return self._logarithm(call)
        if call.function in ("date_trunc", "trunc"):
            moment, cut = truncation(call)
            return self._strict(call, [self.emit(moment)], cut)
        write = STRICT.get(call.function) or DATES.get(call.function)
        if write is None:
            raise NotTaken(f"{call.function} is not maintained incrementally yet", call.span)
        operands = [self.emit(argument) for argument in call.arguments]
        return self._strict(call, operands, write)

    def _extreme(self, call: Call) -> Operand:
        """The largest or smallest of those that are not NULL."""
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = {default(call.type)}")
        self.source.line(f"{null} = True")
        for argument in call.arguments:
            self._same_word(argument, call.type)
            operand = self.emit(argument)
            a, b = (value, operand.value) if call.function == "greatest" else (operand.value, value)
            if isinstance(call.type, Float):
                better = f"float_lt({a}, {b})"
            elif isinstance(call.type, String):
                better = f"text_less(texts, {self.source.every_text()}, {a}, {b})"
            else:
                better = f"{a} < {b}"
            with self.source.block(f"if not {operand.null or 'False'} and ({null} or {better}):"):
                self.source.line(f"{value} = {operand.value}")
                self.source.line(f"{null} = False")
        return Operand(value, null)

    def _logarithm(self, call: Call) -> Operand:
        """NULL of what is not positive."""
        operand = self.emit(call.arguments[0])
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = 0.0")
        self.source.line(f"{null} = {operand.null or 'False'} or not {operand.value} > 0.0")
        with self.source.block(f"if not {null}:"):
            self.source.line(f"{value} = {LOGARITHMS[call.function]}({operand.value})")
        return Operand(value, null)

    def _text_function(self, call: Call) -> Operand:
        """What was computed of a string when it first came, by the string's id."""
        number = self.source.lookup(call)
        if number is None:
            raise NotTaken(
                f"{call.function} of a string that is itself computed is not incremental yet",
                call.span,
            )
        found = "look_word(texts, {}, {})" + (" != 0" if call.type == BOOLEAN else "")
        write = lambda scalar, expression, values: found.format(number, *values)  # noqa: E731
        return self._strict(call, [self.emit(base_column(call))], write)

    def _strict(
        self,
        expression: Expression,
        operands: list[Operand],
        write: Callable[[Scalar, Expression, list[str]], str],
    ) -> Operand:
        """A value that is NULL when an operand is, and otherwise computed."""
        text = write(self, expression, [operand.value for operand in operands])
        nulls = [operand.null for operand in operands if operand.null is not None]
        value = self.source.name("v")
        if not nulls:
            self.source.line(f"{value} = {text}")
            return Operand(value)
        null = self.source.name("n")
        self.source.line(f"{null} = {' or '.join(dict.fromkeys(nulls))}")
        self.source.line(f"{value} = {default(expression.type)}")
        with self.source.block(f"if not {null}:"):
            self.source.line(f"{value} = {text}")
        return Operand(value, null)

    def _logic(self, call: Call) -> Operand:
        """AND and OR, the right side judged only while the left leaves it open."""
        left, right = call.arguments
        is_and = call.function == "and"
        first = self.emit(left)
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = {first.value}")
        self.source.line(f"{null} = {first.null or 'False'}")
        still_open = value if is_and else f"not {value}"
        with self.source.block(f"if {null} or {still_open}:"):
            second = self.emit(right)
            other_null = second.null or "False"
            decided = f"not {second.value}" if is_and else second.value
            with self.source.block(f"if not {other_null} and {decided}:"):
                self.source.line(f"{value} = {not is_and}")
                self.source.line(f"{null} = False")
            with self.source.block(f"elif {other_null}:"):
                self.source.line(f"{null} = True")
        self.source.line(f"{value} = {value} and not {null}")
        return Operand(value, null)

    def _coalesce(self, call: Call) -> Operand:
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = {default(call.type)}")
        self.source.line(f"{null} = True")
        for argument in call.arguments:
            self._same_word(argument, call.type)
            with self.source.block(f"if {null}:"):
                operand = self.emit(argument)
                self.source.line(f"{value} = {operand.value}")
                self.source.line(f"{null} = {operand.null or 'False'}")
        return Operand(value, null)

    def _in(self, call: Call) -> Operand:
        first, *others = call.arguments
        if len(others) == 1:
            return self.emit(Call("=", (first, others[0]), BOOLEAN, True, call.span))
        last: Expression = Call("=", (first, others[-1]), BOOLEAN, True, call.span)
        for other in reversed(others[:-1]):
            equal = Call("=", (first, other), BOOLEAN, True, call.span)
            last = Call("or", (equal, last), BOOLEAN, True, call.span)
        return self.emit(last)

    def _null_safe_equal(self, call: Call) -> Operand:
        left, right = (self.emit(argument) for argument in call.arguments)
        equal = _comparison("==")(self, call, [left.value, right.value])
        a, b = left.null or "False", right.null or "False"
        value = self.source.name("v")
        self.source.line(f"{value} = ({a} and {b}) or (not {a} and not {b} and {equal})")
        return Operand(value)

    def _case(self, case: Case) -> Operand:
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = {default(case.type)}")
        self.source.line(f"{null} = True")
        self._branches(case, 0, value, null)
        return Operand(value, null)

    def _branches(self, case: Case, at: int, value: str, null: str) -> None:
        if at == len(case.branches):
            self._assign(case.otherwise, case.type, value, null)
            return
        condition, result = case.branches[at]
        with self.source.block(f"if {self.is_true(condition)}:"):
            self._assign(result, case.type, value, null)
        with self.source.block("else:"):
            self._branches(case, at + 1, value, null)

    def _assign(self, expression: Expression, type_: Type, value: str, null: str) -> None:
        self._same_word(expression, type_)
        operand = self.emit(expression)
        self.source.line(f"{value} = {operand.value}")
        self.source.line(f"{null} = {operand.null or 'False'}")

    def _same_word(self, expression: Expression, type_: Type) -> None:
        """Branches must agree in type; the lowering casts them, except a bare NULL."""
        if expression.type != type_ and not isinstance(expression.type, Null):
            raise NotTaken(f"{expression.type} where {type_} is needed", expression.span)

    # Casts.

    def _cast(self, cast: Cast) -> Operand:
        if isinstance(cast.input, Literal) and cast.input.value is None:
            return Operand(default(cast.type), "True")
        cast = _narrowed(cast)
        write = CASTS.get((type(cast.input.type), type(cast.type)))
        if write is None or cast.lenient:
            raise NotTaken(
                f"a cast from {cast.input.type} to {cast.type} is not maintained incrementally yet",
                cast.span,
            )
        return self._strict(cast, [self.emit(cast.input)], write)

    # Failures.

    def failure(self, expression: Expression, kind: str, what: str) -> str:
        """The arguments `errors, code, row` of a checked operation."""
        text = f"{display_expression(expression)}: {what}"
        code = self.source.message(kind, text, expression.span)
        return f"errors, {code}, {self.row}"


def default(type_: Type) -> str:
    """The word of a NULL of this type."""
    if isinstance(type_, Float):
        return "0.0"
    return "False" if isinstance(type_, Boolean) else "0"


def constant(literal: Literal) -> str:
    """A constant as source text."""
    value, type_ = literal.value, literal.type
    match type_:
        case Boolean():
            return str(bool(value))
        case Integer():
            return repr(int(str(value)))
        case Decimal():
            scaled = decimal.Decimal(str(value)).scaleb(type_.scale)
            word = int(scaled)
            if abs(word) > _LIMIT:
                raise NotTaken(f"{value} is wider than 64 bits", literal.span)
            return repr(word)
        case Float():
            number = float(str(value))
            if math.isnan(number):
                return "(1e400 - 1e400)"
            return repr(number).replace("inf", "1e400")
        case Date():
            assert isinstance(value, dt.date)
            return repr(value.toordinal() - _EPOCH.toordinal())
        case Timestamp():
            assert isinstance(value, dt.datetime)
            return repr((value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1))
        case _:
            raise NotTaken(f"a constant of type {type_}", literal.span)


Write = Callable[[Scalar, Expression, list[str]], str]


def _arguments(expression: Expression) -> tuple[Expression, ...]:
    assert isinstance(expression, Call)
    return expression.arguments


def _overflow(scalar: Scalar, expression: Expression) -> str:
    return scalar.failure(expression, "Overflow", f"the result does not fit {expression.type}")


def _bounds(type_: Type) -> str:
    if isinstance(type_, Integer):
        return f"{type_.low}, {type_.high}"
    assert isinstance(type_, Decimal)
    high = min(10**type_.precision - 1, _LIMIT)
    return f"{-high}, {high}"


def _rescaled(scalar: Scalar, expression: Expression, text: str, source: Type, scale: int) -> str:
    """A decimal or integer word of type `source` at another scale."""
    own = source.scale if isinstance(source, Decimal) else 0
    if own == scale:
        return text
    if own < scale:
        factor = _power(scale - own, expression)
        return f"scale_up({_overflow(scalar, expression)}, {text}, {factor})"
    return f"scale_down_half_up({text}, {_power(own - scale, expression)})"


def _power(digits: int, expression: Expression) -> int:
    if digits > 18:
        raise NotTaken("a decimal of more digits than 64 bits hold", expression.span)
    return int(10**digits)


def _additive(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        types = [argument.type for argument in _arguments(expression)]
        match expression.type:
            case Float():
                _only(types, Float, expression)
                return f"{values[0]} {'+' if function == 'add' else '-'} {values[1]}"
            case Integer():
                _only(types, Integer, expression)
            case Decimal():
                _only(types, Integer | Decimal, expression)
                scale = max(t.scale if isinstance(t, Decimal) else 0 for t in types)
                if scale != expression.type.scale:
                    raise NotTaken("a decimal sum that loses digits", expression.span)
                pairs = zip(values, types, strict=True)
                values = [_rescaled(scalar, expression, v, t, scale) for v, t in pairs]
            case _:
                raise NotTaken(f"{function} on {expression.type}", expression.span)
        why, bounds = _overflow(scalar, expression), _bounds(expression.type)
        return f"{function}_checked({why}, {values[0]}, {values[1]}, {bounds})"

    return write


def _only(types: list[Type], kinds: object, expression: Expression) -> None:
    if expression.type == Float(32):
        raise NotTaken("FLOAT arithmetic is not maintained incrementally yet", expression.span)
    if not all(isinstance(each, kinds) for each in types):  # type: ignore[arg-type]
        shown = ", ".join(map(str, types))
        raise NotTaken(f"arithmetic between {shown}", expression.span)


def _minus(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    if len(values) == 2:
        return _additive("sub")(scalar, expression, values)
    if isinstance(expression.type, Float):
        return f"-{values[0]}"
    why, bounds = _overflow(scalar, expression), _bounds(expression.type)
    return f"sub_checked({why}, 0, {values[0]}, {bounds})"


def _multiply(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    types = [argument.type for argument in _arguments(expression)]
    a, b = values
    match expression.type:
        case Float():
            _only(types, Float, expression)
            return f"{a} * {b}"
        case Integer():
            _only(types, Integer, expression)
            why, bounds = _overflow(scalar, expression), _bounds(expression.type)
            return f"mul_checked({why}, {a}, {b}, {bounds})"
        case Decimal(scale=scale):
            _only(types, Integer | Decimal, expression)
            have = sum(each.scale for each in types if isinstance(each, Decimal))
            factor = _power(have - scale, expression)
            if factor == 1:
                why = _overflow(scalar, expression)
                return f"mul_checked({why}, {a}, {b}, {-_LIMIT}, {_LIMIT})"
            return f"mul_decimal({_overflow(scalar, expression)}, {a}, {b}, {factor})"
        case _:
            raise NotTaken(f"multiplying {expression.type}", expression.span)


def _divide(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    types = [argument.type for argument in _arguments(expression)]
    a, b = values
    zero = scalar.failure(expression, "EvaluationFailed", "division by zero or overflow")
    match expression.type:
        case Float():
            _only(types, Float, expression)
            return f"div_float({zero}, {a}, {b})"
        case Decimal(scale=scale):
            _only(types, Integer | Decimal, expression)
            scales = [each.scale if isinstance(each, Decimal) else 0 for each in types]
            digits = scale + scales[1] - scales[0]
            if digits < 0:
                raise NotTaken("a decimal quotient that loses digits", expression.span)
            return f"div_decimal({zero}, {a}, {b}, {_power(digits, expression)})"
        case _:
            raise NotTaken(f"dividing {expression.type}", expression.span)


def _whole(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        types = [argument.type for argument in _arguments(expression)]
        zero = scalar.failure(expression, "EvaluationFailed", "division by zero")
        if isinstance(expression.type, Float) and function == "mod":
            _only(types, Float, expression)
            return f"mod_float({zero}, {values[0]}, {values[1]})"
        _only(types, Integer, expression)
        return f"{function}_int({zero}, {values[0]}, {values[1]})"

    return write


_FLIPPED = {"<": "float_lt({a}, {b})", ">": "float_lt({b}, {a})", "<=": "not float_lt({b}, {a})",
            ">=": "not float_lt({a}, {b})", "==": "float_eq({a}, {b})",
            "!=": "not float_eq({a}, {b})"}  # fmt: skip


def _comparison(operator: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        a, b = values
        left, right = (argument.type for argument in _arguments(expression))
        if isinstance(left, Float) and isinstance(right, Float):
            return "(" + _FLIPPED[operator].format(a=a, b=b) + ")"
        if isinstance(left, String) and operator not in ("==", "!="):
            first, second = (b, a) if operator in (">", "<=") else (a, b)
            less = f"text_less(texts, {scalar.source.every_text()}, {first}, {second})"
            return f"({less})" if operator in ("<", ">") else f"(not {less})"
        if isinstance(left, Decimal | Integer) and isinstance(right, Decimal | Integer):
            scales = [each.scale if isinstance(each, Decimal) else 0 for each in (left, right)]
            a = _rescaled(scalar, expression, a, left, max(scales))
            b = _rescaled(scalar, expression, b, right, max(scales))
        elif type(left) is not type(right):
            raise NotTaken(f"comparing {left} with {right}", expression.span)
        return f"({a} {operator} {b})"

    return write


def _not(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"not {values[0]}"


def _absolute(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    if isinstance(expression.type, Float):
        return f"abs({values[0]})"
    why, bounds = _overflow(scalar, expression), _bounds(expression.type)
    return f"({values[0]} if {values[0]} >= 0 else sub_checked({why}, 0, {values[0]}, {bounds}))"


def _is_nan(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"is_nan({values[0]})"


def _same_word(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    """A time is held as its microseconds."""
    return values[0]


def _positive_rest(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    """By a positive constant, as the start of a window is computed."""
    divisor = _arguments(expression)[1]
    value = divisor.value if isinstance(divisor, Literal) else None
    if not isinstance(expression.type, Integer) or not isinstance(value, int) or value <= 0:
        raise NotTaken("pmod is incremental by a positive constant only", expression.span)
    return f"({values[0]} % {values[1]})"


def _real(function: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        return f"{function}({', '.join(values)})"

    return write


def _rounded(up: bool) -> Write:
    """floor and ceil: of a float to BIGINT, of a decimal to one without a fraction."""

    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        source = _arguments(expression)[0].type
        if isinstance(source, Float):
            why, bounds = _overflow(scalar, expression), _bounds(expression.type)
            return f"float_to_int({why}, real_{'ceil' if up else 'floor'}({values[0]}), {bounds})"
        if not isinstance(source, Decimal):
            raise NotTaken(f"rounding {source}", expression.span)
        unit = _power(source.scale, expression)
        return f"(-(-{values[0]} // {unit}))" if up else f"({values[0]} // {unit})"

    return write


def _bits(operator: str) -> Write:
    def write(scalar: Scalar, expression: Expression, values: list[str]) -> str:
        if not isinstance(expression.type, Integer):
            raise NotTaken(f"{operator} on {expression.type}", expression.span)
        return f"({f' {operator} '.join(values)})" if len(values) > 1 else f"(~{values[0]})"

    return write


LOGARITHMS = {"ln": "real_log", "log10": "real_log10", "log2": "real_log2"}


def _only_row(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    several = scalar.failure(expression, "EvaluationFailed", "the subquery has more than one row")
    return f"only_row({several}, {values[0]}, {values[1]})"


STRICT: dict[str, Write] = {
    "only_row": _only_row, "floor": _rounded(up=False), "ceil": _rounded(up=True),
    "sqrt": _real("real_sqrt"), "exp": _real("real_exp"), "pow": _real("real_pow"),
    "sign": _real("real_sign"), "&": _bits("&"), "|": _bits("|"), "^": _bits("^"),
    "~": _bits("~"),
    "+": _additive("add"), "-": _minus, "*": _multiply, "/": _divide, "div": _whole("div"),
    "%": _whole("mod"), "=": _comparison("=="), "<>": _comparison("!="), "<": _comparison("<"),
    "<=": _comparison("<="), ">": _comparison(">"), ">=": _comparison(">="), "not": _not,
    "abs": _absolute, "isnan": _is_nan, "pmod": _positive_rest,
    "unix_micros": _same_word, "timestamp_micros": _same_word,
}  # fmt: skip


# Casts, by the types from and to.


def _to_integer(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    assert isinstance(expression.type, Integer)
    source, value = expression.input.type, values[0]
    why, bounds = _overflow(scalar, expression), _bounds(expression.type)
    match source:
        case Boolean():
            return f"int({value})"
        case Float():
            return f"float_to_int({why}, {value}, {bounds})"
        case Decimal(scale=scale):
            value = f"div_int({why}, {value}, {_power(scale, expression)})"
            return f"add_checked({why}, {value}, 0, {bounds})"
        case Integer(bits) if bits <= expression.type.bits:
            return value
        case _:
            return f"add_checked({why}, {value}, 0, {bounds})"


def _to_float(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    if expression.type != Float(64) and expression.input.type != expression.type:
        raise NotTaken("a cast to FLOAT is not maintained incrementally yet", expression.span)
    source = expression.input.type
    if isinstance(source, Decimal):
        return f"({values[0]} / {float(_power(source.scale, expression))!r})"
    return f"float({values[0]})"


def _to_decimal(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    assert isinstance(expression, Cast)
    assert isinstance(expression.type, Decimal)
    source = expression.input.type
    value = _rescaled(scalar, expression, values[0], source, expression.type.scale)
    if _always_fits(source, expression.type):
        return value
    return f"add_checked({_overflow(scalar, expression)}, {value}, 0, {_bounds(expression.type)})"


def _always_fits(source: Type, target: Decimal) -> bool:
    if isinstance(source, Decimal):
        whole = source.precision - source.scale
        whole += source.scale > target.scale  # 9.99 rounds to 10.0
    else:
        assert isinstance(source, Integer)
        whole = {8: 3, 16: 5, 32: 10, 64: 19}[source.bits]
    return whole <= target.precision - target.scale


def _narrowed(cast: Cast) -> Cast:
    """A quotient with no more digits than are shown of it: all that its type has may not fit."""
    quotient, target = cast.input, cast.type
    if not isinstance(quotient, Call) or quotient.function != "/":
        return cast
    if not isinstance(quotient.type, Decimal) or not isinstance(target, Decimal):
        return cast
    scales = [
        each.type.scale if isinstance(each.type, Decimal) else 0 for each in quotient.arguments
    ]
    if not scales[0] - scales[1] <= target.scale < quotient.type.scale:
        return cast
    shorter = Decimal(quotient.type.precision, target.scale)
    return replace(cast, input=replace(quotient, type=shorter))


def _date_to_timestamp(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} * {DAY})"


def _timestamp_to_date(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return f"({values[0]} // {DAY})"


def _same(scalar: Scalar, expression: Expression, values: list[str]) -> str:
    return values[0]


CASTS: dict[tuple[type, type], Write] = {
    (Boolean, Integer): _to_integer, (Integer, Integer): _to_integer, (Float, Integer): _to_integer,
    (Decimal, Integer): _to_integer, (Integer, Float): _to_float, (Decimal, Float): _to_float,
    (Float, Float): _to_float, (Integer, Decimal): _to_decimal, (Decimal, Decimal): _to_decimal,
    (Date, Timestamp): _date_to_timestamp, (Timestamp, Date): _timestamp_to_date,
    (Date, Date): _same, (Timestamp, Timestamp): _same, (String, String): _same,
    (Boolean, Boolean): _same,
}  # fmt: skip
