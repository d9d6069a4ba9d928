"""Read row patterns: PATTERN [a, b+] behind a table, and MATCH_RECOGNIZE (...).

takes  tokens
gives  PatternSuffix; RowPatternMatch, whose `pattern` is a tree of PatternNode
next   sql.lower_pattern, sql.lower_match

PATTERN [...] is a sequence of variables, some with a plus; MATCH_RECOGNIZE has the patterns of the
SQL standard, and WITHIN. What is not read is refused where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import MalformedSQL, Span, UnsupportedQuery

_SEQUENCE = "PATTERN (a b+ (c | d)*)"
_SUFFIX = "A pattern in brackets is a sequence of variables, some with a plus: PATTERN [a, b+]."
_NOT_IN_BRACKETS = ("STAR", "PLACEHOLDER", "L_BRACE", "PIPE", "DPIPE", "CARET", "L_PAREN", "PLUS",
                    "DASH", "NUMBER", "DOT", "PARAMETER")  # fmt: skip
_MEASURED = ("FIRST", "LAST", "COUNT", "SUM", "MIN", "MAX", "AVG", "CLASSIFIER", "PREV", "NEXT")
_MANY = 10_000  # of a quantifier


class PatternVariable(exp.Expression):
    """One step of a pattern; with `plus` one or more rows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "plus": True}


class PatternNode(exp.Expression):
    """A row pattern of MATCH_RECOGNIZE, by its kind.

    "variable" (its name in `name`), "sequence", "choice", "permute", "exclude" (their parts in
    `expressions`), "repeat" (`low`, `high`, None for any number, `reluctant`), "start", "end".
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "expressions": False, "variable": False, "low": False, "high": False,
        "reluctant": False,
    }  # fmt: skip


class RowPatternMatch(exp.MatchRecognize):
    """MATCH_RECOGNIZE with all of its clauses; `pattern` is a PatternNode."""

    arg_types: ClassVar[dict[str, bool]] = {
        **exp.MatchRecognize.arg_types, "subsets": False, "within": False, "skip_to": False,
    }  # fmt: skip


class Semantics(exp.Expression):
    """RUNNING or FINAL before a measure."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "final": True}


class PatternSuffix(exp.Expression):
    """PATTERN [a, b, c, d+]."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


def _first_or_last(kind: Callable[..., exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """FIRST(x, 2) is an offset, FIRST(x, TRUE) skips NULLs; sqlglot drops what is not TRUE."""

    def build(args: list[exp.Expr]) -> exp.Expr:
        if len(args) == 2 and not isinstance(args[1], exp.Boolean):
            return kind(this=args[0], expression=args[1])
        made = kind(this=args[0] if args else None)
        ignores = len(args) == 2 and bool(args[1].this)
        return exp.IgnoreNulls(this=made) if ignores else made

    return build


class PatternParser(SparkParser):
    """What reads row patterns."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **SparkParser.FUNCTIONS,
        "FIRST": _first_or_last(exp.First),
        "LAST": _first_or_last(exp.Last),
    }

    def _placed(self, node: Any, start: Token) -> Any:
        node.meta.update(start=start.start, end=self._prev.end)
        return node

    def _parse_pattern(self) -> PatternSuffix:
        """The variables between the brackets of PATTERN [...]."""
        return PatternSuffix(expressions=self._parse_csv(self._parse_pattern_variable))

    def _parse_pattern_variable(self) -> PatternVariable:
        name = self._parse_id_var(any_token=False)
        if not name:
            self._refuse_construct()
            self.raise_error("Expected the name of a pattern variable")
        made = PatternVariable(this=name, plus=bool(self._match(TokenType.PLUS)))
        if self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_BRACKET):
            self._refuse_construct()
        return made

    def _refuse_construct(self) -> None:
        """Refuse what only MATCH_RECOGNIZE takes, where it stands in PATTERN [...]."""
        token = self._curr
        if token and (token.text in ("$", "?") or token.token_type.name in _NOT_IN_BRACKETS):
            raise self._unsupported(
                f"{token.text} is not supported in PATTERN [...]",
                f"{_SUFFIX} MATCH_RECOGNIZE takes all row patterns.", token,
            )  # fmt: skip

    def _unsupported(self, message: str, hint: str, start: Token) -> UnsupportedQuery:
        end = max(start.end, self._prev.end if self._prev else 0)
        return UnsupportedQuery(message, hint=hint, span=Span(self.sql, start.start, end))

    # MATCH_RECOGNIZE.

    _in_match = False

    def _parse_match_recognize(self) -> exp.MatchRecognize | None:
        start = self._curr
        if not self._match(TokenType.MATCH_RECOGNIZE):
            return None
        self._match_l_paren()
        before, self._in_match = self._in_match, True
        partition, order = self._parse_partition_by(), self._parse_order()
        has_measures = self._match_text_seq("MEASURES")
        measures = self._parse_csv(self._parse_measure) if has_measures else []
        rows = self._parse_rows_per_match()
        after, skip_to = self._parse_after_match()
        pattern = self._parse_row_pattern(start)
        within = self._parse_within()
        subsets = self._parse_csv(self._parse_subset) if self._match_text_seq("SUBSET") else []
        within = within or self._parse_within()
        has_define = self._match_text_seq("DEFINE")
        define = self._parse_csv(self._parse_definition) if has_define else []
        self._match_r_paren()
        self._in_match = before
        end = self._prev
        node = self.expression(
            RowPatternMatch(
                partition_by=partition, order=order, measures=measures, rows=rows, after=after,
                skip_to=skip_to, pattern=pattern, subsets=subsets, within=within, define=define,
                alias=self._parse_table_alias(),
            )
        )  # fmt: skip
        node.meta.update(start=start.start, end=end.end)
        return node

    def _parse_unary(self) -> exp.Expr | None:
        """RUNNING and FINAL may stand before any measure."""
        word = self._curr.text.upper() if self._curr else ""
        following = self._next.text.upper() if self._next else ""
        if self._in_match and word in ("RUNNING", "FINAL") and following in _MEASURED:
            start = self._curr
            self._advance()
            inner = super()._parse_unary()
            made: exp.Expr = self._placed(Semantics(this=inner, final=word == "FINAL"), start)
            return made
        found: exp.Expr | None = super()._parse_unary()
        return found

    def _parse_measure(self) -> exp.Expr | None:
        found: exp.Expr | None = self._parse_expression()
        return found

    def _parse_rows_per_match(self) -> str:
        """`one`, `all` (with empty matches), `omit empty` or `unmatched`."""
        if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            return "one"
        if self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            if self._match_text_seq("OMIT", "EMPTY", "MATCHES"):
                return "omit empty"
            if self._match_text_seq("WITH", "UNMATCHED", "ROWS"):
                return "unmatched"
            self._match_text_seq("SHOW", "EMPTY", "MATCHES")
            return "all"
        return "one"

    def _parse_after_match(self) -> tuple[str, exp.Expr | None]:
        """Where matching goes on: `past`, `next`, `first` or `last` with a variable."""
        start = self._curr
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return "past", None
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return "past", None
        if self._match_text_seq("TO", "NEXT", "ROW"):
            return "next", None
        if self._match_text_seq("TO"):
            is_first = self._match_text_seq("FIRST")
            if not is_first:
                self._match_text_seq("LAST")
            is_pattern = self._curr and self._curr.text.upper() == "PATTERN"
            is_end = is_pattern and self._next and self._next.token_type == TokenType.L_PAREN
            name = None if is_end else self._parse_id_var(any_token=False)
            if name:
                return "first" if is_first else "last", name
        raise MalformedSQL(
            "AFTER MATCH SKIP says where matching goes on",
            hint="PAST LAST ROW, TO NEXT ROW, TO FIRST b or TO LAST b",
            span=Span(self.sql, start.start, (self._curr or self._prev).end),
        )

    def _parse_within(self) -> exp.Expr | None:
        if not self._match_text_seq("WITHIN"):
            return None
        start = self._curr
        found: exp.Expr | None = self._parse_interval()
        if found is None:
            self.raise_error("Expected an interval: WITHIN INTERVAL '10' MINUTES")
        made: exp.Expr = self._placed(exp.Paren(this=found), start)
        return made

    def _parse_subset(self) -> exp.Expr | None:
        """u = (a, b)."""
        start = self._curr
        name = self._parse_id_var(any_token=False)
        if not name or not self._match(TokenType.EQ):
            self.raise_error("Expected SUBSET u = (a, b)")
        self._match_l_paren()
        members = self._parse_csv(lambda: self._parse_id_var(any_token=False))
        self._match_r_paren()
        made: exp.Expr = self._placed(
            PatternNode(this="subset", variable=name, expressions=members), start
        )
        return made

    # The pattern.

    def _parse_row_pattern(self, match: Token) -> PatternNode:
        if self._curr and self._curr.text.upper() in ("INITIAL", "SEEK"):
            raise self._unsupported(
                f"{self._curr.text.upper()} is not supported", "Leave it out.", self._curr
            )
        if not self._match_text_seq("PATTERN"):
            raise MalformedSQL(
                "MATCH_RECOGNIZE has no PATTERN", hint=_SEQUENCE,
                span=Span(self.sql, match.start, (self._curr or self._prev).end),
            )  # fmt: skip
        self._match_l_paren()
        made = self._parse_choice()
        self._match_r_paren()
        return made

    def _parse_choice(self) -> PatternNode:
        start = self._curr
        parts = [self._parse_steps()]
        while self._curr and self._curr.token_type in (TokenType.PIPE, TokenType.DPIPE):
            if self._curr.token_type == TokenType.DPIPE:
                parts.append(PatternNode(this="sequence", expressions=[]))
            self._advance()
            parts.append(self._parse_steps())
        if len(parts) == 1:
            return parts[0]
        made: PatternNode = self._placed(PatternNode(this="choice", expressions=parts), start)
        return made

    def _parse_steps(self) -> PatternNode:
        start, steps = self._curr, []
        while self._curr and not self._is_end_of_steps():
            steps.append(self._parse_step())
        if len(steps) == 1:
            return steps[0]
        made: PatternNode = self._placed(PatternNode(this="sequence", expressions=steps), start)
        return made

    def _is_end_of_steps(self) -> bool:
        kinds = (TokenType.R_PAREN, TokenType.PIPE, TokenType.DPIPE, TokenType.COMMA)
        is_brace = self._next is not None and self._next.token_type == TokenType.R_BRACE
        return self._curr.token_type in kinds or (
            self._curr.token_type == TokenType.DASH and is_brace
        )

    def _parse_step(self) -> PatternNode:
        start = self._curr
        made: PatternNode = self._placed(self._parse_primary_pattern(), start)
        low, high = self._parse_quantifier()
        if (low, high) == (1, 1):
            return made
        if made.args["this"] in ("start", "end"):
            raise MalformedSQL("an anchor takes no quantifier", hint=_SEQUENCE,
                               span=Span(self.sql, start.start, self._prev.end))  # fmt: skip
        is_reluctant = bool(self._match(TokenType.PLACEHOLDER))
        node = PatternNode(this="repeat", expressions=[made], low=low, high=high,
                           reluctant=is_reluctant)  # fmt: skip
        found: PatternNode = self._placed(node, start)
        if self._curr and self._curr.token_type in (
            TokenType.PLUS,
            TokenType.STAR,
            TokenType.PLACEHOLDER,
            TokenType.DQMARK,
        ):
            raise MalformedSQL("two quantifiers for one pattern", hint="Put it in parentheses.",
                               span=Span(self.sql, start.start, self._curr.end))  # fmt: skip
        return found

    def _parse_primary_pattern(self) -> PatternNode:
        start = self._curr
        if self._match(TokenType.CARET):
            return PatternNode(this="start")
        if start.text == "$":
            self._advance()
            return PatternNode(this="end")
        if self._match(TokenType.L_PAREN):
            made = self._parse_choice()
            self._match_r_paren()
            return PatternNode(this="sequence", expressions=[made])
        if self._match_pair(TokenType.L_BRACE, TokenType.DASH):
            made = self._parse_choice()
            if not self._match_pair(TokenType.DASH, TokenType.R_BRACE):
                self.raise_error("Expected -}")
            return PatternNode(this="exclude", expressions=[made])
        name = self._parse_id_var(any_token=False)
        if not name:
            raise MalformedSQL(
                f"{start.text} is not read in a pattern", hint=_SEQUENCE,
                span=Span(self.sql, start.start, start.end),
            )  # fmt: skip
        is_called = self._curr and self._curr.token_type == TokenType.L_PAREN
        if is_called and start.text.upper() == "PERMUTE":
            self._match_l_paren()
            parts = self._parse_csv(self._parse_choice)
            self._match_r_paren()
            return PatternNode(this="permute", expressions=parts)
        return PatternNode(this="variable", variable=name)

    def _parse_quantifier(self) -> tuple[int, int | None]:
        start = self._curr
        if self._match(TokenType.STAR):
            return 0, None
        if self._match(TokenType.PLUS):
            return 1, None
        if self._match(TokenType.PLACEHOLDER):
            return 0, 1
        if self._curr and self._curr.token_type == TokenType.DQMARK:  # a reluctant question mark
            self._curr.token_type = TokenType.PLACEHOLDER
            return 0, 1
        is_dash = self._next is not None and self._next.token_type == TokenType.DASH
        if is_dash or not self._match(TokenType.L_BRACE):
            return 1, 1
        low = self._parse_times()
        high = self._parse_times() if self._match(TokenType.COMMA) else low
        self._match(TokenType.R_BRACE)
        is_range = low is not None or high is not None
        if not is_range or high == 0 or (high is not None and high < (low or 0)):
            raise MalformedSQL(
                "a quantifier counts from a number to a larger one", hint="b{2,3} or b{2,}",
                span=Span(self.sql, start.start, self._prev.end),
            )  # fmt: skip
        if max(low or 0, high or 0) > _MANY:
            raise UnsupportedQuery(
                f"a quantifier counts to {_MANY:,} at most", hint="b{2,}",
                span=Span(self.sql, start.start, self._prev.end),
            )  # fmt: skip
        return low or 0, high

    def _parse_times(self) -> int | None:
        if self._curr and self._curr.token_type == TokenType.NUMBER and self._curr.text.isdigit():
            self._advance()
            return int(self._prev.text)
        return None

    def _parse_definition(self) -> exp.Expr | None:
        start = self._curr
        name = self._parse_id_var(any_token=True)
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        made = exp.Alias(this=self._parse_disjunction(), alias=name)
        return self._placed(made, start)  # type: ignore[no-any-return]


def as_sequence(pattern: PatternNode) -> PatternSuffix | None:
    """A pattern that is a sequence of different variables, some with a plus; None for others."""
    steps = pattern.expressions if pattern.args["this"] == "sequence" else [pattern]
    made = []
    for step in steps:
        inner = step
        is_repeat = step.args["this"] == "repeat"
        if is_repeat:
            if (step.args["low"], step.args["high"]) != (1, None) or step.args["reluctant"]:
                return None
            (inner,) = step.expressions
        if inner.args["this"] != "variable":
            return None
        variable = PatternVariable(this=inner.args["variable"].copy(), plus=is_repeat)
        variable.meta.update(step.meta)
        made.append(variable)
    if not made or len({each.name.lower() for each in made}) < len(made):
        return None
    found = PatternSuffix(expressions=made)
    found.meta.update(pattern.meta)
    return found
