"""Lower expressions: sqlglot's nodes to typed algebra.

takes  exp.Expr, the scope its columns are in
gives  algebra Expression with aggregates and OVER calls still inside
next   sql.lower_select takes them out
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from sqlglot import exp

from viewmill.algebra.expressions import (
    Aggregate,
    Column,
    Expression,
    Literal,
    SortKey,
)
from viewmill.algebra.types import (
    BOOLEAN,
    NULL,
    STRING,
    TIMESTAMP,
    Date,
    Integer,
    Interval,
    Nested,
    Null,
    String,
)
from viewmill.errors import MalformedSQL, Span, TypeMismatch, UnsupportedQuery
from viewmill.sql import aggregates, functions, operators
from viewmill.sql.catalog import function_in, ring_in
from viewmill.sql.coercion import cast, explicit_cast
from viewmill.sql.data_types import type_of
from viewmill.sql.engine_calls import engine_call, is_engine_aggregate, refuse_unknown
from viewmill.sql.environment import Environment
from viewmill.sql.intervals import has_hours, lower_interval
from viewmill.sql.literals import joined_text, number_literal, whole_number
from viewmill.sql.lower_quantified import lower_quantified
from viewmill.sql.lower_subqueries import (
    if_true,
    known,
    lower_exists,
    lower_in,
    lower_scalar,
    negated,
)
from viewmill.sql.lower_windows import lower_window
from viewmill.sql.moment_fields import FUNCTIONS as MOMENTS
from viewmill.sql.moment_fields import moment_field
from viewmill.sql.nested_functions import BUILT, nested_call, part_of, struct_call
from viewmill.sql.nested_functions import field as nested_field
from viewmill.sql.not_modelled import NotModelled, QueryNotModelled
from viewmill.sql.read_functions import read_function
from viewmill.sql.scopes import Scope
from viewmill.sql.time_window_values import (
    FIELDS,
    is_time_window,
    window_field,
    window_time,
    window_value,
)
from viewmill.sql.user_functions import user_call
from viewmill.sql.value_calls import BINARY, binary, binary_literal, text, value_call
from viewmill.sql.variant_calls import (
    VARIANT,
    from_variant,
    to_variant,
    variant_call,
    variant_path,
)

_ARITHMETIC = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
}  # fmt: skip
_COMPARISONS = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}  # fmt: skip
_BITWISE = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseNot: "~"}


class ExpressionLowering:
    """Lowers expressions of one place of a query.

    `aliases` are names of the select list; `prefer_aliases` is ORDER BY and HAVING, where they win
    over columns of FROM.
    """

    def __init__(
        self,
        environment: Environment,
        scope: Scope,
        aliases: Mapping[str, Expression] | None = None,
        *,
        prefer_aliases: bool = False,
        windows: Mapping[str, exp.Window] | None = None,
    ) -> None:
        self.environment, self.scope = environment, scope
        self.aliases: Mapping[str, Expression] = {} if aliases is None else aliases
        self.prefer_aliases = prefer_aliases
        self.windows: Mapping[str, exp.Window] = {} if windows is None else windows

    def span(self, node: exp.Expr) -> Span | None:
        """Where `node` stands in the text."""
        return self.environment.span(node)

    def lower(self, node: exp.Expr) -> Expression:
        """The expression as algebra; what the algebra does not model is a call to the engine."""
        try:
            return self._modelled(node)
        except QueryNotModelled:
            raise
        except NotModelled as reason:
            if not isinstance(
                node, exp.Func | exp.Bracket | exp.Dot | exp.WithinGroup | exp.Column
            ):
                raise
            return engine_call(self, node, reason, {})

    def _modelled(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in _ARITHMETIC:
            return self._binary(operators.arithmetic, _ARITHMETIC[kind], node)
        if kind in _COMPARISONS:
            return self._compare(_COMPARISONS[kind], node)
        if kind in (exp.And, exp.Or):
            sign = "and" if kind is exp.And else "or"
            return operators.connect_all(sign, self._operands(node), self.span(node))
        if kind in _BITWISE:
            operands = [node.this, node.expression] if kind is not exp.BitwiseNot else [node.this]
            return operators.bitwise(_BITWISE[kind], self.all(operands), self.span(node))
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        if (text := joined_text(node, self.environment.sql)) is not None:
            return Literal(text, STRING, self.span(node))
        if isinstance(node, exp.Func):
            return self._function(node)
        raise NotModelled(_words(node), self.span(node))

    def all(self, nodes: list[exp.Expr]) -> tuple[Expression, ...]:
        """Several expressions."""
        return tuple(self.lower(each) for each in nodes)

    def condition(self, node: exp.Expr, what: str) -> Expression:
        """An expression that must be BOOLEAN."""
        return if_true(operators.boolean(self.lower(node), what))

    def sort_key(self, node: exp.Expr) -> SortKey:
        """One key of an ORDER BY."""
        if not isinstance(node, exp.Ordered):
            return SortKey(self.lower(node))
        expression = self.lower(node.this)
        descending = bool(node.args.get("desc"))
        return SortKey(expression, descending, bool(node.args.get("nulls_first")))

    # Names and constants.

    def _column(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column)
        span = self.span(node)
        if isinstance(node.this, exp.Star):
            raise TypeMismatch("* cannot stand here", span=span)
        if node.args.get("db") is not None or not isinstance(node.this, exp.Identifier):
            return self._field_of_column(node)
        table = node.table or None
        name = node.name
        alias = self.aliases.get(name.lower()) if table is None else None
        if alias is not None and (
            self.prefer_aliases or self.scope.lookup(name, None, span) is None
        ):
            return alias
        is_window = table is None and name.lower() in ("window", "session_window")
        if is_window and not self.scope.lookup(name, None, None):
            struct = self._time_window(name.lower())
            if struct is not None:
                return struct
        if table is not None and self._is_field(name, table):
            called = self.aliases.get(table.lower())
            if self.prefer_aliases and _is_moments(called):
                return moment_field(called, name, None, span)
            return self._field_of_column(node)
        return _placed(self.scope.find(name, table, span), span)

    def _field_of_column(self, node: exp.Column) -> Expression:
        """column.field or table.column.field: of a window, else it is the engine's."""
        *tables, column, field = [part.name for part in node.parts]
        span, table = self.span(node), tables[0] if tables else None
        found = None if tables else self.aliases.get(column.lower())
        if not is_time_window(found) and len(tables) < 2:
            known = (each.lookup(column, table, span) for each in self.scope.chain())
            found = self.scope.find(column, table, span) if any(known) else None
        if is_time_window(found):
            return window_field(found, field, span)
        if found is not None and self.environment.now is None:
            part = nested_field(found, field, span)
            if part is not None:
                return part
        raise NotModelled("a field of a column", span)

    def _time_window(self, name: str) -> Expression | None:
        """The struct of start and end, when window(...) made them columns of this query."""
        columns = dict(self.scope.tables.get(name, []))
        return window_value(list(columns.values())) if tuple(columns) == FIELDS else None

    def _is_field(self, name: str, table: str) -> bool:
        """Whether `table.name` is really column.field."""
        scopes = list(self.scope.chain())
        if any(scope.lookup(name, table, None) is not None for scope in scopes):
            return False
        found = [scope.lookup(table, None, None) for scope in scopes]
        if any(table.lower() in scope.tables for scope in scopes):  # the column must have fields
            return any(each is not None and isinstance(each.type, Nested) for each in found)
        called = self.aliases.get(table.lower())
        if is_time_window(called) or (self.prefer_aliases and _is_moments(called)):
            return True
        return any(each is not None for each in found)

    def _field(self, node: exp.Expr) -> Expression:
        """A field of what a function over a group gives, perhaps with a subscript."""
        if isinstance(node, exp.Bracket) and isinstance(node.this, exp.RegexpSplit):
            return self._part(node)
        subscript, inner = None, node
        if (part := self._nested_part(node)) is not None:
            return part
        if isinstance(inner, exp.Bracket):
            index = inner.expressions[0] if len(inner.expressions) == 1 else None
            if isinstance(index, exp.Literal) and index.args.get("is_string"):
                return self._named_field(inner.this, index.name, node)
            if not (isinstance(index, exp.Literal) and index.name.isdigit()):
                raise NotModelled("a subscript", self.span(node))
            subscript, inner = int(index.name), inner.this
        if isinstance(inner, exp.Dot) and isinstance(inner.expression, exp.Identifier):
            name, called = inner.expression.name, _bare(inner.this)
            if isinstance(called, exp.Func) and called.name.lower() in MOMENTS:
                call = self.lower(called)
                if _is_moments(call):
                    return moment_field(call, name, subscript, self.span(node))
            if subscript is None:
                return self._named_field(called, name, node)
        if isinstance(inner, exp.Column) and self.prefer_aliases and inner.table:
            named = self.aliases.get(inner.table.lower())
            if _is_moments(named) and self._is_field(inner.name, inner.table):
                return moment_field(named, inner.name, subscript, self.span(node))
        raise NotModelled(_words(node), self.span(node))

    def _nested_part(self, node: exp.Expr) -> Expression | None:
        """An element of an array, a value of a map, a field of a struct, in a view."""
        inner = _bare(node.this)
        if self.environment.now is not None or self._has_moments(inner):
            return None
        try:
            value = self._modelled(inner)
        except NotModelled:
            return None
        if not isinstance(value.type, Nested) or is_time_window(value):
            return None
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            return nested_field(value, node.expression.name, self.span(node))
        if not isinstance(node, exp.Bracket) or len(node.expressions) != 1:
            return None
        offset, safe = int(node.args.get("offset") or 0), bool(node.args.get("safe"))
        key = self.lower(node.expressions[0])
        return part_of(value, key, self.span(node), offset=offset, safe=safe)

    def _has_moments(self, node: exp.Expr) -> bool:
        """Whether it calls cofactor(...), or reads a field of a column that does."""
        if isinstance(node, exp.Dot):
            return self._has_moments(_bare(node.this))
        if isinstance(node, exp.Func):
            return node.name.lower() in MOMENTS
        return (
            isinstance(node, exp.Column)
            and self.prefer_aliases
            and _is_moments(self.aliases.get(node.table.lower()))
            and self._is_field(node.name, node.table)
        )

    def _named_field(self, inner: exp.Expr, name: str, node: exp.Expr) -> Expression:
        """window(...).start, window['start']; a field of anything else is the engine's."""
        if isinstance(inner, exp.Column | exp.Anonymous):
            value = self.lower(inner)
            if is_time_window(value):
                return window_field(value, name, self.span(node))
        raise NotModelled(_words(node), self.span(node))

    def _part(self, node: exp.Bracket) -> Expression:
        """split(text, pattern)[index], or element_at of it, which counts from 1."""
        made = node.this
        if made.args.get("limit") is not None or node.args.get("safe"):
            raise NotModelled("a subscript", self.span(node))
        name = "split_element" if node.args.get("offset") else "split_at"
        inside = self.all([made.this, made.expression, node.expressions[0]])
        return functions.call(name, inside, self.span(node))

    def _literal(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        if node.args.get("is_string"):
            return Literal(node.name, STRING, span)
        return number_literal(node.name, span)

    def _raw_string(self, node: exp.Expr) -> Expression:
        return Literal(node.name, STRING, self.span(node))

    def _negation(self, node: exp.Expr) -> Expression:
        inner = node.this
        is_number = isinstance(inner, exp.Literal) and not inner.args.get("is_string")
        if is_number and inner.name.isdigit():
            # -2147483648 is an INT, though 2147483648 is not.
            return whole_number(-int(inner.name), self.span(node))
        return operators.negate(self.lower(inner), self.span(node))

    def _hex_string(self, node: exp.Expr) -> Expression:
        return binary_literal(node.name, self.span(node))

    def _boolean(self, node: exp.Expr) -> Expression:
        return Literal(bool(node.this), BOOLEAN, self.span(node))

    def _null(self, node: exp.Expr) -> Expression:
        return Literal(None, NULL, self.span(node))

    def _interval(self, node: exp.Expr) -> Expression:
        return lower_interval(node, self.span(node))

    # Operators.

    def _binary(
        self,
        build: Callable[[str, Expression, Expression, Span | None], Expression],
        sign: str,
        node: exp.Expr,
    ) -> Expression:
        # Long chains of + lean to the left: walk down in a loop, not in recursion.
        kind = type(node)
        rights: list[exp.Expr] = []
        spine: list[exp.Expr] = []
        while type(node) is kind:
            rights.append(node.expression)
            spine.append(node)
            node = node.this
        result = self.lower(node)
        for outer, right in zip(reversed(spine), reversed(rights), strict=True):
            left, other = self._moments(result, self.lower(right), outer)
            result = build(sign, left, other, self.span(outer))
        return result

    def _moments(
        self, left: Expression, right: Expression, node: exp.Expr
    ) -> tuple[Expression, Expression]:
        """A date beside hours is a moment, be they whole days."""
        match left.type, right.type:
            case (Date(), Interval()) if has_hours(node.expression):
                return cast(left, TIMESTAMP), right
            case (Interval(), Date()) if has_hours(node.this):
                return left, cast(right, TIMESTAMP)
            case _:
                return left, right

    def _operands(self, node: exp.Expr) -> list[Expression]:
        """What stands between the signs of a chain of AND or of OR, which leans to the left."""
        kind = type(node)
        rights: list[exp.Expr] = []
        while type(node) is kind:
            rights.append(node.expression)
            node = node.this
        return [self.lower(each) for each in (node, *reversed(rights))]

    def _compare(self, sign: str, node: exp.Expr) -> Expression:
        left, right = node.this, node.expression
        if isinstance(left, exp.Any | exp.All):
            raise NotModelled("ANY and ALL before the comparison", self.span(node))
        if isinstance(right, exp.Any | exp.All):
            return lower_quantified(self, sign, left, right, self.span(node))
        if isinstance(_bare(left), exp.Tuple) and isinstance(_bare(right), exp.Tuple):
            return self._compare_tuples(sign, _bare(left), _bare(right), self.span(node))
        return operators.compare(sign, self.lower(left), self.lower(right), self.span(node))

    def _compare_tuples(
        self, sign: str, left: exp.Expr, right: exp.Expr, span: Span | None
    ) -> Expression:
        pairs = list(zip(left.expressions, right.expressions, strict=False))
        if not pairs:
            raise MalformedSQL("a row needs at least one value", span=span)
        if sign != "=" or len(left.expressions) != len(right.expressions):
            raise NotModelled(f"{sign} between rows", span)
        equal = [operators.compare("=", self.lower(a), self.lower(b), span) for a, b in pairs]
        result = operators.conjunction(equal)
        assert result is not None
        return result

    def _not(self, node: exp.Expr) -> Expression:
        return negated(self.lower(node.this), self.span(node))

    def _not_safe_equal(self, node: exp.Expr) -> Expression:
        return operators.negation(self._compare("<=>", node), self.span(node))

    def _is(self, node: exp.Expr) -> Expression:
        operand, what = self.lower(node.this), node.expression
        if isinstance(what, exp.Null):
            return operators.is_null(operand, self.span(node))
        if isinstance(what, exp.Boolean):
            truth = Literal(bool(what.this), BOOLEAN)
            condition = operators.boolean(operand, "IS")
            return operators.compare("<=>", condition, truth, self.span(node))
        raise NotModelled("IS with this", self.span(node))

    def _between(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        if node.args.get("symmetric"):
            raise MalformedSQL("BETWEEN SYMMETRIC is no Spark SQL", span=span)
        value = self.lower(node.this)
        low = operators.compare(">=", value, self.lower(node.args["low"]), span)
        high = operators.compare("<=", value, self.lower(node.args["high"]), span)
        return operators.connect("and", low, high, span)

    def _in(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        query = node.args.get("query")
        subject = _bare(node.this)
        if query is not None:
            values = subject.expressions if isinstance(subject, exp.Tuple) else [node.this]
            return known(lower_in(self, self.all(values), query, span))
        if node.args.get("unnest") is not None or node.args.get("field") is not None:
            raise NotModelled("IN over an array", span)
        if not node.expressions:
            raise MalformedSQL("IN needs at least one value", span=span)
        if isinstance(subject, exp.Tuple):
            options = [
                self._compare_tuples("=", subject, _bare(each), span) for each in node.expressions
            ]
            return operators.connect_all("or", options, span)
        return operators.among(self.lower(node.this), self.all(node.expressions), span)

    def _like(self, node: exp.Expr) -> Expression:
        return self._pattern(node, "\\")

    def _escape(self, node: exp.Expr) -> Expression:
        return self._pattern(node.this, node.expression.name)

    def _pattern(self, node: exp.Expr, escape: str) -> Expression:
        span = self.span(node)
        if isinstance(node.expression, exp.Any | exp.All):
            return self._patterns(node, escape)
        left, right = self.lower(node.this), self.lower(node.expression)
        if isinstance(node, exp.ILike):
            left, right = functions.lower_case(left, span), functions.lower_case(right, span)
        result = operators.matches("like", left, right, escape, span)
        return operators.negation(result, span) if node.args.get("negate") else result

    def _patterns(self, node: exp.Expr, escape: str) -> Expression:
        """LIKE ANY and LIKE ALL of a list: one or all of its patterns match (or do not)."""
        among, span = node.expression, self.span(node)
        options = (
            among.this.expressions if isinstance(among.this, exp.Tuple) else [_bare(among.this)]
        )
        negate = node.args.get("negate")
        each = [type(node)(this=node.this, expression=x, negate=negate) for x in options]
        matches = [self._pattern(one, escape) for one in each]
        return operators.connect_all("or" if isinstance(among, exp.Any) else "and", matches, span)

    def _case(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        subject = node.args.get("this")
        branches: list[tuple[Expression, Expression]] = []
        for each in node.args["ifs"]:
            when = self.lower(each.this)
            if subject is not None:
                when = operators.compare("=", self.lower(subject), when, self.span(each.this))
            branches.append((when, self.lower(each.args["true"])))
        default = node.args.get("default")
        return operators.choose(branches, None if default is None else self.lower(default), span)

    def _cast(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        if node.args.get("format") is not None:
            raise NotModelled("CAST with a format", span)
        type_ = type_of(node.args["to"], span)
        lenient, value = isinstance(node, exp.TryCast), self.lower(node.this)
        if value.type == VARIANT and type_ != VARIANT:
            return from_variant(value, type_, span, lenient_=lenient)
        if type_ == VARIANT:
            return to_variant(value, span)
        if type_ == BINARY and isinstance(value.type, String | Null):
            return binary(value)
        if value.type == BINARY and type_ == STRING:
            return text(value)
        return explicit_cast(value, type_, lenient=lenient, span=span)

    # Functions.

    def _window_call(self, name: str, span: Span | None) -> Expression:
        struct = self._time_window(name)
        if struct is None:
            raise UnsupportedQuery(
                f"{name}(...) cannot stand here",
                hint="It stands in GROUP BY, in the select list, in HAVING and in ORDER BY.",
                span=span,
            )
        return struct

    def _function(self, node: exp.Expr) -> Expression:
        span = self.span(node)
        refuse_unknown(node, self.environment)
        name, arguments = read_function(node)
        if (user := function_in(self.environment.catalog, name)) is not None:
            in_view = self.environment.now is None
            return user_call(user, self.all(arguments), span, in_view=in_view)
        if name in functions.VOLATILE and self.environment.now is not None:
            return functions.volatile(name, self.environment.now, span)
        if name in functions.TIMES and not arguments:
            return functions.of_clock(name, span)
        if name in functions.VOLATILE:
            raise UnsupportedQuery(
                f"{name} cannot be used in a view",
                detail="Its value changes although no row does.",
                hint="Put the value into a table and read it from there.",
                span=span,
            )
        if aggregates.is_aggregate(name) or ring_in(self.environment.catalog, name):
            return self.aggregate(node)
        if name in ("grouping", "grouping_id"):
            bits = 8 if name == "grouping" else 64
            return Aggregate(name, self.all(arguments), Integer(bits), False, span=span)
        if name in aggregates.GROUP_NAMES:
            return self.aggregate(node)
        if aggregates.is_window_function(name):
            raise TypeMismatch(f"{name} needs an OVER clause", span=span)
        if name in ("date_part", "datepart") and len(arguments) == 2:
            return functions.extract(arguments[0].name, self.lower(arguments[1]), span)
        if self.environment.now is None or name in BUILT:
            nested = nested_call(self, node, name, arguments)
            if nested is not None:
                return nested
        if any(isinstance(each, exp.Lambda | exp.Kwarg) for each in arguments):
            raise NotModelled(f"the function {name}", span)
        if name in ("window", "session_window"):
            return self._window_call(name, span)
        if name == "window_time" and len(arguments) == 1:
            window = self.lower(arguments[0])
            if is_time_window(window):
                return window_time(window, span)
        if name in _TYPE_FUNCTIONS and len(arguments) == 1:
            type_ = type_of(exp.DataType.build(name, dialect="databricks"), span)
            return explicit_cast(self.lower(arguments[0]), type_, span=span)
        if is_engine_aggregate(node):
            raise NotModelled(f"the function {name}", span)
        lowered = self.all(arguments)
        made = variant_call(name, lowered, span) or value_call(name, lowered, span)
        if made is not None:
            return made
        try:
            return functions.call(name, lowered, span)
        except QueryNotModelled:
            raise
        except NotModelled as reason:
            known = {id(each): made for each, made in zip(arguments, lowered, strict=True)}
            return engine_call(self, node, reason, known)

    def aggregate(self, node: exp.Expr, where: Expression | None = None) -> Expression:
        """An aggregate function, which sql.lower_select later takes out of the expression."""
        name, arguments = read_function(node)
        distinct = False
        if arguments and isinstance(arguments[0], exp.Distinct):
            distinct, arguments = True, [*arguments[0].expressions, *arguments[1:]]
        aggregates.require_arguments(name, arguments, self.span(node))
        if any(isinstance(each, exp.Order | exp.Limit | exp.HavingMax) for each in arguments):
            raise NotModelled("an ordered aggregate", self.span(node))
        # Inside an aggregate the names are those of FROM, in HAVING and ORDER BY too.
        inner = ExpressionLowering(self.environment, self.scope) if self.prefer_aliases else self
        if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            if distinct and name == "count":  # rows of which no column is NULL
                columns = tuple(meaning for _, meaning in self.scope.columns)
                return aggregates.aggregate(
                    name, columns, distinct=True, where=where, span=self.span(node)
                )
            arguments = []
        ring = ring_in(self.environment.catalog, name)
        if ring is not None:
            return aggregates.ring_aggregate(
                ring, inner.all(arguments), distinct=distinct, where=where, span=self.span(node)
            )
        if name == "cofactor" and not distinct:
            marked = [_is_category(each) for each in arguments]
            bare = [
                each.expressions[0] if is_marked else each
                for each, is_marked in zip(arguments, marked, strict=True)
            ]
            given = inner.all(bare)
            if aggregates.has_categories(given, marked):
                return aggregates.mixed_cofactor(given, marked, where, self.span(node))
        return aggregates.aggregate(
            name, inner.all(arguments), distinct=distinct, where=where, span=self.span(node)
        )

    def _filtered(self, node: exp.Expr) -> Expression:
        where = self.condition(node.expression.this, "FILTER")
        if isinstance(node.this, exp.IgnoreNulls | exp.RespectNulls):
            return self._with_nulls(node.this, where)
        name = read_function(node.this)[0]
        if is_engine_aggregate(node.this) and not aggregates.is_aggregate(name):
            reason = NotModelled(f"the function {name}", self.span(node))
            return engine_call(self, node.this, reason, {}, where)
        if not aggregates.is_aggregate(name) and not ring_in(self.environment.catalog, name):
            raise NotModelled("FILTER on this function", self.span(node))
        return self.aggregate(node.this, where)

    def _extract(self, node: exp.Expr) -> Expression:
        return functions.extract(node.name, self.lower(node.expression), self.span(node))

    def _over(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Window)
        return lower_window(self, node)

    def _ignore_nulls(self, node: exp.Expr) -> Expression:
        """first(x) IGNORE NULLS, which is first(x, true)."""
        return self._with_nulls(node, None)

    def _with_nulls(self, node: exp.Expr, where: Expression | None) -> Expression:
        name, arguments = read_function(node.this)
        name = aggregates.GROUP_NAMES.get(name, name)
        if name not in ("first", "last", "any_value") or len(arguments) != 1:
            raise NotModelled(f"{name} with IGNORE NULLS", self.span(node))
        ignore = Literal(isinstance(node, exp.IgnoreNulls), BOOLEAN)
        given = (self.lower(arguments[0]), ignore)
        return aggregates.aggregate(name, given, where=where, span=self.span(node))

    # Queries inside expressions.

    def _scalar(self, node: exp.Expr) -> Expression:
        return lower_scalar(self, node)

    def _exists(self, node: exp.Expr) -> Expression:
        if isinstance(node.args.get("expression"), exp.Lambda):  # of an array
            return self._function(node)
        return lower_exists(self, node)

    def _paren(self, node: exp.Expr) -> Expression:
        return self.lower(node.this)

    def _tuple(self, node: exp.Expr) -> Expression:
        if self.environment.now is None and node.expressions:
            return struct_call(self, node.expressions, self.span(node))
        raise NotModelled("a row as a value", self.span(node))

    def _pipes(self, node: exp.Expr) -> Expression:
        parts: list[exp.Expr] = []
        while isinstance(node, exp.DPipe):
            parts.append(node.expression)
            node = node.this
        parts.append(node)
        spans = self.span(parts[-1]), self.span(parts[0])
        span = spans[0] and spans[1] and Span(spans[0].sql, spans[0].start, spans[1].end)
        given = self.all(parts[::-1])
        return value_call("concat", given, span) or functions.call("concat", given, span)


_TYPE_FUNCTIONS = frozenset({
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string",
    "date", "timestamp",
})  # fmt: skip

_HANDLERS: dict[type[exp.Expr], Callable[[ExpressionLowering, exp.Expr], Expression]] = {
    exp.Column: ExpressionLowering._column,
    exp.Dot: ExpressionLowering._field,
    exp.Bracket: ExpressionLowering._field,
    exp.BitwiseLeftShift: ExpressionLowering._function,
    exp.BitwiseRightShift: ExpressionLowering._function,
    exp.Literal: ExpressionLowering._literal,
    exp.RawString: ExpressionLowering._raw_string,
    exp.JSONExtract: variant_path,
    exp.HexString: ExpressionLowering._hex_string,
    exp.Neg: ExpressionLowering._negation,
    exp.Boolean: ExpressionLowering._boolean,
    exp.Null: ExpressionLowering._null,
    exp.Interval: ExpressionLowering._interval,
    exp.Not: ExpressionLowering._not,
    exp.NullSafeNEQ: ExpressionLowering._not_safe_equal,
    exp.Is: ExpressionLowering._is,
    exp.Between: ExpressionLowering._between,
    exp.In: ExpressionLowering._in,
    exp.Like: ExpressionLowering._like,
    exp.ILike: ExpressionLowering._like,
    exp.Escape: ExpressionLowering._escape,
    exp.Case: ExpressionLowering._case,
    exp.Cast: ExpressionLowering._cast,
    exp.TryCast: ExpressionLowering._cast,
    exp.Filter: ExpressionLowering._filtered,
    exp.WithinGroup: ExpressionLowering._function,
    exp.Any: ExpressionLowering._function,
    exp.Extract: ExpressionLowering._extract,
    exp.AtTimeZone: ExpressionLowering._function,
    exp.FromTimeZone: ExpressionLowering._function,
    exp.Window: ExpressionLowering._over,
    exp.IgnoreNulls: ExpressionLowering._ignore_nulls,
    exp.RespectNulls: ExpressionLowering._ignore_nulls,
    exp.Subquery: ExpressionLowering._scalar,
    exp.Select: ExpressionLowering._scalar,
    exp.Exists: ExpressionLowering._exists,
    exp.Paren: ExpressionLowering._paren,
    exp.Tuple: ExpressionLowering._tuple,
    exp.DPipe: ExpressionLowering._pipes,
}


def _is_moments(expression: Expression | None) -> TypeGuard[Aggregate]:
    return isinstance(expression, Aggregate) and expression.function in MOMENTS


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _placed(expression: Expression, span: Span | None) -> Expression:
    """A column where it is used, not where it was defined."""
    if isinstance(expression, Column):
        return Column(expression.name, expression.type, expression.nullable, expression.outer, span)
    return expression


def _is_category(node: exp.Expr) -> bool:
    """category(x), which marks a column of cofactor()."""
    is_call = isinstance(node, exp.Anonymous) and len(node.expressions) == 1
    return is_call and str(node.this).lower() == "category"


_WORDS: dict[type[exp.Expr], str] = {
    exp.Bracket: "a subscript", exp.Dot: "a field of a column", exp.Lambda: "a lambda",

}  # fmt: skip


def _words(node: exp.Expr) -> str:
    return _WORDS.get(type(node), type(node).__name__)
