"""Expressions as DuckDB must write them to mean Spark's.

takes  algebra Expression
gives  DuckDB SQL; spark_... functions are the macros of sql.duckdb_macros
"""

from __future__ import annotations

import re
from collections.abc import Callable

from viewmill.algebra.date_patterns import text_shape
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
from viewmill.algebra.failures import failing_part
from viewmill.algebra.relations import Relation
from viewmill.algebra.types import (
    INT,
    Date,
    Decimal,
    Float,
    Integer,
    Interval,
    Null,
    Type,
)
from viewmill.algebra.window_functions import WINDOW_FUNCTIONS
from viewmill.program.python_functions import PYTHON_FUNCTIONS, Unfit, regex
from viewmill.sql import render_decimals
from viewmill.sql.patterns import to_duckdb
from viewmill.sql.render_casts import duckdb_cast, duckdb_try_cast
from viewmill.sql.render_duckdb_aggregates import aggregate_sql
from viewmill.sql.render_frame import duckdb_frame
from viewmill.sql.render_names import (
    duckdb_literal,
    duckdb_name,
    duckdb_text,
    duckdb_type,
    python_name,
    user_name,
)
from viewmill.sql.render_nested import order_key
from viewmill.sql.transpile import transpile_call

# How a function reads in DuckDB; {0}, {1} are its arguments. INTEGER casts because DuckDB counts in
# BIGINT.
_TEMPLATES: dict[str, str] = {
    "and": "({0} AND {1})", "or": "({0} OR {1})", "not": "(NOT {0})", "is_null": "({0} IS NULL)",
    "=": "({0} = {1})", "<>": "({0} <> {1})", "<": "({0} < {1})", "<=": "({0} <= {1})",
    ">": "({0} > {1})", ">=": "({0} >= {1})", "<=>": "({0} IS NOT DISTINCT FROM {1})",
    "like": "({0} LIKE {1} ESCAPE {2})",
    "&": "({0} & {1})", "|": "({0} | {1})",
    "^": "xor({0}, {1})", "~": "(~{0})",
    "upper": "spark_upper({0})", "lower": "spark_lower({0})",
    "length": "CAST(length({0}) AS INTEGER)", "ascii": "CAST(ascii({0}) AS INTEGER)",
    "left": "spark_left({0}, {1})", "right": "spark_right({0}, {1})",
    "instr": "CAST(instr({0}, {1}) AS INTEGER)",
    "locate": "CAST(spark_locate({0}, {1}, {2}) AS INTEGER)",
    "split_part": "spark_split_part({0}, {1}, {2})",
    "startswith": "starts_with({0}, {1})", "endswith": "ends_with({0}, {1})",
    "octet_length": "CAST(strlen({0}) AS INTEGER)",
    "chr": "CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END",
    "dayname": "left(dayname({0}), 3)", "monthname": "left(monthname({0}), 3)",
    "sha2": "sha256({0})", "bit_count": "CAST(bit_count({0}) AS INTEGER)",
    "substring_index": "spark_substring_index({0}, {1}, {2})",
    "repeat": "repeat({0}, {1})", "initcap": "spark_initcap({0})",
    "sqrt": "spark_sqrt({0})", "pow": "spark_pow({0}, {1})", "ln": "spark_ln({0})",
    "log10": "spark_log10({0})",
    "log2": "spark_log2({0})", "log": "spark_log({0}, {1})",
    "asin": "spark_inverse({0}, asin(CASE WHEN abs({0}) <= 1 THEN {0} END))",
    "acos": "spark_inverse({0}, acos(CASE WHEN abs({0}) <= 1 THEN {0} END))",
    "sign": "spark_sign({0})", "e": "exp(CAST(1 AS DOUBLE))",
    "isnan": "COALESCE(isnan({0}), FALSE)",
    "year": "CAST(year({0}) AS INTEGER)", "month": "CAST(month({0}) AS INTEGER)",
    "day": "CAST(day({0}) AS INTEGER)", "quarter": "CAST(quarter({0}) AS INTEGER)",
    "dayofweek": "CAST(dayofweek({0}) + 1 AS INTEGER)",
    "weekday": "CAST(isodow({0}) - 1 AS INTEGER)",
    "dayofyear": "CAST(dayofyear({0}) AS INTEGER)", "weekofyear": "CAST(week({0}) AS INTEGER)",
    "hour": "CAST(hour({0}) AS INTEGER)", "minute": "CAST(minute({0}) AS INTEGER)",
    "second": "CAST(second({0}) AS INTEGER)",
    "second_fraction": "CAST(CAST(microsecond({0}) AS DECIMAL(10,0)) "
    "* CAST(0.000001 AS DECIMAL(6,6)) AS DECIMAL(8,6))",
    "date_add": "CAST({0} + {1} AS DATE)", "date_sub": "CAST({0} - {1} AS DATE)",
    "add_months": "CAST({0} + to_months({1}) AS DATE)",
    "months_between": "spark_months_between({0}, {1}, {2})",
    "datediff": "CAST({0} - {1} AS INTEGER)", "last_day": "last_day({0})",
    "make_date": "make_date({0}, {1}, {2})",
    "unix_seconds": "spark_floor_divide(epoch_us({0}), 1000000)",
    "unix_millis": "spark_floor_divide(epoch_us({0}), 1000)", "unix_micros": "epoch_us({0})",
    "unix_date": "CAST({0} - DATE '1970-01-01' AS INTEGER)",
    "date_from_unix_date": "CAST(DATE '1970-01-01' + {0} AS DATE)",
    "timestamp_seconds": "make_timestamp({0} * 1000000)",
    "timestamp_millis": "make_timestamp({0} * 1000)", "timestamp_micros": "make_timestamp({0})",
    "date_trunc": "CAST(date_trunc({0}, {1}) AS TIMESTAMP)",
    "trunc": "CAST(date_trunc({1}, {0}) AS DATE)",
    "only_row": "CASE WHEN {1} > 1 THEN error('a subquery has more than one row') ELSE {0} END",
}  # fmt: skip

Query = Callable[[Relation], str]


class DuckdbExpressions:
    """Renders expressions; `query` renders the subqueries inside them."""

    def __init__(self, query: Query, *, exact: bool = False) -> None:
        self.query = query
        self._exact = exact  # whether nothing is rounded or too wide on the way

    name = staticmethod(duckdb_name)
    type_name = staticmethod(duckdb_type)

    def render(self, expression: Expression) -> str:
        """The expression as DuckDB SQL of exactly its type."""
        match expression:
            case Column():
                return duckdb_name(expression.name)
            case Literal():
                return duckdb_literal(expression)
            case Cast():
                inner = self.render(expression.input)
                cast = duckdb_try_cast if expression.lenient else duckdb_cast
                return cast(inner, expression.input.type, expression.type)
            case Call():
                return self._call(expression)
            case Case():
                return self._case(expression)
            case Aggregate() if is_engine_function(expression.function):
                return self._engine_call(expression)
            case Aggregate():
                return aggregate_sql(
                    expression.function,
                    [self._argument(each, expression.where) for each in expression.arguments],
                    [each.type for each in expression.arguments],
                    expression.type,
                    distinct=expression.distinct,
                    suffix=self._filter(expression),
                    exact=self._exact,
                )
            case Over():
                return self._over(expression)
            case ScalarSubquery():
                return f"({self.query(expression.query)})"
            case Exists():
                return f"EXISTS ({self.query(expression.query)})"
            case InSubquery():
                values = ", ".join(map(self.render, expression.values))
                left = f"({values})" if len(expression.values) > 1 else values
                return f"({left} IN ({self.query(expression.query)}))"

    def condition(self, expression: Expression) -> str:
        """A condition on rows; DuckDB judges what AND holds together there in order."""
        if isinstance(expression, Call) and expression.function == "and":
            return _TEMPLATES["and"].format(*map(self.condition, expression.arguments))
        return self.render(expression)

    def sort_key(self, key: SortKey) -> str:
        """A sort key with explicit direction and position of NULLs."""
        direction = "DESC" if key.descending else "ASC"
        text = order_key(self.render(key.expression), key.expression.type)
        return f"{text} {direction} NULLS {_place(key)}"

    def group_key(self, text: str, type_: Type) -> str:
        """A grouping key; 0.0 and -0.0 are one group, shown as 0.0."""
        return f"({text} + CAST(0 AS {duckdb_type(type_)}))" if isinstance(type_, Float) else text

    def _argument(self, argument: Expression, where: Expression | None) -> str:
        """An argument of an aggregate; DuckDB computes it for rows that FILTER leaves out too."""
        text = self.render(argument)
        if where is None or failing_part(argument, overflow=True) is None:
            return text
        return f"CASE WHEN {self.render(where)} THEN {text} END"

    # Calls.

    def _call(self, call: Call) -> str:
        if call.function in ("and", "or") and _may_fail_behind(call):
            return self._guarded(call)
        if is_engine_function(call.function):
            return self._engine_call(call)
        texts = [self.render(each) for each in call.arguments]
        if isinstance(call, UserCall):
            pairs = zip(texts, call.arguments, strict=True)
            given = [f"CAST({text} AS {duckdb_type(each.type)})" for text, each in pairs]
            # DuckDB tells a function without arguments nothing about the number of rows.
            return f"{duckdb_name(user_name(call))}({', '.join(given) or 'CAST(0 AS INTEGER)'})"
        if call.function in _COMPARISONS:
            types = [each.type for each in call.arguments]
            texts = [order_key(*each) for each in zip(texts, types, strict=True)]
        special = _SPECIAL.get(call.function)
        if special is not None:
            return special(call, texts)
        template = _TEMPLATES.get(call.function)
        if template is not None:
            return template.format(*texts)
        name = (
            python_name(call.function, len(texts))
            if call.function in PYTHON_FUNCTIONS
            else call.function
        )
        return f"{name}({', '.join(texts)})"

    def _guarded(self, call: Call) -> str:
        """AND or OR, each part judged while those before it leave the answer open: DuckDB would
        judge them all."""
        parts = [self.render(each) for each in _operands(call, call.function)]
        decided = "NOT {} THEN FALSE" if call.function == "and" else "{} THEN TRUE"
        tests = "".join(f" WHEN {decided.format(each)}" for each in parts[:-1])
        return f"CASE{tests} ELSE ({f' {call.function.upper()} '.join(parts)}) END"

    def _engine_call(self, call: Call | Aggregate | Over, suffix: str = "") -> str:
        """A call that only the engine computes, in DuckDB's dialect."""
        text, *given = call.arguments
        assert isinstance(text, Literal)
        where = call.where if isinstance(call, Aggregate) else None
        made = transpile_call(
            str(text.value),
            "duckdb",
            [self.render(each) for each in given],
            {f"@{i}": each.type for i, each in enumerate(given)},
            None if where is None else self.render(where),
        )
        if isinstance(call.type, Null):
            return made + suffix
        return f"CAST({made}{suffix} AS {duckdb_type(call.type)})"

    def _case(self, case: Case) -> str:
        whens = "".join(
            f" WHEN {self.render(when)} THEN {self.render(then)}" for when, then in case.branches
        )
        return f"CASE{whens} ELSE {self.render(case.otherwise)} END"

    def _filter(self, call: Aggregate) -> str:
        return "" if call.where is None else f" FILTER (WHERE {self.render(call.where)})"

    def _over(self, call: Over) -> str:
        window = f" OVER ({self._window(call)})"
        if is_engine_function(call.function):
            return self._engine_call(call, window)
        texts = [self.render(each) for each in call.arguments]
        types = [each.type for each in call.arguments]
        if (own := WINDOW_FUNCTIONS.get(call.function)) is not None:
            nulls = " IGNORE NULLS" if call.ignore_nulls else ""
            text = f"{own.duckdb or own.name}({', '.join(texts)}{nulls}){window}"
            return f"CAST({text} AS {duckdb_type(call.type)})"
        return aggregate_sql(
            call.function, texts, types, call.type, suffix=window, exact=self._exact
        )

    def _window(self, call: Over) -> str:
        parts = []
        if call.partition:
            keys = [self.group_key(self.render(each), each.type) for each in call.partition]
            parts.append(f"PARTITION BY {', '.join(keys)}")
        if call.order:
            parts.append(f"ORDER BY {', '.join(map(self.sort_key, call.order))}")
        if call.frame is not None:
            parts.append(duckdb_frame(call.frame, call.order))
        return " ".join(parts)


_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>"})


def _operands(expression: Expression, sign: str) -> list[Expression]:
    """The parts that AND or OR holds together, in order."""
    if not isinstance(expression, Call) or expression.function != sign:
        return [expression]
    return [part for each in expression.arguments for part in _operands(each, sign)]


def _may_fail_behind(call: Call) -> bool:
    _, *later = _operands(call, call.function)
    return any(failing_part(each, overflow=True) is not None for each in later)


def _place(key: SortKey) -> str:
    return "FIRST" if key.nulls_first else "LAST"


# Calls that depend on their types.


def _arithmetic(call: Call, texts: list[str]) -> str:
    if len(texts) == 1:
        # DuckDB gives -(-2147483648) a wider type; a difference keeps it and overflows.
        is_whole = isinstance(call.type, Integer)
        zero = f"CAST(0 AS {duckdb_type(call.type)}) " if is_whole else ""
        return f"({zero}- {texts[0]})"
    left, right = texts
    text = f"({left} {call.function} {right})"
    if isinstance(call.type, Date):
        return f"CAST({text} AS DATE)"
    if isinstance(call.type, Decimal):
        a, b = call.arguments[0].type, call.arguments[1].type
        if call.function == "*" and isinstance(a, Decimal) and isinstance(b, Decimal):
            return render_decimals.multiply(left, a, right, b, call.type)
        if _needs_more(call):
            return render_decimals.compute(call.function, left, right, call.type)
        return f"CAST({text} AS {call.type})"
    return text


def _needs_more(call: Call) -> bool:
    a, b = (each.type for each in call.arguments)
    if not isinstance(a, Decimal) or not isinstance(b, Decimal):
        return False
    return render_decimals.needs_more(a, b)


def _divide(call: Call, texts: list[str]) -> str:
    a, b = call.arguments[0].type, call.arguments[1].type
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return render_decimals.divide(texts[0], a, texts[1], b, call.type)
    return f"spark_divide({texts[0]}, {texts[1]})"


def _integral_divide(call: Call, texts: list[str]) -> str:
    a, b = call.arguments[0].type, call.arguments[1].type
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return render_decimals.integral_divide(texts[0], a, texts[1], b)
    return f"({texts[0]} // {texts[1]})"


def _remainder(call: Call, texts: list[str]) -> str:
    # Whole numbers and decimals over zero are errors to DuckDB too, floats are not.
    is_float, is_pmod = isinstance(call.type, Float), call.function == "pmod"
    text = f"({texts[0]} % {texts[1]})"
    if not is_pmod and _needs_more(call):
        return render_decimals.compute("%", texts[0], texts[1], call.type)
    divisor = call.arguments[1]
    is_usual = isinstance(divisor, Literal) and divisor.value != -1
    if isinstance(call.type, Integer) and not is_usual:
        text = f"spark_left_over({texts[0]}, {texts[1]})"
    if is_pmod:
        text = f"spark_pmod{'_float' if is_float else ''}({texts[0]}, {texts[1]})"
    elif is_float:
        text = f"spark_remainder({texts[0]}, {texts[1]})"
    return f"CAST({text} AS {call.type})" if isinstance(call.type, Decimal) else text


_ROUNDED_BY_MACRO = 15  # digits behind the point


def _round(call: Call, texts: list[str]) -> str:
    digits = call.arguments[1]
    assert isinstance(digits, Literal)
    if isinstance(call.type, Float):
        double = f"CAST({texts[0]} AS DOUBLE)" if call.type.bits == 32 else texts[0]
        many = isinstance(digits.value, int) and digits.value > _ROUNDED_BY_MACRO
        name = python_name("round_float", 2) if many else "spark_round"
        return f"CAST({name}({double}, {digits.value}) AS {call.type})"
    if isinstance(call.type, Integer) and isinstance(digits.value, int) and digits.value >= 0:
        return texts[0]
    # One digit more, because round(99.5) has one: DuckDB would keep the type of its argument.
    wide = f"CAST({texts[0]} AS {_wide(call.arguments[0].type)})"
    return f"CAST(round({wide}, {digits.value}) AS {duckdb_type(call.type)})"


def _wide(type_: Type) -> str:
    return f"DECIMAL(38,{type_.scale})" if isinstance(type_, Decimal) else "DECIMAL(38,0)"


def _whole(call: Call, texts: list[str]) -> str:
    if isinstance(call.type, Decimal):
        wide = f"CAST({texts[0]} AS {_wide(call.arguments[0].type)})"
        return f"CAST({call.function}({wide}) AS {call.type})"
    return f"CAST(spark_or_zero({call.function}({texts[0]})) AS BIGINT)"


def _concat(call: Call, texts: list[str]) -> str:
    return f"({' || '.join(texts)})"


def _in(call: Call, texts: list[str]) -> str:
    return f"({texts[0]} IN ({', '.join(texts[1:])}))"


def _trim(call: Call, texts: list[str]) -> str:
    # Without characters Spark takes away blanks only, DuckDB all white space.
    characters = texts[1] if len(texts) > 1 else duckdb_text(" ")
    return f"{call.function}({texts[0]}, {characters})"


def _pad(call: Call, texts: list[str]) -> str:
    pad = texts[2] if len(texts) > 2 else duckdb_text(" ")
    return f"spark_{call.function}({texts[0]}, {texts[1]}, {pad})"


def _substring(call: Call, texts: list[str]) -> str:
    count = texts[2] if len(texts) > 2 else "2147483647"
    return f"spark_substring({texts[0]}, {texts[1]}, {count})"


def _replace(call: Call, texts: list[str]) -> str:
    return f"replace({', '.join(texts if len(texts) == 3 else [*texts, duckdb_text('')])})"


def _extreme(call: Call, texts: list[str]) -> str:
    return f"{call.function}({', '.join(texts)})"


def _struct(call: Call, texts: list[str]) -> str:
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return "{" + ", ".join(f"{name}: {value}" for name, value in pairs) + "}"


def _minus(call: Call, texts: list[str]) -> str:
    if len(texts) == 2 and isinstance(call.type, Interval):
        if isinstance(call.arguments[0].type, Date):
            return f"to_days(CAST({texts[0]} - {texts[1]} AS INTEGER))"
        return f"({texts[0]} - {texts[1]})"
    return _arithmetic(call, texts)


def _date_format(call: Call, texts: list[str]) -> str:
    pattern = call.arguments[1]
    assert isinstance(pattern, Literal)
    return f"strftime({texts[0]}, {duckdb_text(str(to_duckdb(str(pattern.value))))})"


def _to_timestamp(call: Call, texts: list[str]) -> str:
    pattern = str(call.arguments[1].value) if isinstance(call.arguments[1], Literal) else ""
    shape, letters = duckdb_text(str(text_shape(pattern))), duckdb_text(str(to_duckdb(pattern)))
    return f"spark_parsed({texts[0]}, {shape}, {letters})"


# What RE2 lacks or finds elsewhere: (?= and \1 and a++, and the places that \b finds.
_OF_JAVA = re.compile(r"\(\?|\\[1-9ZbB]|[*+?}]\+")


def _is_quick(call: Call) -> bool:
    """Whether RE2 means by the pattern what Java does; others go by Python, row by row."""
    pattern = call.arguments[1]
    text = pattern.value if isinstance(pattern, Literal) else None
    return isinstance(text, str) and _OF_JAVA.search(text) is None


def _quick(call: Call) -> re.Pattern[str] | None:
    """Such a pattern, compiled."""
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or not _is_quick(call):
        return None
    try:
        return regex(str(pattern.value))
    except Unfit:
        return None


def _rlike(call: Call, texts: list[str]) -> str:
    name = "regexp_matches" if _is_quick(call) else python_name("java_like", 2)
    return f"{name}({', '.join(texts)})"


def _regexp_extract(call: Call, texts: list[str]) -> str:
    number = call.arguments[2] if len(texts) > 2 else Literal(1, INT)
    group = number.value if isinstance(number, Literal) else None
    quick = _quick(call)
    if quick is not None and isinstance(group, int) and 0 <= group <= quick.groups:
        return f"regexp_extract({texts[0]}, {texts[1]}, {group})"
    return f"{python_name('java_extract', len(texts))}({', '.join(texts)})"


def _regexp_replace(call: Call, texts: list[str]) -> str:
    quick, new = _quick(call), call.arguments[2]
    text = new.value if isinstance(new, Literal) else None
    if quick is not None and isinstance(text, str) and quick.search("") is None:
        parts = _GROUPS.split(text)  # letters and numbers of groups in turn
        known = all(int(each) <= quick.groups for each in parts[1::2])
        if known and not any("\\" in each or "$" in each for each in parts[::2]):
            written = duckdb_text(_GROUPS.sub(r"\\\1", text))  # Java calls the groups $1, RE2 \1
            return f"regexp_replace({texts[0]}, {texts[1]}, {written}, 'g')"
    return f"{python_name('java_replace', 3)}({', '.join(texts)})"


_GROUPS = re.compile(r"\$([0-9])(?![0-9])")

_SPECIAL: dict[str, Callable[[Call, list[str]], str]] = {
    "+": _arithmetic, "-": _minus, "*": _arithmetic, "/": _divide, "div": _integral_divide,
    "%": _remainder, "pmod": _remainder, "round": _round, "floor": _whole, "ceil": _whole,
    "concat": _concat, "in": _in, "trim": _trim, "ltrim": _trim, "rtrim": _trim, "lpad": _pad,
    "rpad": _pad, "substring": _substring, "replace": _replace, "greatest": _extreme,
    "least": _extreme, "named_struct": _struct, "date_format": _date_format,
    "struct_field": lambda call, texts: f"struct_extract({texts[0]}, {texts[1]})",
    "to_timestamp": _to_timestamp,
    "regexp_replace": _regexp_replace, "rlike": _rlike, "regexp_extract": _regexp_extract,
}  # fmt: skip
