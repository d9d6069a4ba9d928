"""Random sessions over patterns: several over one stream, under retention, lateness, late rows,
deletes, ticks, deferred views, views that come and go, checkpoints, kills.

What is shown equals a matcher that tries everything, over all rows that were admitted since the
view was created: a run may have begun in a part that retention has ended, and a match stays.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.strategies.temporal_view.brute_force import Row, Variable, earliest
from tests.strategies.temporal_view.streams import START, moment, stamped

import viewmill as vm

Test = Callable[[Row, Row | None], bool]
MEASURES = "count(*) AS n, sum(x) AS s, min(x) AS lo, max(x) AS hi, first(x) AS f, last(x) AS l"
OFFSETS = "LAST(x, 1) AS p, FIRST(x, 2) AS q, COUNT({v}.*) AS k, LAST({v}.x, 1) AS o"
POLICIES = ("IMMEDIATE", "ON DEMAND", "EVERY 7 ROWS")
SEEDS = [
    pytest.param(seed, id=str(seed), marks=() if seed < 3 else pytest.mark.slow)
    for seed in range(60)
]


def above(value: int) -> Test:
    return lambda row, before: row[2] is not None and row[2] > value


def _has_both(row: Row, before: Row | None) -> bool:
    return before is not None and before[2] is not None and row[2] is not None


def is_more(row: Row, before: Row | None) -> bool:
    return _has_both(row, before) and row[2] > before[2]  # type: ignore[index]


def is_not_less(row: Row, before: Row | None) -> bool:
    return _has_both(row, before) and row[2] >= before[2]  # type: ignore[index]


def in_order(rows: list[Row]) -> list[Row]:
    """By time; of one moment by their values, NULL first."""
    return sorted(rows, key=lambda row: (row[0], row[1], row[2] is not None, row[2] or 0))


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
        define = f"DEFINE {shown}" if shown else ""
        return f"PATTERN ({' '.join(self.names)}) {define}"


def some_pattern(chance: random.Random, *, is_match: bool = False) -> Pattern:
    names, where, variables = [], [], []
    for i in range(chance.randint(1, 4)):
        name, plus = "abcd"[i], chance.random() < 0.45
        always: list[Test] = []
        at_first: list[Test] = []
        if chance.random() < 0.6:
            value = chance.randint(-1, 2)
            where.append(f"{name}.x > {value}")
            always.append(above(value))
        if chance.random() < 0.3:
            where.append(f"{name}.x >= PREV({name}.x)")
            always.append(is_not_less)
        if i and not (is_match and plus) and chance.random() < 0.4:
            where.append(f"{name}.x > {'abcd'[i - 1]}.x")
            at_first.append(is_more)
        names.append(name + "+" * plus)
        variables.append(Variable(all_of(always, at_first), plus))
    return Pattern(names, where, variables)


def all_of(always: list[Test], at_first: list[Test]) -> Callable[[Row, Row | None, bool], bool]:
    def test(row: Row, before: Row | None, is_first: bool) -> bool:
        return all(each(row, before) for each in always + at_first * is_first)

    return test


def greedy(rows: list[Row], variables: list[Variable]) -> list[list[list[Row]]]:
    """Leftmost, greedy, past the last row; of each match the rows of each variable."""

    def deal(at: int, i: int, is_first: bool) -> list[int] | None:
        """To which variable rows go from here on."""
        before = rows[at - 1] if at else None
        if at == len(rows) or not variables[i].test(rows[at], before, is_first):
            return None
        found = deal(at + 1, i, False) if variables[i].plus else None
        if found is None and i + 1 < len(variables):
            found = deal(at + 1, i + 1, True)
        if found is None and i + 1 == len(variables):
            found = []
        return None if found is None else [i, *found]

    found, start = [], 0
    while start < len(rows):
        dealt = deal(start, 0, True)
        if dealt is None:
            start += 1
            continue
        own: list[list[Row]] = [[] for _ in variables]
        for row, i in zip(rows[start:], dealt, strict=False):
            own[i].append(row)
        found.append(own)
        start += len(dealt)
    return found


def shown(match: list[Row], is_grouped: bool = True) -> Row:
    """What MEASURES are of the rows of a match."""
    xs = [row[2] for row in match]
    there = [x for x in xs if x is not None]
    values = (sum(there), min(there), max(there)) if there else (None, None, None)
    return (*match[0][1:2][: int(is_grouped)], len(xs), *values, xs[0], xs[-1])


def with_offsets(match: list[list[Row]], last: int, is_grouped: bool) -> Row:
    """The same and OFFSETS."""
    xs = [row[2] for rows in match for row in rows]
    own = [row[2] for row in match[last]]
    more = (xs[-2] if len(xs) > 1 else None, xs[2] if len(xs) > 2 else None, len(own),
            own[-2] if len(own) > 1 else None)  # fmt: skip
    return (*shown([row for rows in match for row in rows], is_grouped), *more)


@dataclass
class View:
    """A view, and the part from which on it sees rows."""

    pattern: Pattern
    is_match: bool
    is_grouped: bool
    since: int | None
    measured: int  # a variable
    policy: str = "IMMEDIATE"

    def sql(self, name: str) -> str:
        keyword = "MATERIALIZED VIEW" if self.policy != "IMMEDIATE" else "VIEW"
        refresh = f"REFRESH {self.policy}" if self.policy != "IMMEDIATE" else ""
        head = f"CREATE {keyword} {name} {refresh} AS SELECT"
        if not self.is_match:
            keys, group = ("g, ", "GROUP BY g") if self.is_grouped else ("", "")
            return f"{head} {keys}{MEASURES} FROM m {self.pattern.sql} {group}"
        by = "PARTITION BY g" * self.is_grouped
        measures = f"{MEASURES}, {OFFSETS.format(v='abcd'[self.measured])}"
        return (
            f"{head} * FROM m MATCH_RECOGNIZE ({by} ORDER BY ts MEASURES {measures} "
            f"{self.pattern.define})"
        )


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
                self.reach(self.part(row))

    def reach(self, part: int) -> None:
        self.newest = part if self.newest is None else max(part, self.newest)

    def is_shown(self, part: int) -> bool:
        oldest = self.oldest()
        return oldest is None or part >= oldest

    def groups(self, view: View) -> list[list[Row]]:
        """The rows that a view has seen, by group, in order."""
        seen = [r for r in self.rows if view.since is None or self.part(r) >= view.since]
        keys = {row[1] for row in seen} if view.is_grouped else {None}
        own = [[r for r in seen if r[1] == key or not view.is_grouped] for key in keys]
        return [in_order(each) for each in own]

    def history(self, view: View) -> Counter[Row]:
        """The rows of the parts of a PATTERN view that are shown."""
        found = Counter[Row]()
        for rows in self.groups(view):
            for part in {self.part(row) for row in rows}:
                end = max(i for i, row in enumerate(rows) if self.part(row) == part)
                start = earliest(rows, end, view.pattern.variables)
                if self.is_shown(part) and start is not None:
                    match = shown(rows[start : end + 1], view.is_grouped)
                    found[moment(part * self.length), *match] += 1
        return found

    def matches(self, view: View) -> Counter[Row]:
        """The rows of a MATCH_RECOGNIZE view."""
        return Counter(
            with_offsets(match, view.measured, view.is_grouped)
            for rows in self.groups(view)
            for match in greedy(rows, view.pattern.variables)
        )


def kill(mill: vm.Mill, path: Path) -> vm.Mill:
    """As if the process had been killed just now."""
    left = path.with_suffix(".left")
    shutil.copytree(path, left, ignore=shutil.ignore_patterns("LOCK"))
    mill.close()
    shutil.rmtree(path)
    left.rename(path)
    return vm.connect(path)


class Session:
    """A mill and its model, under random steps."""

    def __init__(self, seed: int, path: Path) -> None:
        self.chance = random.Random(seed)
        self.path, self.model = path, Model(self.chance)
        self.views: dict[str, View] = {}
        self.now, self.refused, self.made = START, 0, 0
        self.mill = vm.connect(path)
        self.mill.sql(f"CREATE TABLE m (ts TIMESTAMP, g STRING, x BIGINT) {self.model.options}")
        for _ in range(self.chance.randint(1, 4)):
            self.create()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            kind = self.chance.choices(
                (self.batch, self.create, self.drop, self.tick, self.alter, self.fail,
                 self.mill.checkpoint, self.kill, self.verify),
                (60, 3, 3, 8, 4, 4, 6, 5, 7),
            )[0]  # fmt: skip
            kind()
            self.compare()

    # Steps.

    def batch(self) -> None:
        chance, model = self.chance, self.model
        self.now += chance.choice([0, 1, 1, 1, 2, 5]) * model.length
        new: list[Any] = []
        for _ in range(chance.randint(0, 5)):
            back = chance.randint(0, 10) * (chance.random() < 0.3)
            second = self.now - back * model.length + chance.randrange(model.length)
            x = None if chance.random() < 0.07 else chance.randint(-2, 3)
            new.append((second, chance.choice("abc"), x))
        horizon = model.horizon()
        old = [row for row in model.rows if horizon is None or model.part(row) >= horizon]
        gone = chance.sample(old, min(len(old), 2)) if chance.random() < 0.3 else []
        with self.mill.batch():
            self.mill.insert("m", stamped(new))
            self.mill.delete("m", stamped(gone))
        self.refused += sum(horizon is not None and model.part(row) < horizon for row in new)
        model.change(new, gone)

    def create(self) -> None:
        chance = self.chance
        is_match = chance.random() < 0.5
        pattern = some_pattern(chance, is_match=is_match)
        measured = chance.randrange(len(pattern.variables))
        policy = chance.choice(POLICIES) if chance.random() < 0.3 else "IMMEDIATE"
        view = View(pattern, is_match, chance.random() < 0.8, self.model.oldest(), measured, policy)
        self.made += 1
        name = f"V{self.made}"
        self.mill.sql(view.sql(name))
        if chance.random() < 0.3:  # one that is told what retention ends
            self.mill.sql(f"CREATE MATERIALIZED VIEW s{self.made} AS SELECT g, sum(x) FROM m "
                          "GROUP BY g")  # fmt: skip
        self.views[name] = view

    def drop(self) -> None:
        if len(self.views) > 1:
            name = self.chance.choice(list(self.views))
            del self.views[name]
            self.mill.sql(f"DROP MATERIALIZED VIEW {name}")

    def tick(self) -> None:
        self.now += self.chance.choice([0, 1, 3, 8]) * self.model.length
        newest = self.model.newest
        part = self.now // self.model.length
        if newest is None or part > newest:
            self.mill.advance("m", to=moment(part * self.model.length + self.model.length // 2))
            self.model.reach(part)

    def alter(self) -> None:
        name = self.chance.choice(list(self.views))
        view = self.views[name]
        view.policy = self.chance.choice(POLICIES)
        self.mill.sql(f"ALTER MATERIALIZED VIEW {name} REFRESH {view.policy}")

    def fail(self) -> None:
        """A batch that is refused changes nothing."""
        with pytest.raises(vm.MissingRow):
            self._refused_batch()

    def _refused_batch(self) -> None:
        with self.mill.batch():
            self.mill.insert("m", stamped([(self.now + self.model.length, "a", 1)]))
            self.mill.delete("m", stamped([(self.now, "nobody", 9)]))

    def kill(self) -> None:
        self.mill = kill(self.mill, self.path)
        self.refused = 0  # the list of them is not kept

    def verify(self) -> None:
        for name in self.views:
            assert self.mill[name].verify() == [], (
                name,
                self.views[name].sql(name),
                self.mill[name].verify(),
            )

    # What is seen.

    def compare(self) -> None:
        for name, view in self.views.items():
            if self.mill[name].status()["freshness"] != "fresh":
                if self.chance.random() < 0.7:
                    continue
                self.mill[name].refresh()
            if view.is_match:
                found, wanted = self.mill[name].rows(), self.model.matches(view)
            else:
                found = self.mill.sql(f"SELECT PART_TIMESTAMP, * FROM {name}").rows()
                wanted = self.model.history(view)
            assert Counter(found) == wanted, view.sql(name)
            assert self.mill[name].status()["engine_calls"] == 0
        assert len(self.mill.refused("m")) == self.refused


@pytest.mark.parametrize("seed", SEEDS)
def test_random_patterns_equal_a_matcher_that_tries_everything(seed, tmp_path, uncompiled):
    session = Session(seed, tmp_path / "random.mill")
    session.run(10)
    for name in session.views:
        session.mill[name].refresh()
    session.verify()
    session.mill.close()
