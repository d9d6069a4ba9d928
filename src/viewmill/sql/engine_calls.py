"""Functions that only the engine computes, over arguments that the algebra models.

takes  the sqlglot node of a function, subscript or field that is not modelled
gives  an algebra Call or Aggregate whose first argument is the node as Spark SQL; its own arguments
       stand in it as columns `@0`, `@1` and follow as expressions
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewmill.algebra.expressions import Aggregate, Call, Expression, Literal, engine_function
from viewmill.algebra.names import readable_type
from viewmill.algebra.types import BIGINT, INT, STRING, Interval, Nested, Null, Type
from viewmill.algebra.window_functions import WINDOW_FUNCTIONS
from viewmill.errors import EvaluationFailed, UnknownName, UnsupportedQuery, nearest
from viewmill.sql.aggregates import OWN_AGGREGATES
from viewmill.sql.catalog import function_in, ring_in
from viewmill.sql.dialect import spark_text
from viewmill.sql.foreign import refused
from viewmill.sql.not_modelled import NotModelled, QueryNotModelled
from viewmill.sql.read_functions import MORE, read_function
from viewmill.sql.spark_functions import ENGINE_AGGREGATES, GENERATORS, SPARK_FUNCTIONS

if TYPE_CHECKING:
    from viewmill.sql.environment import Environment
    from viewmill.sql.lower_expressions import ExpressionLowering

Known = Mapping[int, Expression]  # expressions that were lowered already, by the id of their nodes

# What is no value by itself, but a part of the call.
_STRUCTURE = (
    exp.Distinct, exp.Order, exp.Ordered, exp.Kwarg, exp.PropertyEQ, exp.Tuple, exp.Alias,
    exp.Slice, exp.Lambda,
)  # fmt: skip
_WORDS = (exp.Literal, exp.Boolean, exp.Null, exp.Star, exp.Var, exp.DataType, exp.Identifier)
_AROUND = (exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

_MAKERS = (exp.GenerateSeries, exp.Repeat, exp.Pad, exp.Space, exp.Anonymous)

# DuckDB counts in BIGINT where Spark counts in INT.
_TYPES: dict[str, Type] = {"array_size": INT, "cardinality": INT, "array_position": BIGINT}


def is_engine_aggregate(node: exp.Expr) -> bool:
    """Whether a function that is not modelled is one over groups."""
    while isinstance(node, _AROUND):
        node = node.this
    name = read_function(node)[0].removesuffix(MORE)
    return isinstance(node, exp.AggFunc) or name in ENGINE_AGGREGATES or name == "percentile"


def refuse_unknown(node: exp.Expr, environment: Environment) -> None:
    """Raise UnknownName for a function that Spark does not have, although an engine may."""
    name = _written(node, environment)
    catalog = environment.catalog
    is_ours = name in OWN_AGGREGATES or name in WINDOW_FUNCTIONS
    is_users = ring_in(catalog, name) or function_in(catalog, name)
    if not name or name in SPARK_FUNCTIONS or is_ours or is_users:
        return
    raise UnknownName(
        f'there is no function "{name}"',
        hint=_meant(name),
        span=environment.span(node),
    )


def engine_call(
    lowering: ExpressionLowering,
    node: exp.Expr,
    reason: NotModelled,
    known: Known,
    where: Expression | None = None,
) -> Expression:
    """The node as a call that the engine computes; `where` is the FILTER of an aggregate."""
    describe = lowering.environment.describe
    if describe is None:
        raise QueryNotModelled.because(reason)
    name = _name(node)
    if name in GENERATORS:
        raise QueryNotModelled.because(reason)
    template = _Template(lowering, known)
    tree = (
        template.field(node) if isinstance(node, exp.Column) else template.made(node, frozenset())
    )
    span = lowering.span(node)
    try:
        text, asked = spark_text(tree), spark_text(_without_lengths(tree))
    except SqlglotError:
        raise QueryNotModelled.because(reason) from None
    try:
        found = describe(_question(asked, template.arguments), ())[0].type
    except (UnsupportedQuery, EvaluationFailed) as error:
        raise refused(reason, error, span) from error
    type_ = _TYPES.get(name, found)
    if name == "generate_series":
        type_ = Nested(f"ARRAY<{_meeting(template.arguments, tree)}>")
    arguments = (Literal(text, STRING), *template.arguments)
    function = engine_function(_written(node, lowering.environment) or name)
    if is_engine_aggregate(node):
        return Aggregate(function, arguments, type_, True, False, where, span)
    return Call(function, arguments, type_, True, span)


def _meant(name: str) -> str:
    """The function of nearly that name, where there is one."""
    hint = nearest(name, SPARK_FUNCTIONS)
    return hint if hint.startswith("Did") else ""


def _written(node: exp.Expr, environment: Environment) -> str:
    """The name of a function as the user wrote it, in lower case; "" where it is none."""
    while isinstance(node, _AROUND):
        node = node.this
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is None or end is None:
        return ""
    word, after = environment.sql[start : end + 1], environment.sql[end + 1 :].lstrip()[:1]
    return word.lower() if after == "(" and word.isidentifier() else ""


def _name(node: exp.Expr) -> str:
    while isinstance(node, _AROUND):
        node = node.this
    return read_function(node)[0] if isinstance(node, exp.Func) else node.key


def _meeting(arguments: list[Expression], tree: exp.Expr) -> Type:
    """INT, unless an argument is a BIGINT."""
    wide = any(each.type == BIGINT for each in arguments)
    return BIGINT if wide or any(map(_is_wide, tree.find_all(exp.Literal))) else INT


def _is_wide(number: exp.Literal) -> bool:
    """Whether a whole number is a BIGINT."""
    return bool(number.is_int) and abs(int(number.name)) >= 2**31


def _without_lengths(tree: exp.Expr) -> exp.Expr:
    """The call with NULLs for the numbers that say how long a value is: it has the same type.

    Engines work out calls of constants while they plan, before anybody can interrupt them.
    """
    made = tree.copy()
    for call in list(made.find_all(*_MAKERS)):
        if isinstance(call, exp.Anonymous) and call.name.lower() != "array_repeat":
            continue
        numbers = [each for each in call.find_all(exp.Literal) if each.is_int]
        for each in numbers:
            each.replace(exp.cast(exp.Null(), "BIGINT" if _is_wide(each) else "INT"))
    return made


def _question(text: str, arguments: list[Expression]) -> str:
    """A query whose one column is of the call's type."""
    if not arguments:
        return f"SELECT {text} AS x"
    columns = (f"{_null(each.type)} AS `@{i}`" for i, each in enumerate(arguments))
    return f"SELECT {text} AS x FROM (SELECT {', '.join(columns)}) AS arguments"


def _null(type_: Type) -> str:
    return "NULL" if isinstance(type_, Null) else f"CAST(NULL AS {readable_type(str(type_))})"


class _Template:
    """Copies a call and puts `@0`, `@1` where values stand, which it lowers."""

    def __init__(self, lowering: ExpressionLowering, known: Known) -> None:
        self.lowering, self.known = lowering, known
        self.arguments: list[Expression] = []

    def field(self, node: exp.Column) -> exp.Expr:
        """A field of a column, which sqlglot reads as a column of a table."""
        if not node.table or node.args.get("db") is not None:
            raise QueryNotModelled("a field of a column", self.lowering.span(node))
        struct = exp.Column(this=node.args["table"].copy())
        return exp.Dot(this=self._column(self.lowering.lower(struct)), expression=node.this.copy())

    def made(self, node: exp.Expr, bound: frozenset[str]) -> exp.Expr:
        """The node over columns; `bound` are the parameters of lambdas around it."""
        if isinstance(node, exp.Lambda):
            bound |= {each.name.lower() for each in node.expressions}
        made = type(node)()
        for key, value in node.args.items():
            if isinstance(value, list):
                made.set(key, [self._part(each, node, key, bound) for each in value])
            else:
                made.set(key, self._part(value, node, key, bound))
        if isinstance(made, exp.GroupConcat) and _is_nothing(made.args.get("separator")):
            made.set("separator", exp.Literal.string(""))  # sqlglot would write a comma
        return made

    def _part(self, part: object, parent: exp.Expr, key: str, bound: frozenset[str]) -> object:
        if not isinstance(part, exp.Expr):
            return part
        if isinstance(part, _WORDS):
            return part.copy()
        is_call = key == "this" and isinstance(parent, _AROUND)
        is_list = isinstance(parent, exp.VarMap) and isinstance(part, exp.Array)  # map(k, v, ...)
        if is_call or is_list or isinstance(part, _STRUCTURE):
            return self.made(part, bound)
        if bound and any(_is_bound(each, bound) for each in part.walk()):
            return part.copy() if isinstance(part, exp.Column) else self.made(part, bound)
        return self._column(self.known.get(id(part)) or self.lowering.lower(part))

    def _column(self, argument: Expression) -> exp.Expr:
        if isinstance(argument.type, Interval):
            raise QueryNotModelled("a function of an interval", argument.span)
        if argument not in self.arguments:
            self.arguments.append(argument)
        name = f"@{self.arguments.index(argument)}"
        return exp.Column(this=exp.to_identifier(name, quoted=True))


def _is_nothing(separator: object) -> bool:
    return separator is None or isinstance(separator, exp.Null)


def _is_bound(node: exp.Expr, bound: frozenset[str]) -> bool:
    return isinstance(node, exp.Identifier) and node.name.lower() in bound
