from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import scaled
from tests.strategies.temporal_view.streams import START, Row, Stream, moment, stamped

import viewmill as vm

TABLE = "CREATE TABLE {} (ts TIMESTAMP, g STRING, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60"
CUMULATIVE = """
CREATE VIEW h AS
INITIALIZE h[i] AS SELECT g, sum(x) AS s, count(*) AS c FROM m[i] GROUP BY g
UPDATE h[j] AS SELECT g, sum(s), sum(c) FROM (
  SELECT g, x AS s, 1 AS c FROM m[j] UNION ALL SELECT g, s, c FROM h[j-1]) AS t GROUP BY g
PARTITION LENGTH 60
"""
VIEWS = {
    "h": CUMULATIVE,
    "w": """CREATE VIEW w AS
      INITIALIZE w[i] AS SELECT g, max(x) AS hi FROM m[i-2..i] GROUP BY g
      UPDATE w[i] AS SELECT g, max(x) FROM m[i-2..i] GROUP BY g PARTITION LENGTH 60""",
    "five": """CREATE VIEW five AS
      INITIALIZE five[i] AS SELECT g, sum(x) AS s FROM m[i*5..i*5+4] GROUP BY g
      UPDATE five[i] AS SELECT g, sum(x) FROM m[i*5..i*5+4] GROUP BY g PARTITION LENGTH 300""",
    "band": """CREATE VIEW band AS
      INITIALIZE band[i] AS SELECT a.g, a.x * b.x * f AS p
        FROM m[i] AS a JOIN n[i] AS b ON a.g = b.g JOIN d ON d.g = a.g
      UPDATE band[i] AS SELECT a.g, a.x * b.x * f AS p
        FROM m[i] AS a JOIN n[i] AS b ON a.g = b.g JOIN d ON d.g = a.g PARTITION LENGTH 60""",
    "k": """CREATE VIEW k AS
      INITIALIZE k[i] AS SELECT g, s FROM h[i] WHERE s > 3
      UPDATE k[i] AS SELECT now.g, now.s - coalesce(old.s, 0)
        FROM h[i] AS now LEFT JOIN h[i-3] AS old ON now.g = old.g PARTITION LENGTH 60""",
}


def grouped(rows: list[Row]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(row[2])
    return found


class Expected:
    """What each view shows in a part, computed from all rows each time."""

    def __init__(self, m: list[Row], n: list[Row], d: list[Row], first: dict[str, int]) -> None:
        self.m, self.n, self.d, self.first = m, n, d, first

    def between(self, low: int, high: int, length: int = 60) -> dict[str, list[int]]:
        return grouped([row for row in self.m if low <= row[0] // length <= high])

    def h(self, i: int) -> list[Row]:
        found = self.between(self.first["h"], i)
        return [(g, sum(xs), len(xs)) for g, xs in found.items()]

    def w(self, i: int) -> list[Row]:
        return [(g, max(xs)) for g, xs in self.between(i - 2, i).items()]

    def five(self, i: int) -> list[Row]:
        return [(g, sum(xs)) for g, xs in self.between(i, i, 300).items()]

    def band(self, i: int) -> list[Row]:
        ms = [row for row in self.m if row[0] // 60 == i]
        ns = [row for row in self.n if row[0] // 60 == i]
        return [
            (a[1], a[2] * b[2] * f) for a in ms for b in ns for g, f in self.d if a[1] == b[1] == g
        ]

    def k(self, i: int) -> list[Row]:
        now = {g: s for g, s, _ in self.h(i)}
        if i == self.first["k"]:
            return [(g, s) for g, s in now.items() if s > 3]
        old = {g: s for g, s, _ in self.h(i - 3)}
        return [(g, s - old.get(g, 0)) for g, s in now.items()]


def maintainer_of(mill: Any, name: str) -> Any:
    return mill.core.catalog.view(name).block.maintainer


def check(mill: Any, m: list[Row], n: list[Row], d: list[Row]) -> None:
    first = {name: maintainer_of(mill, name).first for name in VIEWS}
    expected = Expected(m, n, d, first)
    for name in VIEWS:
        kept = maintainer_of(mill, name)
        history = mill.sql(f"SELECT PART_TIMESTAMP, * FROM {name}").rows()
        for i in range(kept.first or 0, kept.next or 0):
            found = sorted(row[1:] for row in history if row[0] == moment(i * kept.length))
            assert found == sorted(getattr(expected, name)(i)), (name, i)


def declare(mill: Any) -> None:
    mill.sql(TABLE.format("m"))
    mill.sql(TABLE.format("n"))
    mill.sql("CREATE TABLE d (g STRING, f BIGINT)")
    for view in VIEWS.values():
        mill.sql(view)


def run(seed: int, mill: Any, steps: int) -> Any:
    m, n, d = Stream(seed, "abc"), Stream(seed + 1000, "abc"), list[Row]()
    news = zip(m.changes(steps), n.changes(steps), strict=True)
    for step, (for_m, for_n) in enumerate(news):
        with mill.batch():
            getattr(mill, for_m[0])("m", stamped(for_m[1]))
            getattr(mill, for_n[0])("n", stamped(for_n[1]))
            if step % 7 == 3:
                d.append((m.random.choice("abc"), m.random.randrange(3)))
                mill.insert("d", d[-1:])
        yield m.rows, n.rows, d


@pytest.mark.parametrize("seed", range(scaled(0.03)))
def test_views_over_parts_equal_brute_force(seed):
    mill = vm.connect()
    declare(mill)
    for m, n, d in run(seed, mill, 16):
        check(mill, m, n, d)
    for name in VIEWS:
        assert mill[name].verify() == []


@pytest.mark.parametrize("seed", [1, 2])
def test_parts_survive_restarts_anywhere(seed, tmp_path):
    mill = vm.connect(tmp_path / "p.mill")
    declare(mill)
    steps = run(seed, Reopening(mill, tmp_path / "p.mill"), 12)
    for m, n, d in steps:
        mill = Reopening.current
        check(mill, m, n, d)
        if len(m) % 3 == 0:
            mill.checkpoint()
        Reopening.reopen()
        check(Reopening.current, m, n, d)
    Reopening.current.close()


class Reopening:
    """A mill that is closed and opened between steps."""

    current: Any = None
    path: Any = None

    def __init__(self, mill: Any, path: Any) -> None:
        Reopening.current, Reopening.path = mill, path

    @staticmethod
    def reopen() -> None:
        Reopening.current.close()
        Reopening.current = vm.connect(Reopening.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(Reopening.current, name)


def test_late_row_computes_dependent_parts_only_and_stops_where_nothing_changed():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql(
        "CREATE VIEW runs AS INITIALIZE runs[i] AS SELECT g, 1 AS ct FROM m[i] WHERE x > 0 "
        "UPDATE runs[j] AS SELECT new.g, coalesce(ct, 0) + 1 FROM m[j] AS new "
        "LEFT JOIN runs[j-1] AS prev ON new.g = prev.g WHERE x > 0 PARTITION LENGTH 60"
    )
    for i in range(200):
        mill.insert("m", [(moment(START + 60 * i), "ann", int(i % 10 > 0))])
    kept = maintainer_of(mill, "runs")
    before, version = kept.computed, mill.version
    mill.insert("m", [(moment(START + 60 * 33 + 5), "bob", 1)])
    # bob's run ends where it began: part 33 changes, part 34 comes out as it was.
    assert kept.computed - before == 2
    changed = [part["subscript"] for part in mill["runs"].parts(changed_since=version)]
    assert changed == [START // 60 + 33]
    before = kept.computed
    mill.delete("m", [(moment(START + 60 * 33), "ann", 1)])
    # Parts 33 to 39 change; part 40 has no run either way, and ends it.
    assert kept.computed - before == 8
    assert mill["runs"].verify() == []


def test_gaps_cost_nothing_and_hold_nothing():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql(
        "CREATE VIEW w AS INITIALIZE w[i] AS SELECT g, sum(x) AS s FROM m[i-2..i] GROUP BY g "
        "UPDATE w[j] AS SELECT g, sum(x) FROM m[j-2..j] GROUP BY g PARTITION LENGTH 60"
    )
    mill.insert("m", [(moment(START), "ann", 1)])
    mill.insert("m", [(moment(START + 10**9), "ann", 2)])  # thirty years later
    assert mill["w"].rows() == [("ann", 2)]
    assert maintainer_of(mill, "w").computed <= 6
    assert len(mill["w"].parts()) <= 6


def test_initialize_takes_the_newest_part_and_the_slower_of_two_streams():
    mill = vm.connect()
    for name in "mn":
        mill.sql(TABLE.format(name))
    mill.insert("m", [(moment(START + 60 * i), "ann", i) for i in range(5)])
    mill.insert("n", [(moment(START + 60 * i), "ann", i) for i in range(3)])
    mill.sql(
        "CREATE VIEW j AS INITIALIZE j[i] AS SELECT m.g, m.x + n.x AS t FROM m[i] JOIN n[i] "
        "ON m.g = n.g UPDATE j[i] AS SELECT m.g, m.x + n.x FROM m[i] JOIN n[i] ON m.g = n.g "
        "PARTITION LENGTH 60"
    )
    assert [part["subscript"] for part in mill["j"].parts()] == [START // 60 + 2]
    mill.insert("n", [(moment(START + 60 * 4), "ann", 4)])
    assert mill["j"].rows() == [("ann", 8)]
    assert [part["rows"] for part in mill["j"].parts()] == [1, 0, 1]


def test_hours_over_minutes_wait_for_their_last_minute():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    hours = "SELECT g, sum(x) AS s FROM m[i*60 .. i*60+59] GROUP BY g"
    mill.sql(
        f"CREATE VIEW view3 AS INITIALIZE view3[i] AS {hours} UPDATE view3[i] AS {hours} "
        "PARTITION LENGTH 3600"
    )
    mill.insert("m", [(moment(START + 60 * i), "ann", 1) for i in range(59)])
    assert mill["view3"].rows() == []
    mill.insert("m", [(moment(START + 60 * 59), "ann", 1)])
    assert mill["view3"].rows() == [("ann", 60)]
    mill.insert("m", [(moment(START + 7), "ann", 5)])
    assert mill["view3"].rows() == [("ann", 65)]


def test_views_over_a_temporal_view_see_its_newest_part():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql(CUMULATIVE)
    mill.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(s) AS s FROM h")
    heard: list[Any] = []
    mill["h"].subscribe(lambda change: heard.append(sorted(change)))
    mill.insert("m", [(moment(START), "ann", 1)])
    mill.insert("m", [(moment(START + 60), "bob", 5)])
    assert mill["total"].rows() == [(2, 6)]
    assert heard[1] == [(("bob", 5, 1), 1)]
    assert mill["total"].verify() == []


def test_too_late_rows_are_refused_counted_and_listed():
    mill = vm.connect()
    mill.sql(TABLE.format("m") + " LATENESS INTERVAL '2' MINUTES RETENTION INTERVAL '10' MINUTES")
    mill.sql(CUMULATIVE)
    mill.insert("m", [(moment(START + 60 * i), "ann", 1) for i in range(8)])
    mill.insert("m", [(moment(START), "bob", 1), (moment(START + 60 * 6), "cy", 1)])
    assert sorted(mill["h"].rows()) == [("ann", 8, 8), ("cy", 1, 1)]
    assert mill.status()["tables"]["m"]["refused"] == 1
    (refused,) = mill.refused("m")
    assert (refused["g"], refused["multiplicity"]) == ("bob", 1)


def test_retention_drops_parts_of_tables_and_views_but_not_what_they_still_need(tmp_path):
    mill = vm.connect(tmp_path / "r.mill")
    mill.sql(TABLE.format("m") + " RETENTION INTERVAL '3' MINUTES")
    mill.sql(CUMULATIVE)
    mill.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM m")
    for i in range(20):
        mill.insert("m", [(moment(START + 60 * i), "ann", 1)])
        if i == 10:
            mill.checkpoint()
    mill.insert("m", [(moment(START + 60 * 17 + 1), "ann", 10)])  # the oldest kept part
    for _ in range(2):
        assert mill["n"].rows() == [(4,)]
        assert mill["n"].verify() == mill["h"].verify() == []
        assert mill["h"].rows() == [("ann", 30, 21)]
        assert len(mill["h"].parts()) == len(mill.parts("m")) == 3
        assert len(mill.sql("SELECT * FROM h WHERE PART_TIMESTAMP IS NOT NULL").rows()) == 3
        mill.close()
        mill = vm.connect(tmp_path / "r.mill")
    mill.close()


def test_defining_query_catches_a_wrong_update():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql(CUMULATIVE + " DEFINED BY SELECT g, sum(x), count(*) FROM m GROUP BY g")
    mill.sql(
        "CREATE VIEW wrong AS INITIALIZE wrong[i] AS SELECT g, sum(x) AS s FROM m[i] GROUP BY g "
        "UPDATE wrong[j] AS SELECT g, sum(x) FROM m[j] GROUP BY g PARTITION LENGTH 60 "
        "DEFINED BY SELECT g, sum(x) FROM m[j-1..j] GROUP BY g"
    )
    mill.insert("m", [(moment(START + 60 * i), "ann", i) for i in range(4)])
    assert mill.sql("VERIFY h").rows() == []
    assert mill["wrong"].verify() != []


def test_a_failing_part_rolls_everything_back():
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql(CUMULATIVE)
    mill.sql(
        "CREATE VIEW q AS INITIALIZE q[i] AS SELECT g, 1 DIV x AS y FROM m[i] "
        "UPDATE q[j] AS SELECT g, 1 DIV x FROM m[j] PARTITION LENGTH 60"
    )
    mill.insert("m", [(moment(START), "ann", 1)])
    with pytest.raises(vm.errors.EvaluationFailed):
        mill.insert("m", [(moment(START + 60), "ann", 0)])
    assert mill["h"].rows() == [("ann", 1, 1)]
    mill.insert("m", [(moment(START + 60), "ann", 1)])
    assert mill["h"].rows() == [("ann", 2, 2)]
    assert len(mill["q"].parts()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m[i] UPDATE q[j] AS SELECT g FROM m[j*j]", "linear"),
        ("m[i] UPDATE q[j] AS SELECT g FROM m", "in parts"),
        ("m[i] UPDATE q[j] AS SELECT g FROM q[j]", "earlier parts"),
        ("m[i] UPDATE q[j] AS SELECT g, x FROM m[j]", "1 columns"),
        ("m[i] UPDATE q[j] AS SELECT x FROM m[j]", "STRING by INITIALIZE"),
        ("d[i] UPDATE q[j] AS SELECT g FROM m[j]", "has no parts"),
        ("d UPDATE q[j] AS SELECT g FROM m[j]", "reads no part"),
    ],
)
def test_what_a_part_query_cannot_say_is_refused(text, message):
    mill = vm.connect()
    mill.sql(TABLE.format("m"))
    mill.sql("CREATE TABLE d (g STRING, f BIGINT)")
    with pytest.raises(vm.ViewmillError, match=message):
        mill.sql(f"CREATE VIEW q AS INITIALIZE q[i] AS SELECT g FROM {text} PARTITION LENGTH 60")
