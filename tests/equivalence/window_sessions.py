"""Random sessions over windows and time parts, compared with plain Python lists.

A session creates, replaces and drops window views on two streams; inserts, deletes, ticks, late
rows, refused batches; changes policies; opens a durable mill again. After every step every view is
what brute force over the rows says it is: now, or, of a deferred view, when it was last refreshed.
What was told to a subscriber adds up to the view.

    python -m tests.equivalence.window_sessions --seed 1 --sessions 50 --steps 60
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.equivalence.window_oracle import (
    AGGREGATES,
    IN_ORDER,
    Rows,
    Shown,
    Stream,
    aggregated,
    moment,
)

import viewmill as vm

POLICIES = ["", "", "REFRESH ON DEMAND", "REFRESH EVERY 3 ROWS", "REFRESH EVERY 20 ROWS"]


class Session:
    """One mill and its oracle."""

    def __init__(self, seed: int, *, durable: bool = False) -> None:
        self.chance = chance = random.Random(seed)
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp()) if durable else None
        self.memory = chance.choice([None, None, None, "1 MB", "20 KB"])
        self.mill = self._open()
        self.now = chance.choice([-100, 0, 1_700_000_000 // 60 * 60])
        self.streams: dict[str, Stream] = {}
        self.views: dict[str, Shown] = {}
        self.log: list[str] = []
        self.number = 0
        for name in chance.sample(["s", "Bids", "Other_Stream", "T2"], 2):
            self._create_stream(name)

    def _open(self) -> Any:
        path = None if self.folder is None else self.folder / "m.mill"
        return vm.connect(path, memory=self.memory)

    def close(self) -> None:
        """Forget the session."""
        self.mill.close()
        if self.folder is not None:
            shutil.rmtree(self.folder)

    def spelled(self, name: str) -> str:
        """A name in some case."""
        return self.chance.choice([name, name, name.lower(), name.upper()])

    def sql(self, text: str) -> Any:
        """A statement."""
        self.log.append(f"mill.sql({text!r})")
        return self.mill.sql(text)

    # Tables and views.

    def _create_stream(self, name: str) -> None:
        chance = self.chance
        append_only = chance.random() < 0.4
        lateness = chance.choice([0, 0, 7, 60])
        length = chance.choice([None, 10, 60])
        retention = chance.choice([None, None, 120, 600]) if length else None
        stream = Stream(name, append_only, lateness, length, retention)
        options = "APPEND ONLY " if append_only else ""
        options += f"TIMESTAMP BY {self.spelled('At')}"
        options += f" LATENESS INTERVAL '{lateness}' SECONDS" if lateness else ""
        options += f" PARTITION LENGTH {length}" if length else ""
        options += f" RETENTION INTERVAL '{retention}' SECONDS" if retention else ""
        self.sql(f"CREATE TABLE {name} (At TIMESTAMP NOT NULL, K STRING, X BIGINT) {options}")
        self.streams[name] = stream

    def _new_name(self) -> str:
        self.number += 1
        return self.chance.choice(["v", "V", "My_View", "w"]) + str(self.number)

    def create(self, replacing: Shown | None = None) -> None:
        """Create a view, or another one in the place of one."""
        stream = self.chance.choice(list(self.streams.values()))
        kinds: list[Callable[[str, Stream], Shown | None]]
        kinds = [self._window, self._window, self._every, self._joined, self._plain]
        kinds += [self._rows_window] if stream.append_only and not stream.retention else []
        kinds += [self._helper_window, self._part_view, self._part_view] if stream.length else []
        kinds += [self._reader] if self.views and replacing is None else []
        name = self._new_name() if replacing is None else replacing.name
        made = self.chance.choice(kinds)(name, stream)
        if made is None:
            return
        policy = self.chance.choice(POLICIES)
        words = "" if replacing is None else "OR REPLACE "
        head, _, query = made.sql.rpartition("|")
        text = f"CREATE {words}MATERIALIZED VIEW {self.spelled(name)} {policy} {head} AS {query}"
        made.policy = policy
        if replacing is not None and replacing.stop is not None:
            replacing.stop()
        self.sql(text)
        made.compute()
        made.is_new = False
        self.views.pop(name, None)  # one that is replaced may read views made after it
        self.views[name] = made
        if self.chance.random() < 0.4:
            self.follow(made)

    def _common(self) -> tuple[bool, int, int | None, str, str, str]:
        chance = self.chance
        keyed = chance.random() < 0.6
        having = chance.choice([0, 0, 1]) if keyed else -1
        least = chance.choice([None, None, 3])
        where = "" if least is None else f"WHERE x > {least}"
        group = f"GROUP BY {self.spelled('k')}" if keyed else ""
        group += " HAVING n > 1" if having == 1 else ""
        return keyed, having, least, where, group, "k, " if keyed else ""

    def _window(self, name: str, stream: Stream) -> Shown:
        size, slide = self._sizes()
        keyed, having, least, where, group, key = self._common()

        def compute() -> Rows:
            end = stream.watermark
            inside: Rows = []
            if end is not None:
                end = end // slide * slide
                inside = [row for row in stream.rows if end - size <= row[0] < end]
            return aggregated(inside, keyed, having, least, in_order=stream.append_only)

        shown = IN_ORDER if stream.append_only else AGGREGATES
        head = self.chance.choice(["", "", "", "MEMORY '1 MB'", "MEMORY '0 MB'"])
        if not stream.length and not head:
            head = self.chance.choice(["", "STRATEGY shared_window"])
        sql = (
            f"{head}|SELECT {key}{shown} FROM {self.spelled(stream.name)} "
            f"[WINDOW {size} SECONDS SLIDE {slide} SECONDS] {where} {group}"
        )
        return Shown(name, sql, [stream.name], compute)

    def _sizes(self) -> tuple[int, int]:
        unit = self.chance.choice([1, 1, 10, 60])
        return unit * self.chance.randint(1, 12), unit * self.chance.randint(1, 8)

    def _helper_window(self, name: str, stream: Stream) -> Shown | None:
        assert stream.length is not None
        size, slide = (stream.length * self.chance.randint(1, 4) for _ in range(2))
        if stream.retention is not None and stream.retention < size + slide + stream.lateness:
            return None
        keyed, having, least, where, group, key = self._common()

        def compute() -> Rows:
            end = stream.watermark
            inside: Rows = []
            if end is not None:
                end = end // slide * slide
                inside = [row for row in stream.held if end - size <= row[0] < end]
            return aggregated([(t, None, x) for t, _, x in inside] if not keyed else inside,
                              keyed, having, least)  # fmt: skip

        shown = "count(*) AS n, sum(x) AS s, min(x) AS a, max(x) AS b"
        plain = self.chance.random() < 0.5
        if plain:
            shown = "count(*) AS n, sum(x) AS s"
        width = (3 if plain else 5) if keyed else (2 if plain else 4)
        sql = (
            f"STRATEGY temporal_view|SELECT {key}{shown} FROM {self.spelled(stream.name)} "
            f"[WINDOW {size} SECONDS SLIDE {slide} SECONDS] {where} {group}"
        )
        return Shown(name, sql, [stream.name], lambda: [row[:width] for row in compute()])

    def _rows_window(self, name: str, stream: Stream) -> Shown:
        size, slide = self.chance.randint(1, 12), self.chance.randint(1, 8)
        keyed, having, least, where, group, key = self._common()

        def compute() -> Rows:
            ordered = sorted(stream.rows, key=lambda row: row[0])
            end = len(ordered) // slide * slide
            seen = ordered[max(0, end - size) : end]
            return aggregated(seen, keyed, having, least, in_order=True)

        sql = (
            f"|SELECT {key}{IN_ORDER} FROM {self.spelled(stream.name)} "
            f"[WINDOW {size} ROWS SLIDE {slide} ROWS] {where} {group}"
        )
        return Shown(name, sql, [stream.name], compute)

    def _every(self, name: str, stream: Stream) -> Shown:
        size = self.chance.randint(1, 30)
        slide = self.chance.randint(1, size)
        offset = self.chance.choice([0, self.chance.randint(1 - slide, slide - 1)])
        keyed, having, least, where, _, key = self._common()

        def compute() -> Rows:
            windows: dict[int, Rows] = {}
            for row in stream.rows:
                start = (row[0] - offset) // slide * slide + offset
                while start + size > row[0]:
                    windows.setdefault(start, []).append(row)
                    start -= slide
            return [
                (moment(start), *each)
                for start, rows in windows.items()
                for each in aggregated(rows, keyed, max(having, 0), least)
            ]

        window = f"window(at, '{size} seconds', '{slide} seconds', '{offset} seconds')"
        less = " HAVING n > 1" if having == 1 else ""
        sql = (
            f"|SELECT {window}.start AS w, {key}{AGGREGATES} FROM {self.spelled(stream.name)}"
            f" {where} GROUP BY {key}{window}{less}"
        )
        return Shown(name, sql, [stream.name], compute)

    def _plain(self, name: str, stream: Stream) -> Shown:
        """All rows that retention leaves."""
        keyed, having, least, where, group, key = self._common()
        sql = f"|SELECT {key}{AGGREGATES} FROM {self.spelled(stream.name)} {where} {group}"
        return Shown(
            name, sql, [stream.name], lambda: aggregated(stream.rows, keyed, having, least)
        )

    def _joined(self, name: str, stream: Stream) -> Shown:
        """A window of each of two streams, joined by key."""
        other = self.chance.choice(list(self.streams.values()))
        sizes = [self._sizes() for _ in range(2)]

        def counted(of: Stream, size: int, slide: int) -> Counter[Any]:
            if of.watermark is None:
                return Counter()
            end = of.watermark // slide * slide
            return Counter(row[1] for row in of.rows if end - size <= row[0] < end)

        def compute() -> Rows:
            left, right = counted(stream, *sizes[0]), counted(other, *sizes[1])
            return [(k, n, right[k]) for k, n in left.items() if k is not None and right[k]]

        parts = [
            f"(SELECT k, count(*) AS n FROM {self.spelled(of.name)} "
            f"[WINDOW {size} SECONDS SLIDE {slide} SECONDS] GROUP BY k)"
            for of, (size, slide) in zip((stream, other), sizes, strict=True)
        ]
        sql = f"|SELECT p.k, p.n, q.n AS m FROM {parts[0]} p JOIN {parts[1]} q ON p.k = q.k"
        return Shown(name, sql, [stream.name, other.name], compute)

    def _reader(self, name: str, stream: Stream) -> Shown | None:
        below = self.chance.choice(list(self.views.values()))
        found = self.mill[below.name].to_arrow().column_names
        if "n" not in found:
            return None
        at = found.index("n")

        def compute() -> Rows:
            rows = self.views[below.name].last
            return [(len(rows), sum(row[at] for row in rows) if rows else None)]

        sql = f"|SELECT count(*) AS c, sum(n) AS n2 FROM {self.spelled(below.name)}"
        return Shown(name, sql, [below.name], compute)

    # Views in parts.

    def _part_view(self, name: str, stream: Stream) -> Shown:
        length = stream.length
        assert length is not None
        others = [each for each in self.streams.values() if each.length == length]
        others = [each for each in others if not (each.retention or stream.retention)]
        kinds = ["single", "running", *(["idle"] if others else [])]
        if stream.retention is None or stream.retention >= 5 * length:
            kinds.append("coarse")
        ending = f"PARTITION LENGTH {length}"
        below = [v for v in self.views.values() if v.sql.endswith(ending) and v.name != name]
        below = [v for v in below if "AS c" not in v.sql]
        kind = self.chance.choice([*kinds, "above"] if below else kinds)
        own, source = self.spelled(name), self.spelled(stream.name)
        if kind == "coarse":
            query = f"SELECT count(*) AS n, sum(x) AS s FROM {source}[i*3..i*3+2]"
            sql = f"INITIALIZE {own}[i] AS {query} UPDATE {name}[I] AS {query}"
            made = Shown(name, f"{sql} PARTITION LENGTH {3 * length}", [stream.name], list)
            made.compute = lambda: self._coarse(made, stream)
        elif kind == "running":
            first = f"SELECT count(*) AS n, sum(x) AS s FROM {source}[i]"
            following = (
                f"SELECT count(c.k0) + max(p.n) AS n, coalesce(sum(c.x), 0) + coalesce(max(p.s), 0)"
                f" AS s FROM {own}[j-1] p LEFT JOIN (SELECT 1 AS k0, x FROM {source}[j]) c ON true"
            )
            sql = f"INITIALIZE {own}[i] AS {first} UPDATE {own}[j] AS {following}"
            made = Shown(name, f"{sql} PARTITION LENGTH {length}", [stream.name], list)
            made.compute = lambda: self._running(made, stream)
        elif kind == "idle":
            other = self.chance.choice(others)
            query = (
                f"SELECT (SELECT count(*) FROM {source}[i]) AS n,"
                f" (SELECT count(*) FROM {self.spelled(other.name)}[i]) AS m"
            )
            sql = f"INITIALIZE {own}[i] AS {query} UPDATE {own}[i] AS {query}"
            made = Shown(name, f"{sql} PARTITION LENGTH {length}", [stream.name, other.name], list)
            made.compute = lambda: self._idle(made, stream, other)
        elif kind == "above":
            under = self.chance.choice(below)
            query = f"SELECT sum(n) AS n, count(*) AS c FROM {self.spelled(under.name)}[i]"
            sql = f"INITIALIZE {own}[i] AS {query} UPDATE {own}[i] AS {query}"
            made = Shown(name, f"{sql} PARTITION LENGTH {length}", [under.name], list)
            made.compute = lambda: self._above(made, under)
        else:
            query = f"SELECT k, count(*) AS n FROM {source}[i] GROUP BY k"
            sql = f"INITIALIZE {own}[i] AS {query} UPDATE {own}[i] AS {query}"
            made = Shown(name, f"{sql} PARTITION LENGTH {length}", [stream.name], list)
            made.compute = lambda: self._single(made, stream)
        return made

    def _begin(self, view: Shown, newest: int | None, oldest: int | None) -> bool:
        """Where the view starts; whether it has a part."""
        if view.start is None:
            view.start = newest if view.is_new and newest is not None else oldest
        view.has_part = view.start is not None and newest is not None and newest >= view.start
        return view.has_part

    def _single(self, view: Shown, stream: Stream) -> Rows:
        newest, length = stream.newest_part, stream.length
        parts = {row[0] // length for row in stream.held}
        if not self._begin(view, newest, min(parts, default=None)):
            return []
        return list(Counter(row[1] for row in stream.held if row[0] // length == newest).items())

    def _coarse(self, view: Shown, stream: Stream) -> Rows:
        length = stream.length
        newest = None if stream.newest_part is None else (stream.newest_part - 2) // 3
        parts = {row[0] // length for row in stream.held}
        oldest = None if not parts else -((2 - min(parts)) // 3)
        if not self._begin(view, newest, oldest):
            return []
        rows = [row for row in stream.held if row[0] // length // 3 == newest]
        return [row[:2] for row in aggregated(rows, False, -1, None)]

    def _idle(self, view: Shown, stream: Stream, other: Stream) -> Rows:
        both = [each.newest_part for each in (stream, other)]
        newest = None if None in both else min(each for each in both if each is not None)
        parts = [{row[0] // each.length for row in each.held} for each in (stream, other)]
        oldest = max((min(each) for each in parts if each), default=None)
        if None in both or not self._begin(view, newest, oldest):
            return []
        return [tuple(sum(row[0] // each.length == newest for row in each.held)
                      for each in (stream, other))]  # fmt: skip

    def _above(self, view: Shown, under: Shown) -> Rows:
        rows = self.views[under.name].last
        view.has_part = self.views[under.name].has_part
        if not view.has_part:
            return []
        at = 1 if "SELECT k," in under.sql else 0
        return [(sum(row[at] for row in rows) if rows else None, len(rows))]

    def _running(self, view: Shown, stream: Stream) -> Rows:
        length = stream.length
        parts = {row[0] // length for row in stream.held}
        if not self._begin(view, stream.newest_part, min(parts, default=None)):
            return []
        rows = [row for row in stream.held if row[0] // length >= view.start]
        values = [x for _, _, x in rows if x is not None]
        if stream.newest_part == view.start:
            return [(len(rows), sum(values) if values else None)]
        return [(len(rows), sum(values))]

    # Changes.

    def new_rows(self, stream: Stream) -> Rows:
        """Rows around now, some late."""
        chance = self.chance
        rows: Rows = []
        size = chance.choice([1, 1, 3, 8, 40]) if chance.random() < 0.97 else 400
        for _ in range(size):
            back = chance.choice([0, 0, 0, 1, 5, 30, 200]) if chance.random() < 0.7 else 0
            k = chance.choice(
                ["a", "b", "c", None, f"k{chance.randint(0, 30 if size < 99 else 999)}"]
            )
            x = chance.choice([None, 1, 2, 5, -3, 10**6])
            rows.append((self.now + chance.randint(0, 3) - back, k, x))
        return rows

    def insert(self) -> None:
        """Rows come."""
        stream = self.chance.choice(list(self.streams.values()))
        self.now += self.chance.choice([0, 0, 1, 3, 20, 100])
        rows = self.new_rows(stream)
        self._insert(stream, rows)

    def _insert(self, stream: Stream, rows: Rows) -> None:
        self.log.append(f"insert {stream.name} {rows}")
        self.mill.insert(self.spelled(stream.name), [(moment(t), k, x) for t, k, x in rows])
        stream.insert(rows)

    def delete(self) -> None:
        """Rows go."""
        stream = self.chance.choice(list(self.streams.values()))
        if stream.append_only or not stream.rows:
            return
        gone = self.chance.sample(stream.rows, min(len(stream.rows), self.chance.randint(1, 5)))
        self.log.append(f"delete {stream.name} {gone}")
        self.mill.delete(self.spelled(stream.name), [(moment(t), k, x) for t, k, x in gone])
        stream.delete(gone)

    def both(self) -> None:
        """Both streams change in one batch."""
        self.log.append("batch")
        coming = {name: self.new_rows(stream) for name, stream in self.streams.items()}
        with self.mill.batch():
            for name, rows in coming.items():
                self.log.append(f"  insert {name} {rows}")
                self.mill.insert(name, [(moment(t), k, x) for t, k, x in rows])
        for name, rows in coming.items():
            self.streams[name].insert(rows)

    def refused(self) -> None:
        """A batch that fails changes nothing."""
        self.log.append("refused batch")
        stream = self.chance.choice(list(self.streams.values()))
        rows = [(moment(t), k, x) for t, k, x in self.new_rows(stream)]
        try:
            with self.mill.batch():
                self.mill.insert(stream.name, rows)
                self.mill.delete(stream.name, [(moment(self.now), "nobody", 77)])
        except vm.ViewmillError:
            return
        raise AssertionError("a row that is not there was deleted")

    def tick(self) -> None:
        """Time goes on without rows."""
        stream = self.chance.choice(list(self.streams.values()))
        to = (stream.watermark or self.now) + self.chance.choice([0, 1, 10, 60, 300])
        self.log.append(f"advance {stream.name} {to}")
        self.mill.advance(self.spelled(stream.name), to=moment(to))
        stream.tick = to
        self.now = max(self.now, to)

    # Views.

    def refresh(self) -> None:
        """Somebody asks for it."""
        if self.views:
            view = self.chance.choice(list(self.views.values()))
            full = self.chance.random() < 0.3 and not view.sql.startswith("INITIALIZE")
            self.sql(
                f"REFRESH MATERIALIZED VIEW {self.spelled(view.name)}{' FULL' if full else ''}"
            )

    def alter(self) -> None:
        """Another policy."""
        if self.views:
            view = self.chance.choice(list(self.views.values()))
            view.policy = self.chance.choice(POLICIES)
            policy = view.policy or "REFRESH IMMEDIATE"
            self.sql(f"ALTER MATERIALIZED VIEW {self.spelled(view.name)} {policy}")

    def _unread(self) -> list[Shown]:
        read = {name for each in self.views.values() for name in each.reads}
        return [each for each in self.views.values() if each.name not in read]

    def drop(self) -> None:
        """A view goes."""
        views = self._unread()
        if views:
            view = self.chance.choice(views)
            self.sql(f"DROP MATERIALIZED VIEW {self.spelled(view.name)}")
            del self.views[view.name]

    def replace(self) -> None:
        """A view gets another definition."""
        views = self._unread()
        if views:
            self.create(self.chance.choice(views))

    def follow(self, view: Shown) -> None:
        """Somebody subscribes."""
        handle = self.mill[view.name]
        told: Counter[Any] = Counter(handle.rows())

        def hear(change: Any) -> None:
            for row, times in change:
                told[row] += times
                assert told[row] >= 0, (view.name, row)

        view.told, view.stop = told, handle.subscribe(hear)

    def subscribe(self) -> None:
        """Somebody subscribes, or does not any more."""
        if self.views:
            view = self.chance.choice(list(self.views.values()))
            self.log.append(f"subscribe {view.name}")
            if view.stop is None:
                self.follow(view)
            else:
                view.stop()
                view.told = view.stop = None

    def reopen(self) -> None:
        """The mill is closed and opened again."""
        if self.folder is None:
            return
        if self.chance.random() < 0.5:
            self.log.append("checkpoint")
            self.mill.checkpoint()
        self.log.append("reopen")
        if self.chance.random() < 0.3:  # what is on disk is enough
            other = Path(tempfile.mkdtemp())
            shutil.copytree(self.folder / "m.mill", other / "m.mill")
            self.mill.close()
            shutil.rmtree(self.folder)
            self.folder = other
        else:
            self.mill.close()
        self.mill = self._open()
        for view in self.views.values():
            view.told = view.stop = None

    # Comparing.

    def step(self) -> None:
        """Something happens, and all is compared."""
        what = self.chance.choices(
            [self.insert, self.delete, self.both, self.refused, self.tick, self.create, self.drop,
             self.replace, self.refresh, self.alter, self.subscribe, self.reopen],
            [30, 12, 4, 2, 14, 8 if len(self.views) < 7 else 1, 4, 4, 6, 4, 4, 3],
        )[0]  # fmt: skip
        what()
        self.compare()

    def compare(self) -> None:
        """Every view, those that are read first."""
        for view in list(self.views.values()):
            self._compare(view)

    def _compare(self, view: Shown) -> None:
        handle = self.mill[self.spelled(view.name)]
        status = handle.status()
        before = view.start, view.has_part
        expected = view.compute()
        if status["freshness"] == "fresh":
            view.last = expected
        else:
            view.start, view.has_part = before
            assert view.policy, (view.name, status)
            if "ROWS" in view.policy:
                assert status["waiting_rows"] < int(view.policy.split()[2]), (view.name, status)
        rows = handle.rows()
        assert Counter(rows) == Counter(view.last), (view.name, view.sql, rows, view.last)
        if view.told is not None:
            told = {row: times for row, times in view.told.items() if times}
            assert told == Counter(rows), ("told", view.name, view.sql, told, rows)
        if self.chance.random() < 0.1 and "|" in view.sql:
            query = view.sql.partition("|")[2]
            rows = self.mill.sql(query).rows()
            assert Counter(rows) == Counter(expected), ("asked", view.sql, rows, expected)
        if self.chance.random() < 0.05:
            found = handle.verify()
            assert found == [], ("verify", view.name, view.sql, found)


def run(seed: int, steps: int, *, durable: bool) -> Session:
    """One session; a failure shows what was done."""
    session = Session(seed, durable=durable)
    for step in range(steps):
        try:
            session.step()
        except BaseException as why:
            why.add_note(f"seed {seed}, durable {durable}, step {step}")
            why.add_note("\n".join(session.log))
            raise
    session.close()
    return session


def main() -> None:
    """Many sessions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--durable", action="store_true")
    given = parser.parse_args()
    for seed in range(given.seed, given.seed + given.sessions):
        run(seed, given.steps, durable=given.durable)
        sys.stderr.write(f"{seed} ok\n")


if __name__ == "__main__":
    main()
