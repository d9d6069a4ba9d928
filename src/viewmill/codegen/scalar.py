"""Scalar expressions to lines of trigger source.

takes  algebra.Expression, and for each column the names that hold it
gives  lines that compute it, and an `Operand`: where the value is, and whether it is NULL

Values are int64 or float64 words, Python booleans for BOOLEAN; a DECIMAL under way may be two words
(`exact`), and is one again when it is handed out. SQL's three-valued logic is written
out: an operand carries its own null flag. What Spark judges lazily (AND, OR, CASE) is judged lazily
here too, because x <> 0 AND 1 / x > 2 must not fail.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TypeVar

from viewmill.algebra.display import display_expression
from viewmill.algebra.expressions import (
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    is_engine_function,
    not_modelled,
)
from viewmill.algebra.types import (
    BOOLEAN,
    Boolean,
    Date,
    Decimal,
    Float,
    Integer,
    Nested,
    Null,
    String,
    Timestamp,
    Type,
    Wide,
)
from viewmill.codegen import exact
from viewmill.codegen.dates import DATES, is_shift, shift, truncation
from viewmill.codegen.scalar_casts import CASTS
from viewmill.codegen.scalar_functions import LOGARITHMS, STRICT, comparison
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.program.text_functions import base_column, is_text_function

_EPOCH = dt.datetime(1970, 1, 1)
_AT_ONCE = 16  # constants of IN in one expression, branches of CASE in one another
_DIGITS = decimal.Context(prec=80)
_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_T = TypeVar("_T")


@dataclass(frozen=True)
class Operand:
    """Source text of a value, and of its null flag; None means never NULL.

    A DECIMAL may be two words; `bound` is the largest it can be, without its point, if known.
    """

    value: str
    null: str | None = None
    is_wide: bool = False
    bound: int | None = None


class Scalar:
    """Writes expressions into `source`; `columns` says where columns are, `row` names the row."""

    def __init__(self, source: Source, columns: Mapping[str, Operand], row: str) -> None:
        self.source, self.columns, self.row = source, columns, row

    def emit(self, expression: Expression) -> Operand:
        """Write what computes `expression`, as one word."""
        operand = self.emit_number(expression)
        if not operand.is_wide:
            return operand
        why = self.failure(expression, "Outgrown", "the result is wider than 64 bits")
        text = f"wide_narrow({why}, {operand.value}, {-exact.WORD}, {exact.WORD})"
        return Operand(self._named(text), operand.null)

    def _named(self, text: str) -> str:
        value = self.source.name("v")
        self.source.line(f"{value} = {text}")
        return value

    def emit_number(self, expression: Expression) -> Operand:
        """Write what computes an expression; a DECIMAL may come out as two words."""
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
            return Operand(default(literal.type), "True", _is_pair(literal.type))
        if isinstance(literal.type, String):
            return Operand(self.source.text(str(literal.value)))
        if isinstance(literal.type, Decimal):
            number = digits_of(literal)
            if abs(number) > exact.WORD:
                return Operand(exact.constant(number), None, True, abs(number))
            return Operand(repr(number), bound=abs(number))
        return Operand(constant(literal))

    # Functions.

    def _call(self, call: Call) -> Operand:
        if call.function in ("and", "or"):
            return self._logic(call)
        if call.function == "coalesce":
            return self._coalesce(call)
        if call.function == "is_null":
            operand = self.emit_number(call.arguments[0])
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
        if exact.takes(call):
            operands = [self.emit_number(argument) for argument in call.arguments]
            return self._exact(exact.computed(self, call, operands), operands)
        if call.function in _OPERATORS:
            return self._comparison(call)
        write = STRICT.get(call.function) or DATES.get(call.function)
        if write is None:
            if is_engine_function(call.function):
                raise NotTaken(not_modelled(call.function), call.span)
            raise NotTaken(f"{call.function} is not maintained incrementally yet", call.span)
        operands = [self.emit(argument) for argument in call.arguments]
        return self._strict(call, operands, write)

    def _comparison(self, call: Call) -> Operand:
        operands = [self.emit_number(argument) for argument in call.arguments]
        text = self._compared(call, _OPERATORS[call.function], operands)
        return self._strict(call, operands, lambda scalar, expression, values: text)

    def _compared(self, call: Call, operator: str, operands: list[Operand]) -> str:
        """The text of a comparison of two values that are not NULL."""
        if exact.compares(call):
            return exact.comparison(self, call, operator, operands)
        return comparison(operator)(self, call, [each.value for each in operands])

    def _exact(self, made: exact.Number, operands: Sequence[Operand]) -> Operand:
        """Write a number that is NULL when an operand is."""
        nulls = [operand.null for operand in operands if operand.null is not None]
        if not nulls:
            return Operand(self._named(made.text), None, made.is_wide, made.bound)
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{null} = {' or '.join(dict.fromkeys(nulls))}")
        self.source.line(f"{value} = {'wide_of(0)' if made.is_wide else '0'}")
        with self.source.block(f"if not {null}:"):
            self.source.line(f"{value} = {made.text}")
        return Operand(value, null, made.is_wide, made.bound)

    def _extreme(self, call: Call) -> Operand:
        """The largest or smallest of those that are not NULL."""
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = {default(call.type)}")
        self.source.line(f"{null} = True")
        for argument in call.arguments:
            self._same_word(argument, call.type)
            if isinstance(call.type, Nested):
                raise NotTaken(f"an order of {call.type}", call.span)
            operand = self._as_branch(argument, call.type)
            a, b = (value, operand.value) if call.function == "greatest" else (operand.value, value)
            if _is_pair(call.type):
                better = f"wide_compare({a}, {b}) < 0"
            elif isinstance(call.type, Float):
                better = f"float_lt({a}, {b})"
            elif isinstance(call.type, String):
                better = f"text_less(texts, {self.source.every_text()}, {a}, {b})"
            else:
                better = f"{a} < {b}"
            with self.source.block(f"if not {operand.null or 'False'} and ({null} or {better}):"):
                self.source.line(f"{value} = {operand.value}")
                self.source.line(f"{null} = False")
        return Operand(value, null, _is_pair(call.type))

    def _as_branch(self, expression: Expression, type_: Type) -> Operand:
        """One of several values of a type, all in the form that holds every value of it."""
        operand = self.emit_number(expression)
        if not _is_pair(type_) or operand.is_wide:
            return operand
        return Operand(f"wide_of({operand.value})", operand.null, True)

    def _logarithm(self, call: Call) -> Operand:
        """A logarithm; NULL for arguments that are not positive."""
        operand = self.emit(call.arguments[0])
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = 0.0")
        self.source.line(f"{null} = {operand.null or 'False'} or {operand.value} <= 0.0")
        with self.source.block(f"if not {null}:"):
            self.source.line(f"{value} = {LOGARITHMS[call.function]}({operand.value})")
        return Operand(value, null)

    def _text_function(self, call: Call) -> Operand:
        """The cached value of a string function, looked up by the string's id."""
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
                operand = self._as_branch(argument, call.type)
                self.source.line(f"{value} = {operand.value}")
                self.source.line(f"{null} = {operand.null or 'False'}")
        return Operand(value, null, _is_pair(call.type))

    def _in(self, call: Call) -> Operand:
        """IN: constants are compared a few at a time, other values one by one until one matches."""
        first, *others = call.arguments
        if len(others) == 1:
            return self.emit(Call("=", (first, others[0]), BOOLEAN, True, call.span))
        if is_text_function(call) and self.source.lookup(call) is not None:
            return self._text_function(call)
        operand = self.emit_number(first)
        value, null = self.source.name("v"), self.source.name("n")
        self.source.line(f"{value} = False")
        self.source.line(f"{null} = {operand.null or 'False'}")
        known = f" and not {operand.null}" if operand.null else ""
        for is_constant, run in groupby(others, _is_constant):
            for some in _cut(list(run), _AT_ONCE if is_constant else 1):
                with self.source.block(f"if not {value}{known}:"):
                    self._among(call, operand, some, value, null)
        self.source.line(f"{null} = {null} and not {value}")
        return Operand(value, null)

    def _among(
        self, call: Call, operand: Operand, some: list[Expression], value: str, null: str
    ) -> None:
        """IN: NULL if nothing is equal and one of the values is NULL."""
        equal = []
        for each in some:
            other = self.emit_number(each)
            pair = Call("=", (call.arguments[0], each), BOOLEAN, True, call.span)
            equal.append(self._compared(pair, "==", [operand, other]))
            if other.null is not None:
                self.source.line(f"{null} = {null} or {other.null}")
                equal[-1] = f"not {other.null} and {equal[-1]}"
        self.source.line(f"{value} = {' | '.join(equal)}")

    def _null_safe_equal(self, call: Call) -> Operand:
        left, right = (self.emit_number(argument) for argument in call.arguments)
        equal = self._compared(call, "==", [left, right])
        a, b = left.null or "False", right.null or "False"
        value = self.source.name("v")
        self.source.line(f"{value} = ({a} and {b}) or (not {a} and not {b} and {equal})")
        return Operand(value)

    def _case(self, case: Case) -> Operand:
        """Branches stand in one another, but not more than a handful: Python indents 100 times."""
        value = self.source.name("v")
        results = [*(result for _, result in case.branches), case.otherwise]
        is_known = all(isinstance(each, Literal) and not each.nullable for each in results)
        null = None if is_known else self.source.name("n")
        self.source.line(f"{value} = {default(case.type)}")
        if null is not None:
            self.source.line(f"{null} = True")
        if len(case.branches) <= _AT_ONCE:
            otherwise = partial(self._assign, case.otherwise, case.type, value, null)
            self._branches(case, case.branches, value, null, otherwise)
            return Operand(value, null, _is_pair(case.type))
        is_open = self.source.name("is_open")
        self.source.line(f"{is_open} = True")
        for some in _cut(list(case.branches), _AT_ONCE):
            with self.source.block(f"if {is_open}:"):
                self.source.line(f"{is_open} = False")
                reopen = partial(self.source.line, f"{is_open} = True")
                self._branches(case, some, value, null, reopen)
        with self.source.block(f"if {is_open}:"):
            self._assign(case.otherwise, case.type, value, null)
        return Operand(value, null, _is_pair(case.type))

    def _branches(
        self, case: Case, branches: Sequence[tuple[Expression, Expression]], value: str,
        null: str | None, otherwise: Callable[[], None],
    ) -> None:  # fmt: skip
        if not branches:
            otherwise()
            return
        (condition, result), *others = branches
        with self.source.block(f"if {self.is_true(condition)}:"):
            self._assign(result, case.type, value, null)
        with self.source.block("else:"):
            self._branches(case, others, value, null, otherwise)

    def _assign(self, expression: Expression, type_: Type, value: str, null: str | None) -> None:
        self._same_word(expression, type_)
        operand = self._as_branch(expression, type_)
        self.source.line(f"{value} = {operand.value}")
        if null is not None:
            self.source.line(f"{null} = {operand.null or 'False'}")

    def _same_word(self, expression: Expression, type_: Type) -> None:
        """Branches must agree in type; the lowering casts them, except a bare NULL."""
        if expression.type != type_ and not isinstance(expression.type, Null):
            raise NotTaken(f"{expression.type} where {type_} is needed", expression.span)

    # Casts.

    def _cast(self, cast: Cast) -> Operand:
        if isinstance(cast.input, Literal) and cast.input.value is None:
            return Operand(default(cast.type), "True", _is_pair(cast.type))
        if exact.casts(cast) and not cast.lenient:
            operand = self.emit_number(cast.input)
            if isinstance(cast.type, Float):
                text = exact.converted(self, cast, operand).text
                return self._strict(cast, [operand], lambda scalar, expression, values: text)
            return self._exact(exact.converted(self, cast, operand), [operand])
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


def _is_constant(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is not None


def _cut(values: list[_T], size: int) -> Iterator[list[_T]]:
    return (values[i : i + size] for i in range(0, len(values), size))


def _is_pair(type_: Type) -> bool:
    """Whether one word does not hold every value of a type while it is computed."""
    return isinstance(type_, Decimal) and exact.limit_of(type_) > exact.WORD


def digits_of(literal: Literal) -> int:
    """A DECIMAL constant without its point."""
    assert isinstance(literal.type, Decimal | Wide)
    return int(decimal.Decimal(str(literal.value)).scaleb(literal.type.scale, _DIGITS))


def default(type_: Type) -> str:
    """A NULL of this type."""
    if _is_pair(type_):
        return "wide_of(0)"
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
            word = digits_of(literal)
            if abs(word) > exact.WORD:
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
