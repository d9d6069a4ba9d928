"""Our dialect of SQL: Databricks' Spark plus suffixes on tables.

takes  SQL text, or tokens cut from it
gives  sqlglot trees whose offsets are those of the text; suffixes hang on the table in `suffixes`:
       s [WINDOW 10 MINUTES SLIDE 1 MINUTE]   WindowSuffix
       m[i - 1]                               PartSuffix
       m[a..b]                                PartRangeSuffix
       m PATTERN [a, b, c, d+]                PatternSuffix
next   sql.parse, sql.lower
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp, parse_one
from sqlglot.dialects.databricks import Databricks
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.databricks import DatabricksGenerator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.algebra.names import check_name
from viewmill.algebra.units import MICROSECONDS_BY_UNIT, interval_sql, to_microseconds
from viewmill.algebra.windows import LONGEST
from viewmill.errors import InvalidArgument, MalformedSQL, Span, UnsupportedQuery
from viewmill.sql.parse_match import PatternParser, PatternSuffix, RowPatternMatch
from viewmill.sql.spans import malformed, span_of, span_of_tokens
from viewmill.sql.time_tables import TimeTableParser

# `..` between two subscripts. sqlglot has no type for it; this one is never produced or read by it.
DOT_DOT = TokenType.BREAK
# EMIT before FINAL, which is no alias there.
EMIT = TokenType.BLOCK_START


class WindowSuffix(exp.Expression):
    """[WINDOW size [SLIDE slide] [ON column]]: `unit` is "rows" or "time", in microseconds."""

    arg_types: ClassVar[dict[str, bool]] = {
        "unit": True, "size": True, "slide": False, "on": False,
    }  # fmt: skip


class PartSuffix(exp.Expression):
    """[this]: one part of a table."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class PartRangeSuffix(exp.Expression):
    """[this..expression]: the parts from one subscript to another, both included."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


Suffix = WindowSuffix | PartSuffix | PartRangeSuffix | PatternSuffix


def suffixes_of(table: exp.Expr) -> list[Suffix]:
    """The suffixes written after the table's name, in order."""
    return list(table.args.get("suffixes") or ())


_NUMBER_AND_UNIT = re.compile(r"\s*(?P<sign>[+-]?)\s*(?P<rest>[0-9]+(?:\.[0-9]+)?\s*[a-zA-Z]+)\s*")


def _unless_longer(name: str, read: Any, count: int) -> Callable[[list[exp.Expr]], exp.Expr]:
    """sqlglot's reading of a function, and with more arguments the call as it is written."""

    def function(args: list[exp.Expr]) -> exp.Expr:
        if len(args) > count:
            return exp.Anonymous(this=name, expressions=args)
        made: exp.Expr = read(args)
        return made

    return function


class _Operators(SparkParser):
    """Spark's ranks: || binds as + does, then come shifts, & and ^ and |.

    sqlglot has one rank for all but +: 1 | 2 << 3 is 17, not 24.
    """

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **SparkParser.FUNCTIONS,
        "GET_JSON_OBJECT": lambda args: (  # sqlglot would read the path by rules of its own
            exp.Anonymous(this="get_json_object", expressions=args)
        ),
        # With a place it would be LOCATE, which counts otherwise.
        "INSTR": _unless_longer("instr", SparkParser.FUNCTIONS["INSTR"], 2),
    }
    TERM: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.TERM,
        TokenType.DPIPE: partial(exp.DPipe, safe=True),
    }
    _RANKS = (
        (TokenType.PIPE, exp.BitwiseOr),
        (TokenType.CARET, exp.BitwiseXor),
        (TokenType.AMP, exp.BitwiseAnd),
    )

    def _parse_distinct_arg_function(self, func: type[exp.Func], distinct_index: int = 0) -> Any:
        """percentile(x, p, frequency) stays as it is written: sqlglot drops the frequency."""
        start = self._index
        read: exp.Func = super()._parse_distinct_arg_function(func, distinct_index)
        end = self._index
        if func is exp.Quantile:
            self._retreat(start)
            is_distinct = self._match(TokenType.DISTINCT)
            args = self._parse_csv(self._parse_lambda)
            if len(args) > 2 and not is_distinct:
                return exp.Anonymous(this="percentile", expressions=args)
            self._retreat(end)
        return read

    def _parse_interval_span(
        self, this: exp.Expr, parse_function_unit: bool = True
    ) -> exp.Interval:
        """Of a text the whole is read: sqlglot takes the '7 day' in it and leaves out the rest."""
        if this and this.is_string:
            if whole := _NUMBER_AND_UNIT.fullmatch(this.name):
                this = exp.Literal.string(whole["sign"].strip("+") + whole["rest"])
            elif len(exp.INTERVAL_STRING_RE.findall(this.name)) == 1:
                place = Span(self.sql, self._prev.start, self._prev.end)
                raise MalformedSQL(f"{this.name!r} is no interval", span=place)
        return super()._parse_interval_span(this, parse_function_unit)

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_rank(0)

    def _parse_rank(self, rank: int) -> exp.Expr | None:
        if rank == len(self._RANKS):
            return self._parse_shift()
        this = self._parse_rank(rank + 1)
        sign, kind = self._RANKS[rank]
        while self._match(sign):
            this = self.expression(kind(this=this, expression=self._parse_rank(rank + 1)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = exp.BitwiseLeftShift(this=this, expression=self._parse_term())
            elif not self._match_pair(TokenType.GT, TokenType.GT):
                return this
            elif self._match(TokenType.GT):
                both = [this, self._parse_term()]
                this = exp.Anonymous(this="shiftrightunsigned", expressions=both)
            else:
                this = exp.BitwiseRightShift(this=this, expression=self._parse_term())
            this = self.expression(this)


def _as_written(name: str, args: list[exp.Expr]) -> exp.Expr:
    """A function whose pattern or unit sqlglot would turn into one of its own: Q into QUARTER."""
    return exp.Anonymous(this=name.lower(), expressions=args)


_AS_WRITTEN = ("DATE_FORMAT", "FROM_UNIXTIME", "DATE_TRUNC", "TRUNC")


def _pair_function(name: str, args: list[exp.Expr]) -> exp.Expr:
    """An aggregate of two arguments; sqlglot would take DISTINCT a, b for one."""
    if len(args) == 1 and isinstance(args[0], exp.Distinct):
        return exp.Anonymous(this=name.lower(), expressions=args)
    kinds = {"CORR": exp.Corr, "COVAR_POP": exp.CovarPop, "COVAR_SAMP": exp.CovarSamp}
    return kinds[name].from_arg_list(args)


# Functions of other dialects, which sqlglot would read although Spark does not have them.
_OF_OTHERS = frozenset({
    "ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN", "CONVERT", "GAP_FILL", "JSON_OBJECT",
    "JSON_OBJECTAGG", "JSON_TABLE", "MATCH", "NORMALIZE", "OPENJSON", "SAFE_CAST", "TRY_CONVERT",
    "WEIGHT_STRING", "XMLELEMENT", "XMLTABLE",
})  # fmt: skip


class _Parser(_Operators, PatternParser, TimeTableParser, DatabricksParser):
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser
        for name, parser in DatabricksParser.FUNCTION_PARSERS.items()
        if name not in _OF_OTHERS
    }
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **DatabricksParser.FUNCTIONS,
        **{name: PatternParser.FUNCTIONS[name] for name in ("FIRST", "LAST")},
        "GET_JSON_OBJECT": _Operators.FUNCTIONS["GET_JSON_OBJECT"],
        "INSTR": _Operators.FUNCTIONS["INSTR"],
        **{name: partial(_as_written, name) for name in _AS_WRITTEN},
        "PERCENTILE": lambda args: (  # a third argument would be dropped without a word
            exp.Quantile.from_arg_list(args)
            if len(args) == 2
            else exp.Anonymous(this="percentile", expressions=args)
        ),
        **{name: partial(_pair_function, name) for name in ("CORR", "COVAR_POP", "COVAR_SAMP")},
    }

    def raise_error(self, message: str, token: Token | None = None) -> None:
        place = token or self._curr or self._prev
        try:
            super().raise_error(message, place)
        except ParseError as error:
            at_end = not token and not self._curr
            error.errors[0].update(start=place.start, end=place.end, at_end=at_end)
            raise

    def _parse_join_parts(self) -> tuple[Token | None, Token | None, Token | None]:
        """Also LEFT ASOF JOIN, as Spark has it, and INNER ASOF JOIN."""
        sides = (*self.JOIN_SIDES, TokenType.INNER)
        if self._curr and self._curr.token_type in sides:
            ahead = self._tokens[self._index + 1 : self._index + 3]
            outer = bool(ahead) and ahead[0].token_type == TokenType.OUTER
            if ahead[outer : outer + 1] and ahead[outer].token_type == TokenType.ASOF:
                side = None if self._curr.token_type == TokenType.INNER else self._curr
                self._advance(2 + outer)
                return self._prev, side, None
        found: tuple[Token | None, Token | None, Token | None] = super()._parse_join_parts()
        return found

    def _parse_cte(self) -> exp.CTE | exp.FunctionSpecification | None:
        """Also with Spark's limit: WITH RECURSIVE t(n) MAX RECURSION LEVEL 200 AS (...)."""
        index = self._index
        alias = self._parse_table_alias(self.ID_VAR_TOKENS)
        if alias is None or not self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            self._retreat(index)
            return super()._parse_cte()
        limit = self._parse_number()
        if limit is None or not str(limit.this).isdecimal() or int(limit.this) < 1:
            self.raise_error("Expected a whole number of steps, at least one", self._prev)
        self._match(TokenType.ALIAS)
        made = self.expression(
            exp.CTE(this=self._parse_wrapped(self._parse_statement), alias=alias)
        )
        made.set("recursion_limit", limit)
        return made

    def _parse_table_parts(self, *args: Any, **options: Any) -> exp.Table | exp.Dot | None:
        table = super()._parse_table_parts(*args, **options)
        plain = not (args or options.get("fast") or options.get("schema"))
        if plain and isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            # Before the alias, so that `m[a..b] t` keeps its alias.
            table.set("suffixes", list(self._parse_suffixes()) or None)
        return table

    def _parse_suffixes(self) -> Iterator[Suffix]:
        while True:
            start = self._curr
            if (
                self._curr.text.upper() == "PATTERN"
                and self._next.token_type == TokenType.L_BRACKET
            ):
                self._advance(2)
                suffix: Suffix = self._parse_pattern()
            elif self._match(TokenType.L_BRACKET):
                is_window = self._curr.text.upper() == "WINDOW"
                is_window = is_window and self._next.token_type in (
                    TokenType.NUMBER,
                    TokenType.DASH,
                )
                suffix = self._parse_window_suffix() if is_window else self._parse_subscript()
            else:
                return
            if not self._match(TokenType.R_BRACKET):
                self.raise_error("Expected ]")
            yield self._placed(suffix, start)

    def _parse_subscript(self) -> PartSuffix | PartRangeSuffix:
        low = self._parse_bitwise()
        if not low:
            self.raise_error("Expected a subscript")
        if not self._match(DOT_DOT):
            return PartSuffix(this=low)
        high = self._parse_bitwise()
        if not high:
            self.raise_error("Expected the last subscript")
        return PartRangeSuffix(this=low, expression=high)

    def _parse_window_suffix(self) -> WindowSuffix:
        self._advance()
        unit, size = self._parse_extent()
        if not self._match_text_seq("SLIDE"):
            if unit == "rows":
                self.raise_error("Expected SLIDE")
            return self._on_column(WindowSuffix(unit=unit, size=size))
        slide_unit, slide = self._parse_extent()
        if unit != slide_unit:
            self.raise_error("WINDOW and SLIDE are both times or both ROWS", self._prev)
        return self._on_column(WindowSuffix(unit=unit, size=size, slide=slide))

    def _on_column(self, suffix: WindowSuffix) -> WindowSuffix:
        """The column that says when a row was, if it is named."""
        if self._match(TokenType.ON):
            column = self._parse_id_var(any_token=False)
            if column is None:
                self.raise_error("Expected a column")
            suffix.set("on", column)
        return suffix

    def _parse_subquery(self, this: exp.Expr | None, *args: Any, **options: Any) -> Any:
        """Also with a window, before its alias or behind it."""
        before = list(self._parse_suffixes()) if self._is_at_window() else []
        found = super()._parse_subquery(this, *args, **options)
        after = list(self._parse_suffixes()) if self._is_at_window() else []
        if found is not None and (before or after):
            found.set("suffixes", [*before, *after])
        return found

    def _is_at_window(self) -> bool:
        is_bracket = bool(self._curr) and self._curr.token_type == TokenType.L_BRACKET
        return is_bracket and bool(self._next) and self._next.text.upper() == "WINDOW"

    def _parse_extent(self) -> tuple[str, int]:
        number, unit = self._curr, self._next
        if number.token_type == TokenType.DASH:
            self.raise_error("A window and its slide are at least one", number)
        if number.token_type != TokenType.NUMBER:
            self.raise_error("Expected a number")
        self._advance(2)
        try:
            if unit.text.upper() in ("ROW", "ROWS"):
                kind, extent = "rows", int(number.text)
            else:
                kind, extent = "time", to_microseconds(Decimal(number.text), unit.text)
        except (InvalidArgument, ArithmeticError, ValueError):
            units = ", ".join(f"{each}S" for each in MICROSECONDS_BY_UNIT)
            self.raise_error(f"Expected a whole number of ROWS or of {units}", unit or number)
        if extent < 1:
            self.raise_error("A window and its slide are at least one", number)
        if extent >= LONGEST:
            self.raise_error("A window and its slide are shorter than 146,000 years", number)
        return kind, extent

    def _parse_query_modifiers(self, this: Any) -> Any:
        """Also EMIT FINAL behind a SELECT."""
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Select) and self._match(EMIT):
            self._advance()
            found.set("emit_final", True)
        return found

    def _parse_stream(self) -> exp.Stream | None:
        start = self._curr
        node = super()._parse_stream()
        return self._placed(node, start) if node else None


class Viewmill(Databricks):
    """Spark's SQL as Databricks writes it, with our table suffixes."""

    class Tokenizer(Databricks.Tokenizer):
        """Reads every statement to its end: sqlglot would turn EXPLAIN ... into one string."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: type_
            for word, type_ in Databricks.Tokenizer.KEYWORDS.items()
            if type_ not in (TokenType.COMMAND, TokenType.SHOW)
        }

        def tokenize(self, sql: str) -> list[Token]:
            """The tokens of `sql`, `..` as one of them."""
            try:
                return _join_dots(_emits(_match_conditions(_free_window(super().tokenize(sql)))))
            except TokenError as error:
                # sqlglot gives the surroundings; we underline from where the token starts.
                error.start = self._core._start
                raise

    Parser = _Parser

    class Generator(DatabricksGenerator):
        """Writes the suffixes back."""

        def table_parts(self, expression: exp.Table) -> str:
            """The table's name with its suffixes."""
            return super().table_parts(expression) + "".join(
                map(_suffix_sql, suffixes_of(expression))
            )


class _SparkText(SparkGenerator):
    """Spark's SQL with the names of LATERAL VIEW quoted, which sqlglot writes as they are."""

    def lateral_sql(self, expression: exp.Lateral) -> str:
        lateral = expression.copy()
        alias = lateral.args.get("alias")
        if lateral.args.get("view") and alias is not None and alias.name:
            alias.set("this", exp.to_identifier(self.sql(alias, "this")))
        return super().lateral_sql(lateral)


class PlainSpark(Spark):
    """Spark's SQL without additions, with Spark's ranks of operators."""

    Parser = _Operators
    Generator = _SparkText


def spark_text(tree: exp.Expr) -> str:
    """A tree as Spark SQL; the fields of its structs are quoted, whatever they are called."""
    for each in tree.find_all(exp.PropertyEQ):
        if isinstance(each.this, exp.Identifier):
            check_name(each.this.name, "a field")
            each.this.set("quoted", True)
    return str(tree.sql(PlainSpark, unsupported_level=ErrorLevel.RAISE))


def _free_window(tokens: list[Token]) -> list[Token]:
    """WINDOW is a keyword only in `WINDOW w AS (`.

    Elsewhere it is Spark's function or the column it makes: sqlglot would take GROUP BY window(ts,
    '1 minute') for an empty GROUP BY and a WINDOW clause.
    """
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.WINDOW:
            following = [each.token_type for each in tokens[i + 2 : i + 4]]
            if following[:1] != [TokenType.ALIAS] or following[1:] != [TokenType.L_PAREN]:
                token.token_type = TokenType.VAR
    return tokens


def _match_conditions(tokens: list[Token]) -> list[Token]:
    """MATCH_CONDITION is a keyword only behind ASOF, before a parenthesis."""
    has_asof = False
    for token, following in pairwise(tokens):
        has_asof = has_asof or token.token_type == TokenType.ASOF
        is_word = has_asof and token.text.upper() == "MATCH_CONDITION"
        if is_word and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.MATCH_CONDITION
    return tokens


def _emits(tokens: list[Token]) -> list[Token]:
    """EMIT is a keyword only in EMIT FINAL at the end of a query."""
    for i, token in enumerate(tokens):
        if token.text.upper() != "EMIT" or token.token_type == TokenType.IDENTIFIER:
            continue
        following = [each.text.upper() for each in tokens[i + 1 : i + 3]]
        if following[:1] == ["FINAL"] and following[1:] in ([], [")"], [";"]):
            token.token_type = EMIT
    return tokens


def _join_dots(tokens: list[Token]) -> list[Token]:
    """`a..b` comes as a . . b and `1..i` as 1. . i; make the two dots one token."""
    joined: list[Token] = []
    for token in tokens:
        before = joined[-1] if joined else None
        adjacent = before is not None and before.end + 1 == token.start
        if token.token_type != TokenType.DOT or before is None or not adjacent:
            joined.append(token)
        elif before.token_type == TokenType.DOT:
            joined[-1] = _dots(before.start, token)
        elif before.token_type == TokenType.NUMBER and before.text.endswith("."):
            number = Token(before.token_type, before.text[:-1], before.line, before.col - 1,
                           before.start, before.end - 1, before.comments)  # fmt: skip
            joined[-1:] = [number, _dots(before.end, token)]
        else:
            joined.append(token)
    return joined


def _dots(start: int, last: Token) -> Token:
    return Token(DOT_DOT, "..", last.line, last.col, start, last.end, last.comments)


def _suffix_sql(suffix: Suffix) -> str:
    match suffix:
        case WindowSuffix():
            size, slide = suffix.args["size"], suffix.args.get("slide")
            on = suffix.args.get("on")
            by = "" if on is None else f" ON {on.sql(Viewmill)}"
            if slide is None:
                return f" [WINDOW {_extent_sql(size)}{by}]"
            if suffix.args["unit"] == "rows":
                return f" [WINDOW {size} ROWS SLIDE {slide} ROWS{by}]"
            return f" [WINDOW {_extent_sql(size)} SLIDE {_extent_sql(slide)}{by}]"
        case PartSuffix():
            return f"[{suffix.this.sql(Viewmill)}]"
        case PartRangeSuffix():
            return f"[{suffix.this.sql(Viewmill)} .. {suffix.expression.sql(Viewmill)}]"
        case PatternSuffix():
            names = (each.name + "+" * each.args["plus"] for each in suffix.expressions)
            return f" PATTERN [{', '.join(names)}]"


def _extent_sql(microseconds: int) -> str:
    return interval_sql(microseconds).removeprefix("INTERVAL ").replace("'", "")


def tokenize(sql: str, dialect: type[Viewmill] = Viewmill) -> list[Token]:
    """The tokens of `sql`, or MalformedSQL."""
    half = next((i for i, each in enumerate(sql) if "\ud800" <= each <= "\udfff"), None)
    if half is not None:
        raise MalformedSQL(f"character {half + 1} of the text is half a character")
    try:
        return dialect().tokenize(sql)
    except TokenError as error:
        raise malformed(error, sql, ()) from error


def parse_tokens(tokens: Sequence[Token], sql: str) -> exp.Expr:
    """The tree of one statement given as tokens of `sql`."""
    try:
        trees = Viewmill().parser().parse(list(tokens), sql)
    except ParseError as error:
        raise malformed(error, sql, tokens) from error
    except (IndexError, ValueError) as error:  # of sqlglot's builders: MAP(x), DATE_TRUNC()
        raise MalformedSQL(
            "a function has too few arguments, or an odd number of them",
            span=span_of_tokens(tokens, sql),
        ) from error
    except RecursionError:
        raise MalformedSQL("the statement is nested too deeply") from None
    tree = trees[0] if trees else None
    if tree is None:
        raise MalformedSQL("expected a query", hint="Write SELECT ...")
    if command := tree.find(exp.Command):
        span = Span(sql, tokens[0].start, tokens[0].end)
        raise UnsupportedQuery(f"{command.name.upper()} is not supported", span=span)
    return tree


_PARTS = (
    "Subscripts stand in INITIALIZE and UPDATE of a temporal view, and in a SELECT that is run."
)
_PATTERNS = "Write CREATE MATERIALIZED VIEW v AS SELECT ... FROM one table, then read v."
_FUTURE: dict[type[exp.Expr], tuple[str, str]] = {
    PartSuffix: ("a subscript is not supported here", _PARTS),
    PartRangeSuffix: ("a range of subscripts is not supported here", _PARTS),
    PatternSuffix: ("PATTERN is not supported here", _PATTERNS),
    RowPatternMatch: ("MATCH_RECOGNIZE is not supported here", _PATTERNS),
    exp.Stream: (
        "STREAM is not needed here",
        "Every table is read as it changes: leave STREAM out. A table of that name is `stream`.",
    ),
}


def reject_future_syntax(tree: exp.Expr, sql: str) -> None:
    """Raise UnsupportedQuery where `tree` uses syntax that is read but has no meaning yet."""
    for node in tree.find_all(*_FUTURE):
        message, hint = _FUTURE[type(node)]
        raise UnsupportedQuery(message, hint=hint, span=span_of(node, sql))


def names_function(name: str) -> bool:
    """Whether a call under a name is read as a call of that name, and of nothing else.

    >>> names_function("my_ring"), names_function("agg"), names_function("pivot")
    (True, False, False)
    """
    for arguments in ("x", "x, y"):
        try:
            select = parse_one(f"SELECT {name}({arguments}) FROM t", dialect=Viewmill)
        except (ParseError, TokenError, IndexError):  # some calls need more arguments to be read
            return False
        (call,) = select.expressions
        if not isinstance(call, exp.Anonymous) or call.name.lower() != name.lower():
            return False
    return True
