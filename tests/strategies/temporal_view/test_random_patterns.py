"""Random patterns, several over one stream, under retention, lateness, late rows, deletes, kills.

What is shown equals a matcher that tries everything, over all rows that were ever admitted: a run
may have begun in a part that retention has ended. MATCH_RECOGNIZE is over the rows that are shown.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.strategies.temporal_view.brute_force import Row, Variable, pattern_part
from tests.strategies.temporal_view.streams import START, moment, stamped

import viewmill as vm

Test = Callable[[Row, Row | None], bool]
MEASURES = "count(*) AS n, sum(x) AS s, min(x) AS lo, max(x) AS hi, first(x) AS f, last(x) AS l"
SEEDS = [
    pytest.param(seed, id=str(seed), marks=() if seed < 3 else pytest.mark.slow)
    for seed in range(60)
]


def above(value: int) -> Test:
    return lambda row, before: row[2] > value


def is_more(row: Row, before: Row | None) -> bool:
    return before is not None and row[2] > before[2]


def is_not_less(row: Row, before: Row | None) -> bool:
    return before is not None and row[2] >= before[2]


@dataclass
class Pattern:
    """A pattern as SQL, and as variables of the matcher."""

    names: list[str]
    where: list[str]
    variables: list[Variable]

    @property
    def sql(self) -> str:
        where = f"WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"PATTERN [{', '.join(self.names)}] {where}"

    @property
    def define(self) -> str:
        parts: dict[str, list[str]] = {}
        for each in self.where:
            parts.setdefault(each[0], []).append(each)
        shown = ", ".join(f"{name} AS {' AND '.join(each)}" for name, each in parts.items())
        return f"PATTERN ({' '.join(self.names)}) DEFINE {shown}"


def some_pattern(chance: random.Random, *, is_match: bool = False) -> Pattern:
    names, where, variables = [], [], []
    for i in range(chance.randint(1, 4)):
        name, plus = "abcd"[i], chance.random() < 0.45
        always: list[Test] = []
        at_first: list[Test] = []
        if chance.random() < 0.6 or (is_match and not i):
            value = chance.randint(-1, 2)
            where.append(f"{name}.x > {value}")
            always.append(above(value))
        if chance.random() < 0.3:
            where.append(f"{name}.x >= PREV({name}.x)")
            always.append(is_not_less)
        if i and not is_match and chance.random() < 0.4:
            where.append(f"{name}.x > {'abcd'[i - 1]}.x")
            at_first.append(is_more)
        names.append(name + "+" * plus)
        variables.append(Variable(all_of(always, at_first), plus))
    return Pattern(names, where, variables)


def all_of(always: list[Test], at_first: list[Test]) -> Callable[[Row, Row | None, bool], bool]:
    def test(row: Row, before: Row | None, is_first: bool) -> bool:
        return all(each(row, before) for each in always + at_first * is_first)

    return test


def greedy(rows: list[Row], variables: list[Variable]) -> list[list[Row]]:
    """Leftmost, greedy, past the last row."""

    def end(at: int, i: int, is_first: bool) -> int | None:
        before = rows[at - 1] if at else None
        if at == len(rows) or not variables[i].test(rows[at], before, is_first):
            return None
        found = end(at + 1, i, False) if variables[i].plus else None
        if found is None and i + 1 < len(variables):
            found = end(at + 1, i + 1, True)
        return at + 1 if found is None and i + 1 == len(variables) else found

    found, start = [], 0
    while start < len(rows):
        stop = end(start, 0, True)
        if stop is not None:
            found.append(rows[start:stop])
        start = start + 1 if stop is None else stop
    return found


def shown(match: list[Row]) -> Row:
    xs = [row[2] for row in match]
    return (match[0][1], len(xs), sum(xs), min(xs), max(xs), xs[0], xs[-1])


class Model:
    """The rows of a table in parts, and what retention and lateness leave of them."""

    def __init__(self, chance: random.Random) -> None:
        self.length = chance.choice([60, 45, 3600, 7])
        self.kept = chance.choice([None, None, chance.randint(2, 12)])
        self.late = chance.choice([None, chance.randint(1, 8)])
        self.rows: list[Row] = []
        self.newest: int | None = None

    @property
    def options(self) -> str:
        words = f"TIMESTAMP BY ts PARTITION LENGTH {self.length}"
        if self.kept is not None:
            words += f" RETENTION INTERVAL '{self.kept * self.length}' SECONDS"
        if self.late is not None:
            words += f" LATENESS INTERVAL '{self.late * self.length}' SECONDS"
        return words

    def part(self, row: Row) -> int:
        return int(row[0]) // self.length

    def horizon(self) -> int | None:
        newest = self.newest
        if newest is None:
            return None
        found = [] if self.late is None else [newest - self.late]
        found += [] if self.kept is None else [newest + 1 - self.kept]
        return max(found, default=None)

    def oldest(self) -> int | None:
        if self.kept is None or self.newest is None:
            return None
        return self.newest + 1 - self.kept

    def change(self, new: list[Row], gone: list[Row]) -> None:
        horizon = self.horizon()
        for row in gone:
            self.rows.remove(row)
        for row in new:
            if horizon is None or self.part(row) >= horizon:
                self.rows.append(row)
                part = self.part(row)
                self.newest = part if self.newest is None else max(part, self.newest)

    def is_shown(self, part: int) -> bool:
        oldest = self.oldest()
        return oldest is None or part >= oldest

    def history(self, pattern: Pattern) -> list[Row]:
        found = []
        for part in {self.part(row) for row in self.rows}:
            if self.is_shown(part):
                stamp = moment(part * self.length)
                matches = pattern_part(self.rows, part, self.length, pattern.variables)
                found += [(stamp, *shown(each)) for each in matches]
        return sorted(found)

    def matches(self, pattern: Pattern) -> list[Row]:
        found = []
        for group in {row[1] for row in self.rows}:
            own = [r for r in self.rows if r[1] == group and self.is_shown(self.part(r))]
            found += [shown(each) for each in greedy(sorted(own), pattern.variables)]
        return sorted(found)


def kill(mill: vm.Mill, path: Path) -> vm.Mill:
    """As if the process had been killed just now."""
    left = path.with_suffix(".left")
    shutil.copytree(path, left, ignore=shutil.ignore_patterns("LOCK"))
    mill.close()
    shutil.rmtree(path)
    left.rename(path)
    return vm.connect(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_patterns_equal_a_matcher_that_tries_everything(seed, tmp_path, uncompiled):
    chance = random.Random(seed)
    model, path = Model(chance), tmp_path / "random.mill"
    patterns = {f"v{i}": some_pattern(chance) for i in range(chance.randint(1, 3))}
    match = some_pattern(chance, is_match=True)
    mill = vm.connect(path)
    mill.sql(f"CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) {model.options}")
    for name, pattern in patterns.items():
        mill.sql(f"CREATE VIEW {name} AS SELECT g, {MEASURES} FROM m {pattern.sql} GROUP BY g")
    mill.sql(
        f"CREATE VIEW r AS SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY g ORDER BY ts "
        f"MEASURES {MEASURES} {match.define})"
    )
    now, refused = START, 0
    for _ in range(chance.randint(6, 20)):
        now += chance.choice([0, 1, 1, 1, 2, 5]) * model.length
        new: list[Any] = []
        for _ in range(chance.randint(0, 5)):
            back = chance.randint(0, 10) * (chance.random() < 0.3)
            second = now - back * model.length + chance.randrange(model.length)
            new.append((second, chance.choice("abc"), chance.randint(-2, 3)))
        horizon = model.horizon()
        old = [row for row in model.rows if horizon is None or model.part(row) >= horizon]
        gone = chance.sample(old, min(len(old), 2)) if chance.random() < 0.3 else []
        with mill.batch():
            mill.insert("m", stamped(new))
            mill.delete("m", stamped(gone))
        refused += sum(horizon is not None and model.part(row) < horizon for row in new)
        model.change(new, gone)
        if chance.random() < 0.2:
            mill.checkpoint()
        if chance.random() < 0.15:
            mill = kill(mill, path)
            refused = 0  # the list of them is not kept
        for name, pattern in patterns.items():
            history = mill.sql(f"SELECT PART_TIMESTAMP, * FROM {name}").rows()
            assert sorted(history) == model.history(pattern), pattern.sql
        assert sorted(mill["r"].rows()) == model.matches(match), match.define
        assert len(mill.refused("m")) == refused
    assert [mill[name].verify() for name in mill.views()] == [[]] * (len(patterns) + 1)
    mill.close()
