"""Expressions as Spark SQL: the algebra is Spark's meaning, so this is spelling only.

takes  algebra Expression
gives  Spark SQL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewmill.algebra.expressions import (
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Over,
    ScalarSubquery,
    SortKey,
    UserCall,
    is_engine_function,
)
from viewmill.algebra.float_parts import SUM_OF_PARTS, SUM_PARTS
from viewmill.algebra.mixed_moments import MixedMoments
from viewmill.algebra.packed import LARGEST, Moments, Packed
from viewmill.algebra.relations import Relation
from viewmill.algebra.types import Type
from viewmill.sql.render_frame import spark_frame
from viewmill.sql.render_mixed_moments import spark_mixed
from viewmill.sql.render_names import spark_literal, spark_name, spark_text
from viewmill.sql.transpile import transpile_call

_OPERATORS = frozenset({
    "+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "&", "|", "^",
    "div",
})  # fmt: skip
_TEMPLATES = {
    "only_row": "CASE WHEN {1} > 1 THEN raise_error('a subquery has more than one row') "
    "ELSE {0} END",
    "not": "(NOT {0})", "is_null": "({0} IS NULL)", "~": "(~{0})",
    "like": "({0} LIKE {1} ESCAPE {2})",
    "rlike": "({0} RLIKE {1})", "second_fraction": "extract(SECOND FROM {0})",
    "trim": "trim(BOTH {1} FROM {0})", "ltrim": "trim(LEADING {1} FROM {0})",
    "rtrim": "trim(TRAILING {1} FROM {0})",
    "shiftleft_long": "shiftleft({0}, {1})", "shiftright_long": "shiftright({0}, {1})",
    "shiftrightunsigned_long": "shiftrightunsigned({0}, {1})",
    "bround_text": "CAST(bround({0}, {1}) AS STRING)", "format_exact": "format_number({0}, {1})",
    "split_at": "split({0}, {1})[{2}]", "split_get": "get(split({0}, {1}), {2})",
    "split_element": "element_at(split({0}, {1}), {2})", "split_size": "size(split({0}, {1}))",
    "split_contains": "array_contains(split({0}, {1}), {2})",
    "date_text": "date_format({0}, {1})",
    "whole_months_between": "timestampdiff(MONTH, {0}, {1})",
    "timestamp_add_months": "timestampadd(MONTH, {1}, {0})", "struct_field": "{0}[{1}]",
}  # fmt: skip
_TRIED = {"'+'": "try_add", "'-'": "try_subtract", "'*'": "try_multiply", "'/'": "try_divide"}


def _number(argument: Expression) -> Expression:
    """The number itself, where our own function takes its digits."""
    return argument.input if isinstance(argument, Cast) else argument


class SparkExpressions:
    """Renders expressions; `query` renders the subqueries inside them."""

    def __init__(self, query: Callable[[Relation], str]) -> None:
        self.query = query

    name = staticmethod(spark_name)
    type_name = staticmethod(str)

    def condition(self, expression: Expression) -> str:
        """A condition on rows."""
        return self.render(expression)

    def render(self, expression: Expression) -> str:
        """The expression as Spark SQL."""
        match expression:
            case Column():
                return spark_name(expression.name)
            case Literal():
                return spark_literal(expression)
            case Cast():
                word = "TRY_CAST" if expression.lenient else "CAST"
                return f"{word}({self.render(expression.input)} AS {expression.type})"
            case Call():
                return self._call(expression)
            case Case():
                return self._case(expression)
            case Aggregate() if is_engine_function(expression.function):
                return self._engine_call(expression)
            case Aggregate():
                return self._aggregate(expression)
            case Over():
                return self._over(expression)
            case ScalarSubquery():
                return f"({self.query(expression.query)})"
            case Exists():
                return f"EXISTS ({self.query(expression.query)})"
            case InSubquery():
                values = self._list(expression.values)
                left = f"({values})" if len(expression.values) > 1 else values
                return f"({left} IN ({self.query(expression.query)}))"

    def sort_key(self, key: SortKey) -> str:
        """A sort key with explicit direction and position of NULLs."""
        direction = "DESC" if key.descending else "ASC"
        nulls = "FIRST" if key.nulls_first else "LAST"
        return f"{self.render(key.expression)} {direction} NULLS {nulls}"

    def group_key(self, text: str, type_: Type) -> str:
        """A grouping key; Spark makes 0.0 and -0.0 one group by itself."""
        return text

    def _list(self, items: Sequence[Expression]) -> str:
        return ", ".join(map(self.render, items))

    def _engine_call(self, call: Call | Aggregate | Over) -> str:
        text, *given = call.arguments
        assert isinstance(text, Literal)
        where = call.where if isinstance(call, Aggregate) else None
        texts = [self.render(each) for each in given]
        met = None if where is None else self.render(where)
        return transpile_call(str(text.value), "spark", texts, {}, met)

    def _call(self, call: Call) -> str:
        if is_engine_function(call.function):
            return self._engine_call(call)
        assert not isinstance(call, UserCall), "core.run has these computed in this process"
        name = call.function
        exact = name in ("bround_text", "format_exact", "try_exact")
        given = map(_number, call.arguments) if exact else call.arguments
        texts = [self.render(each) for each in given]
        if name == "try_exact":
            return f"CAST({_TRIED[texts[0]]}({texts[1]}, {texts[2]}) AS STRING)"
        if name in _OPERATORS:
            sign = name.upper()
            return f"({f' {sign} '.join(texts)})" if len(texts) > 1 else f"({sign} {texts[0]})"
        if name == "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        if name in _TEMPLATES and (len(texts) > 1 or not name.endswith("trim")):
            return _TEMPLATES[name].format(*texts)
        return f"{name}({', '.join(texts)})"

    def _case(self, case: Case) -> str:
        whens = "".join(
            f" WHEN {self.render(when)} THEN {self.render(then)}" for when, then in case.branches
        )
        return f"CASE{whens} ELSE {self.render(case.otherwise)} END"

    def _aggregate(self, call: Aggregate) -> str:
        given = self._list(call.arguments) or ("*" if call.function == "count" else "")
        distinct = "DISTINCT " if call.distinct else ""
        met = "" if call.where is None else self.render(call.where)
        where = f" FILTER (WHERE {met})" if met else ""
        if isinstance(call.type, MixedMoments):
            columns = [self.render(each) for each in call.arguments]
            return spark_mixed(columns, call.type, spark_text, where)
        if isinstance(call.type, Packed):
            columns = [self.render(each) for each in call.arguments]
            if isinstance(call.type.shape, Moments):
                if call.function == "merge_moments":
                    return self._merged_moments(call.type.shape, columns, where)
                return self._moments(call.type.shape, columns, where)
            row = ", ".join(f"'_{i}', {each}" for i, each in enumerate(columns))
            return f"collect_list(named_struct({row})){where}"
        if call.function in ("max_by", "min_by"):
            value, by = map(self.render, call.arguments)
            known = f"{by} IS NOT NULL" + (f" AND {met}" if met else "")
            return f"{call.function}({value}, struct({by}, {value})) FILTER (WHERE {known})"
        if call.function == "mode":
            value, down = map(self.render, call.arguments)
            order = f"{value} DESC" if down.upper() == "TRUE" else value
            return f"mode() WITHIN GROUP (ORDER BY {order}){where}"
        if call.function == "percentile_disc":
            value, share, down = map(self.render, call.arguments)
            order = f"{value} DESC" if down.upper() == "TRUE" else value
            return f"percentile_disc({share}) WITHIN GROUP (ORDER BY {order}){where}"
        if call.function in (*SUM_PARTS, SUM_OF_PARTS):
            sums = [f"sum({self.render(each)}){where}" for each in call.arguments]
            is_rest = call.function in SUM_PARTS[1:]
            return f"({' + '.join(sums)}{' * 0' if is_rest else ''})"
        function = call.function.removeprefix("earliest_")  # Spark has no order to go by
        function = "first" if function == "only_value" else function
        return f"{function}({distinct}{given}){where}"

    def _merged_moments(self, shape: Moments, columns: Sequence[str], where: str) -> str:
        """The sum of cofactors, whose numbers are the columns."""
        names = ", ".join(spark_text(each) for each in shape.names)
        n, *totals = (f"coalesce(sum({each}){where}, 0D)" for each in columns)
        m = len(shape.names)
        return (
            f"named_struct('n', CAST({n} AS BIGINT), 'names', array({names}), "
            f"'sums', array({', '.join(totals[:m])}), "
            f"'products', array({', '.join(totals[m : shape.size - 1])}), "
            "'central', CAST(array() AS ARRAY<DOUBLE>))"
        )

    def _moments(self, shape: Moments, columns: Sequence[str], where: str) -> str:
        """Count, sums and products of the rows where all columns are numbers."""
        whole = " AND ".join(f"abs({each}) < {LARGEST!r}D" for each in columns)
        names = ", ".join(spark_text(each) for each in shape.names)

        def total(value: str) -> str:
            return f"coalesce(sum(CASE WHEN {whole} THEN {value} END){where}, 0D)"

        def around(a: str, b: str) -> str:
            both = ", ".join(f"CASE WHEN {whole} THEN {each} END" for each in (a, b))
            return f"coalesce(covar_pop({both}){where}, 0D)"

        pairs = [(a, b) for i, a in enumerate(columns) for b in columns[i:]]
        return (
            f"named_struct('n', count(CASE WHEN {whole} THEN 1 END){where}, "
            f"'names', array({names}), "
            f"'sums', array({', '.join(map(total, columns))}), "
            f"'products', array({', '.join(total(f'{a} * {b}') for a, b in pairs)}), "
            f"'central', array({', '.join(around(a, b) for a, b in pairs)}))"
        )

    def _over(self, call: Over) -> str:
        given = self._list(call.arguments) or ("*" if call.function == "count" else "")
        parts = []
        if call.partition:
            parts.append(f"PARTITION BY {self._list(call.partition)}")
        if call.order:
            parts.append(f"ORDER BY {', '.join(map(self.sort_key, call.order))}")
        if call.frame is not None:
            parts.append(spark_frame(call.frame, call.order))
        nulls = " IGNORE NULLS" if call.ignore_nulls else ""
        if is_engine_function(call.function):
            return f"{self._engine_call(call)}{nulls} OVER ({' '.join(parts)})"
        return f"{call.function}({given}){nulls} OVER ({' '.join(parts)})"
