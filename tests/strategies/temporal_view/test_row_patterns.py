"""MATCH_RECOGNIZE with random patterns, conditions and measures: what the definition says."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.conftest import scaled
from tests.strategies.temporal_view.row_pattern_oracle import (
    Clause,
    Value,
    aggregate,
    classifier,
    compare,
    first,
    last,
)
from tests.strategies.temporal_view.streams import Row, Stream, moment, stamped

import viewmill as vm

TABLE = "CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH {n}"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT * FROM m MATCH_RECOGNIZE ("
X = 2


def number(value: int) -> Value:
    return lambda match, at: value


class Drawn:
    """A random clause, as SQL and for the matcher by definition."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.used: list[str] = []
        self.pattern, text = self._pattern(3)
        shown = self.random.choice(["one", "one", "all", "omit empty", "unmatched"])
        if shown == "unmatched" and "{-" in text:
            shown = "all"
        skip, skip_text, skip_to = "past", "", ""
        if self.random.random() < 0.4:
            skip, skip_text = "next", "AFTER MATCH SKIP TO NEXT ROW"
        self.subsets = {}
        if len(set(self.used)) > 1 and self.random.random() < 0.4:
            self.subsets["u"] = "".join(sorted(set(self.used))[:2])
        within = self.random.choice([None, None, 60, 200])
        define, define_text = {}, []
        for name in sorted(set(self.used)):
            if self.random.random() < 0.85:
                parts = [self._condition(name) for _ in range(self.random.choice([1, 1, 2]))]
                define[name] = self._all([value for _, value in parts])
                define_text.append(f"{name} AS " + " AND ".join(each for each, _ in parts))
        measures = [self._measure(shown == "one") for _ in range(self.random.randrange(1, 4))]
        self.clause = Clause(
            self.pattern, define, [(value, final) for _, value, final in measures], shown, skip,
            skip_to, self.subsets, within,
        )  # fmt: skip
        rows = {"one": "ONE ROW", "all": "ALL ROWS", "omit empty": "ALL ROWS",
                "unmatched": "ALL ROWS"}[shown]  # fmt: skip
        more = {"omit empty": "OMIT EMPTY MATCHES", "unmatched": "WITH UNMATCHED ROWS"}
        subset = "".join(f" SUBSET {name} = ({', '.join(of)})" for name, of in self.subsets.items())
        self.sql = (
            "PARTITION BY g ORDER BY ts MEASURES "
            + ", ".join(f"{text} AS m{i}" for i, (text, _, _) in enumerate(measures))
            + f" {rows} PER MATCH {more.get(shown, '')} {skip_text} PATTERN ({text})"
            + ("" if within is None else f" WITHIN INTERVAL '{within}' SECONDS")
            + subset
            + (f" DEFINE {', '.join(define_text)}" if define_text else "")
            + ")"
        )

    @staticmethod
    def _all(values: list[Value]) -> Value:
        return lambda match, at: all(value(match, at) is True for value in values)

    def _pattern(self, depth: int) -> tuple[Any, str]:
        choice = self.random.random()
        if depth == 0 or choice < 0.3:
            name = self.random.choice("abc")
            self.used.append(name)
            return ("var", name), name
        if choice < 0.6:
            parts = [self._pattern(depth - 1) for _ in range(self.random.randrange(2, 4))]
            return ("seq", *(p for p, _ in parts)), "(" + " ".join(t for _, t in parts) + ")"
        if choice < 0.72:
            parts = [self._pattern(depth - 1) for _ in range(2)]
            return ("alt", *(p for p, _ in parts)), "(" + " | ".join(t for _, t in parts) + ")"
        if choice < 0.76:
            parts = [self._pattern(depth - 1) for _ in range(2)]
            return ("perm", *(p for p, _ in parts)), f"PERMUTE({', '.join(t for _, t in parts)})"
        inner, text = self._pattern(depth - 1)
        if choice < 0.8:
            return ("hide", inner), f"{{- {text} -}}"
        if choice < 0.83:
            return ("seq", ("start",), inner), f"(^ {text})"
        if choice < 0.86:
            return ("seq", inner, ("end",)), f"({text} $)"
        low, high, sign = self.random.choice(
            [(0, None, "*"), (1, None, "+"), (0, 1, "?"), (1, 2, "{1,2}"), (2, None, "{2,}"),
             (2, 2, "{2}"), (0, 2, "{,2}")]
        )  # fmt: skip
        greedy = self.random.random() < 0.65 or sign == "{2}"
        return ("rep", inner, low, high, greedy), f"({text}){sign}{'' if greedy else '?'}"

    def _name(self) -> str:
        return self.random.choice([*sorted(set(self.used)), *self.subsets, ""])

    def _condition(self, own: str) -> tuple[str, Value]:
        sign = self.random.choice(["<", ">", "<=", "<>"])
        value, text = self.random.randrange(-1, 3), ""
        other = self._name()
        dot = f"{other}." if other else ""
        draws: list[tuple[str, Value]] = [
            (f"{own}.x {sign} {value}", compare(last(own, X), sign, number(value))),
            (f"x {sign} PREV(x)", compare(last("", X), sign, last("", X, shift=-1))),
            (f"{own}.x {sign} PREV({own}.x, 2)", compare(last(own, X), sign, last(own, X, 0, -2))),
            (f"NEXT(x) {sign} {own}.x", compare(last("", X, shift=1), sign, last(own, X))),
            (f"x {sign} LAST({dot}x)", compare(last("", X), sign, last(other, X))),
            (f"x {sign} FIRST({dot}x, 1)", compare(last("", X), sign, first(other, X, 1))),
            (f"x {sign} {dot}x + 1", compare(last("", X), sign, lambda m, at: (
                None if last(other, X)(m, at) is None else last(other, X)(m, at) + 1))),
            (f"COUNT({dot}x) < 3", compare(aggregate(other, X, len), "<", number(3))),
            (f"SUM({dot}x) {sign} {value}", compare(aggregate(other, X, sum), sign, number(value))),
            (f"PREV(LAST({dot}x, 1)) {sign} x",
             compare(last(other, X, 1, -1), sign, last("", X))),
            (f"CLASSIFIER({other}) <> 'a'", compare(classifier(other), "<>", lambda m, at: "a")),
            ("MATCH_NUMBER() < 3", lambda match, at: match.number < 3),
        ]  # fmt: skip
        local = self.random.random() < 0.6
        text, found = self.random.choice(draws[:4] if local else draws)
        return text, found

    def _measure(self, is_one: bool) -> tuple[str, Value, bool]:
        other = self._name()
        dot = f"{other}." if other else ""
        k = self.random.randrange(3)
        draws: list[tuple[str, Value]] = [
            (f"LAST({dot}x, {k})", last(other, X, k)),
            (f"FIRST({dot}x, {k})", first(other, X, k)),
            (f"SUM({dot}x)", aggregate(other, X, sum)),
            (f"MIN({dot}x)", aggregate(other, X, min)),
            (f"MAX({dot}x)", aggregate(other, X, max)),
            (f"COUNT({dot}*)", aggregate(other, 0, len)),
            (f"CLASSIFIER({other})", classifier(other)),
            (f"LAST(CLASSIFIER({other}), {k})", classifier(other, k)),
            (f"PREV({dot}x, 2)", last(other, X, 0, -2)),
            (f"NEXT(FIRST({dot}x), {k})", first(other, X, 0, k)),
        ]
        if self.random.random() < 0.2:
            return "MATCH_NUMBER()", lambda match, at: match.number, False
        text, value = self.random.choice(draws)
        final = self.random.random() < 0.3
        return ("FINAL " if final else "") + text, value, final


def expected(clause: Clause, rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for group in sorted({row[1] for row in rows}):
        found += clause.show(sorted(row for row in rows if row[1] == group))
    if clause.shown != "one":
        found = [(row[0], moment(row[1]), *row[2:]) for row in found]
    return sorted(found, key=repr)


def check(seed: int, changes: int = 14, verify: bool = False) -> None:
    drawn = Drawn(seed)
    mill = vm.connect()
    mill.sql(TABLE.format(n=random.Random(seed).choice([60, 600])))
    mill.sql(VIEW + drawn.sql)
    stream = Stream(seed, "ab")
    for change, rows in stream.changes(changes):
        getattr(mill, change)("m", stamped(rows))
        shown = sorted(mill["v"].rows(), key=repr)
        assert shown == expected(drawn.clause, stream.rows), (seed, drawn.sql)
    assert mill["v"].status()["engine_calls"] == 0
    if verify:
        assert mill["v"].verify() == [], (seed, drawn.sql)


@pytest.mark.parametrize("part", range(3))
def test_random_row_patterns_equal_the_matcher_by_definition(part, uncompiled):
    for seed in range(scaled(0.4)):
        check(1000 * part + seed)


@pytest.mark.slow
def test_thousands_of_row_patterns_equal_the_matcher_by_definition(uncompiled):
    for seed in range(10_000, 13_000):
        check(seed)


def match(mill: vm.Mill, inside: str, name: str = "v") -> None:
    mill.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM m MATCH_RECOGNIZE ({inside})")


def rises(xs: list[int]) -> list[Row]:
    return stamped([(60 * i, "ann", x) for i, x in enumerate(xs)])


@pytest.mark.parametrize(
    ("skip", "shown"),
    [
        ("PAST LAST ROW", [(1, 3), (2, 4)]),
        ("TO NEXT ROW", [(1, 3), (2, 3), (2, 4), (3, 4)]),
        ("TO FIRST b", [(1, 3), (2, 3), (2, 4), (3, 4)]),
        ("TO LAST b", [(1, 3), (2, 4)]),
        ("TO b", [(1, 3), (2, 4)]),
    ],
)
def test_matching_goes_on_where_skip_says(skip, shown, uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60))
        match(
            mill,
            f"ORDER BY ts MEASURES a.x AS f, LAST(b.x) AS l AFTER MATCH SKIP {skip} "
            "PATTERN (a b+) DEFINE b AS x > PREV(x)",
        )
        mill.insert("m", rises([1, 2, 3, 2, 3, 4]))
        assert sorted(mill["v"].rows()) == shown
        assert mill["v"].verify() == []


def test_skipping_to_a_row_that_is_not_there_refuses_the_batch(uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60))
        match(mill, "ORDER BY ts MEASURES a.x AS f AFTER MATCH SKIP TO b PATTERN (a b?) "
                    "DEFINE a AS x < 1, b AS x > 1")  # fmt: skip
        mill.insert("m", rises([0, 2]))
        with pytest.raises(vm.ViewmillError, match="SKIP TO"):
            mill.insert("m", stamped([(500, "ann", 0)]))
        assert mill["v"].rows() == [(0,)]
        assert mill.sql("SELECT count(*) FROM m").rows() == [(2,)]
        assert mill["v"].verify() == []


def test_rows_of_one_moment_come_in_the_order_of_order_by(uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60))
        inside = "MEASURES FIRST(x) AS f, LAST(x) AS l PATTERN (a+) "
        match(mill, f"ORDER BY ts, x DESC {inside}", "down")
        match(mill, f"ORDER BY ts, x {inside}", "up")
        mill.insert("m", stamped([(0, "ann", x) for x in (2, 3, 1)]))
        assert (mill["up"].rows(), mill["down"].rows()) == ([(1, 3)], [(3, 1)])
        assert mill["up"].verify() == mill["down"].verify() == []


ROWS = (
    "PARTITION BY g ORDER BY ts MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS c, "
    "PREV(FIRST(a.x)) AS p, FINAL SUM(x) AS s ALL ROWS PER MATCH WITH UNMATCHED ROWS "
    "PATTERN (a b+ c) DEFINE b AS x > PREV(x), c AS c.x < FIRST(b.x)"
)


def test_matches_stay_when_retention_ends_their_rows_also_after_a_restart(tmp_path, uncompiled):
    xs = [5, 1, 2, 3, 0, 4, 4, 1, 2, 0, 7, 8, 9, 1]
    with vm.connect() as mill:  # what it would be if no row ended
        mill.sql(TABLE.format(n=60))
        match(mill, ROWS)
        mill.insert("m", rises(xs))
        wanted = sorted(mill["v"].rows(), key=repr)
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(TABLE.format(n=60) + " RETENTION INTERVAL '3' MINUTES")
        match(mill, ROWS)
        for row in rises(xs[:8]):
            mill.insert("m", [row])
        assert mill.sql("SELECT count(*) FROM m").rows() == [(3,)]
        assert mill["v"].verify() == []
        mill.checkpoint()
    with vm.connect(tmp_path / "m.mill") as mill:
        for row in rises(xs)[8:]:
            mill.insert("m", [row])
        assert sorted(mill["v"].rows(), key=repr) == wanted
        assert mill["v"].verify() == []


def test_verify_finds_a_row_that_is_shown_wrongly(uncompiled):
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=60))
        match(mill, ROWS)
        mill.insert("m", rises([5, 1, 2, 3, 0]))
        assert mill["v"].verify() == []
        contents = mill.core.catalog.view("v").block.maintainer.contents()
        contents.columns[contents.schema.names.index("x")][0] += 10
        assert len(mill["v"].verify()) > 0


def test_a_late_row_costs_what_is_near_it(uncompiled):
    """Of rows that nothing has matched, some are kept to start from."""
    with vm.connect() as mill:
        mill.sql(TABLE.format(n=600))
        match(mill, "ORDER BY ts MEASURES a.x AS f PATTERN (a b?) DEFINE a AS x > 100")
        mill.insert("m", stamped([(10 * i, "ann", i % 90) for i in range(2000)]))
        maintainer: Any = mill.core.catalog.view("v").block.maintainer
        seen: list[int] = []
        given = maintainer.compute_steps

        def compute(rows: Any) -> Any:
            seen.append(rows.size)
            return given(rows)

        maintainer.compute_steps = compute
        mill.insert("m", stamped([(19_000, "ann", 101)]))
        assert mill["v"].rows() == [(101,)]
        assert sum(seen) < 300
