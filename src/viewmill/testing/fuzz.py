"""Draw schemas, queries, rows and deletes for as long as asked, and compare with DuckDB.

    python -m viewmill.testing.fuzz --minutes 10 [--seed 7] [--compiled]

Every round has a seed that is printed. What fails is made small, printed as a golden script, and
ends the run; the same seed finds it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, TextIO

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.testing.generate import Batch, Table, batches, declare, feed, feed_oracle, tables
from viewmill.testing.generate_queries import Query, views, wide_views
from viewmill.testing.generate_relations import chains, queries
from viewmill.testing.oracle import Oracle, Refused, differences

_REFUSALS = (vm.errors.Overflow, vm.errors.EvaluationFailed)


class Case:
    """A drawn case: tables, queries, batches; the last one that failed is kept for the report."""

    failed: Case | None = None

    def __init__(
        self, over: Sequence[Table], shown: Sequence[Query], fed: Sequence[Batch], *,
        restarts: bool = False,
    ) -> None:  # fmt: skip
        self.over, self.shown, self.fed = over, shown, fed
        self.restarts = restarts
        self.why = ""

    def check(self) -> None:
        """Every view equals DuckDB after every batch."""
        try:
            self._run()
        except (AssertionError, Exception) as why:
            self.why = f"{type(why).__name__}: {why}"
            Case.failed = self
            raise

    def _run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fuzz.mill") if self.restarts else None
            oracle = Oracle()
            declare(oracle, self.over)
            # Half of the batches come before the views: states are loaded as well as maintained.
            early = len(self.fed) // 2
            with vm.connect(path) as mill:
                is_right = self._begin(mill, oracle, self.fed[:early])
                if is_right and not self.restarts:
                    self._go_on(mill, oracle, self.fed[early:])
            if is_right and self.restarts:
                for batch in self.fed[early:]:
                    with vm.connect(path) as mill:
                        if not self._go_on(mill, oracle, [batch]):
                            break
            oracle.close()

    def _begin(self, mill: Any, oracle: Oracle, early: Sequence[Batch]) -> bool:
        for table in self.over:
            mill.sql(table.sql)
        for batch in early:
            feed(mill, batch)
            feed_oracle(oracle, batch)
        for i, query in enumerate(self.shown):
            if not self._create(mill, f"v{i}", query, oracle):
                return False
        self._compare(mill, oracle)
        return True

    def _go_on(self, mill: Any, oracle: Oracle, late: Sequence[Batch]) -> bool:
        for batch in late:
            if not self._feed(mill, oracle, batch):
                return False
            self._compare(mill, oracle)
        return True

    def _create(self, mill: Any, name: str, query: Query, oracle: Oracle) -> bool:
        try:
            mill.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.spark}")
        except _REFUSALS:
            assert not _is_answered(oracle, query), f"{name} was refused, DuckDB has an answer"
            return False
        return True

    def _feed(self, mill: Any, oracle: Oracle, batch: Batch) -> bool:
        try:
            feed(mill, batch)
        except _REFUSALS as why:
            feed_oracle(oracle, batch)
            answered = all(_is_answered(oracle, query) for query in self.shown)
            if oracle.is_settled and answered:
                raise AssertionError(f"refused: {why}") from why
            return False
        feed_oracle(oracle, batch)
        return True

    def _compare(self, mill: Any, oracle: Oracle) -> None:
        if not oracle.is_settled:
            return
        for i, query in enumerate(self.shown):
            view = mill[f"v{i}"]
            found = differences(oracle.ask(query.duckdb), view.rows())
            assert found == [], f"v{i} differs from DuckDB: {found}"
            assert view.verify() == [], f"v{i} differs from recompute: {view.verify()}"

    def script(self) -> str:
        """The case as a golden script."""
        lines = [f"# {self.why.splitlines()[0]}", "", *(table.sql for table in self.over)]
        lines += [f"view v{i}: {query.spark}" for i, query in enumerate(self.shown)]
        for batch in self.fed:
            changes = [_change(change) for change in batch if change.rows]
            if changes:
                lines += ["", f"batch {'; '.join(changes)}" if len(changes) > 1 else changes[0]]
        return "\n".join(lines)


def _change(change: Any) -> str:
    sign = {"insert": "+", "delete": "-", "upsert": "~"}.get(change.kind, "+")
    if change.kind != "apply":
        return f"{change.table} {sign} {' '.join(map(_row, change.rows))}"
    parts = []
    for word, wanted in (("+", 1), ("-", -1)):
        rows = [
            _row(row)
            for row, m in zip(change.rows, change.times, strict=True)
            for _ in range(max(m * wanted, 0))
        ]
        parts += [f"{change.table} {word} {' '.join(rows)}"] if rows else []
    return "; ".join(parts)


def _row(row: Sequence[Any]) -> str:
    return f"({', '.join('NULL' if value is None else repr(value) for value in row)},)"


def _is_answered(oracle: Oracle, query: Query) -> bool:
    try:
        oracle.ask(query.duckdb)
    except Refused:
        return False
    return True


@st.composite
def cases(draw: Any) -> Case:
    """A case of any kind."""
    kind = draw(st.sampled_from(["one", "two", "deep", "deep", "deep", "chain", "many"]))
    restarts = draw(st.integers(0, 7)) == 7
    if kind == "one":
        table = draw(tables())
        return Case([table], [draw(views(table))], draw(batches([table])), restarts=restarts)
    over = [draw(tables("t")), draw(tables("u"))]
    if kind == "two":
        shown = [draw(wide_views(*over))]
        return Case(over, shown, draw(batches(over)), restarts=restarts)
    fed = draw(batches(over, tame=True))
    if kind == "chain":
        return Case(over, draw(chains(over)), fed, restarts=restarts)
    count = 3 if kind == "many" else 1
    shown = [draw(queries(over, depth=3 if count == 1 else 2)) for _ in range(count)]
    return Case(over, shown, fed, restarts=restarts)


def run_round(number: int, examples: int) -> None:
    """One round: so many cases, drawn from a seed; raises what fails, made small."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @given(case=cases())
    def every_case_agrees(case: Case) -> None:
        case.check()

    every_case_agrees()


def _say(text: str, stream: TextIO) -> None:
    stream.write(text + "\n")
    stream.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="viewmill.testing.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="where to begin")
    parser.add_argument("--examples", type=int, default=None, help="cases in a round")
    parser.add_argument("--compiled", action="store_true", help="with Numba")
    args = parser.parse_args(arguments)
    os.environ["VIEWMILL_COMPILER"] = "on" if args.compiled else "off"
    # The clock is looked at between rounds, and compiling a case takes seconds.
    examples = args.examples or (5 if args.compiled else 50)
    number = args.seed if args.seed is not None else int(time.time()) % 1_000_000
    until = time.monotonic() + 60 * args.minutes
    rounds = 0
    while time.monotonic() < until:
        _say(f"seed {number}", sys.stderr)
        try:
            run_round(number, examples)
        except Exception:
            _say(f"seed {number} found a difference; the smallest case:\n", sys.stdout)
            _say(Case.failed.script() if Case.failed else "", sys.stdout)
            raise
        number, rounds = number + 1, rounds + 1
    _say(f"{rounds} rounds of {examples} cases, nothing found", sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
