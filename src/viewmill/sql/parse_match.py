"""Read row patterns: PATTERN [a, b+] behind a table, and MATCH_RECOGNIZE (...).

takes  tokens
gives  PatternSuffix; exp.MatchRecognize whose `pattern` is a PatternSuffix, too
next   sql.lower_pattern, sql.lower_match

A pattern is a sequence of variables, some with a plus. Whatever else the SQL standard knows is
refused where it stands: a part of a pattern that is skipped would give other matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from viewmill.errors import MalformedSQL, Span, UnsupportedQuery

_SEQUENCE = "A pattern is a sequence of variables, some with a plus: PATTERN (a b+ c)."
_ALTERNATIVES = "Write a view for each alternative, and UNION ALL over them."
_NOT_READ: dict[TokenType, tuple[str, str]] = {
    TokenType.STAR: ("the quantifier * is not supported", "Write b+, or leave b out."),
    TokenType.PLACEHOLDER: ("the quantifier ? is not supported", "Write b, or leave b out."),
    TokenType.L_BRACE: ("{ } is not supported in a pattern", "Name every row: PATTERN (a b c)."),
    TokenType.PIPE: ("| is not supported in a pattern", _ALTERNATIVES),
    TokenType.DPIPE: ("| is not supported in a pattern", _ALTERNATIVES),
    TokenType.CARET: ("^ is not supported in a pattern", "A match may start at any row."),
    TokenType.L_PAREN: ("a group is not supported in a pattern", _SEQUENCE),
    TokenType.PLUS: ("two quantifiers for one variable", _SEQUENCE),
    TokenType.DASH: ("an exclusion is not supported in a pattern", _SEQUENCE),
    TokenType.NUMBER: ("a number is not supported in a pattern", _SEQUENCE),
    TokenType.DOT: (". is not supported in a pattern", _SEQUENCE),
    TokenType.PARAMETER: ("$ is not supported in a pattern", "A match may end at any row."),
}
_VIEW_OVER_IT = "Join or aggregate in a view over this one."


class PatternVariable(exp.Expression):
    """One step of a pattern; with `plus` one or more rows."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "plus": True}


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
        """Say which construct of row patterns the next token begins, if it begins one."""
        found = _NOT_READ.get(self._curr.token_type) if self._curr else None
        if self._curr and self._curr.text == "$":
            found = _NOT_READ[TokenType.PARAMETER]
        if self._curr and self._curr.text == "?":
            found = _NOT_READ[TokenType.PLACEHOLDER]
        if found is not None:
            raise self._unsupported(*found, self._curr)

    def _unsupported(self, message: str, hint: str, start: Token) -> UnsupportedQuery:
        end = max(start.end, self._prev.end if self._prev else 0)
        return UnsupportedQuery(message, hint=hint, span=Span(self.sql, start.start, end))

    # MATCH_RECOGNIZE.

    def _parse_match_recognize(self) -> exp.MatchRecognize | None:
        start = self._curr
        if not self._match(TokenType.MATCH_RECOGNIZE):
            return None
        self._match_l_paren()
        partition, order = self._parse_partition_by(), self._parse_order()
        has_measures = self._match_text_seq("MEASURES")
        measures = self._parse_csv(self._parse_match_recognize_measure) if has_measures else []
        self._parse_rows_per_match()
        self._parse_after_match()
        pattern = self._parse_row_pattern(start)
        self._parse_behind_pattern()
        has_define = self._match_text_seq("DEFINE")
        define = self._parse_csv(self._parse_definition) if has_define else []
        self._match_r_paren()
        end = self._prev
        node = self.expression(
            exp.MatchRecognize(
                partition_by=partition, order=order, measures=measures, pattern=pattern,
                define=define, alias=self._parse_table_alias(),
            )
        )  # fmt: skip
        node.meta.update(start=start.start, end=end.end)
        return node

    def _parse_rows_per_match(self) -> None:
        start = self._curr
        if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            return
        if self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            for words in ("SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES", "WITH UNMATCHED ROWS"):
                self._match_text_seq(*words.split())
            raise self._unsupported(
                "only ONE ROW PER MATCH is supported",
                "Show what is wanted of the rows as measures: FIRST(b.x), LAST(b.x), SUM(b.x).",
                start,
            )

    def _parse_after_match(self) -> None:
        start = self._curr
        if not self._match_text_seq("AFTER", "MATCH", "SKIP"):
            return
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return
        while self._curr and self._curr.text.upper() != "PATTERN":
            self._advance()
        raise self._unsupported(
            "only AFTER MATCH SKIP PAST LAST ROW is supported",
            "Matches do not overlap here; PATTERN [a, b+] finds a match at every last row.",
            start,
        )

    def _parse_row_pattern(self, match: Token) -> PatternSuffix:
        if self._curr and self._curr.text.upper() in ("INITIAL", "SEEK"):
            raise self._unsupported(
                f"{self._curr.text.upper()} is not supported", "Leave it out.", self._curr
            )
        start = self._curr
        if not self._match_text_seq("PATTERN"):
            raise MalformedSQL(
                "MATCH_RECOGNIZE has no PATTERN", hint=_SEQUENCE,
                span=Span(self.sql, match.start, (self._curr or self._prev).end),
            )  # fmt: skip
        self._match_l_paren()
        variables = []
        while not self._match(TokenType.R_PAREN):
            variables.append(self._parse_step())
        if not variables:
            raise MalformedSQL(
                "PATTERN names no variable", hint=_SEQUENCE,
                span=Span(self.sql, start.start, self._prev.end),
            )  # fmt: skip
        made: PatternSuffix = self._placed(PatternSuffix(expressions=variables), start)
        return made

    def _parse_step(self) -> PatternVariable:
        start = self._curr
        self._refuse_construct()
        name = self._parse_id_var(any_token=False)
        if not name:
            self.raise_error("Expected the name of a pattern variable")
        is_called = self._curr and self._curr.token_type == TokenType.L_PAREN
        if is_called and start.text.upper() == "PERMUTE":
            raise self._unsupported("PERMUTE is not supported", _ALTERNATIVES, start)
        has_plus = bool(self._match(TokenType.PLUS))
        if self._curr and has_plus and self._curr.text == "?":
            raise self._unsupported(
                "a reluctant quantifier is not supported", "b+ takes as many rows as it can.", start
            )
        return self._placed(PatternVariable(this=name, plus=has_plus), start)  # type: ignore[no-any-return]

    def _parse_behind_pattern(self) -> None:
        for word, hint in (
            ("WITHIN", "Compare times in DEFINE, or in WHERE behind MATCH_RECOGNIZE."),
            ("SUBSET", "A measure is of one variable, or of all rows."),
        ):
            if self._curr and self._curr.text.upper() == word:
                raise self._unsupported(f"{word} is not supported", hint, self._curr)

    def _parse_definition(self) -> exp.Expr | None:
        start = self._curr
        name = self._parse_id_var(any_token=True)
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS")
        made = exp.Alias(this=self._parse_disjunction(), alias=name)
        return self._placed(made, start)  # type: ignore[no-any-return]
