"""window(ts, size, slide, start) as Spark users write it: names and errors are those of Spark."""

import datetime as dt

import pytest

import viewmill as vm
from viewmill.errors import MalformedSQL, UnknownName, UnsupportedQuery

NOON = dt.datetime(2024, 1, 1, 12)
TWO = "window(ts, '2 minutes')"


@pytest.fixture
def mill(monkeypatch):
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    with vm.connect() as mill:
        mill.sql("CREATE TABLE s (ts TIMESTAMP, x BIGINT)")
        mill.insert("s", [(NOON + dt.timedelta(seconds=each), each) for each in (7, 100, 130)])
        yield mill


@pytest.mark.parametrize(
    ("shown", "names"),
    [
        (f"{TWO}.start, {TWO}.end", ["window.start", "window.end"]),
        ("window.start, window['end']", ["start", "window.end"]),
        (f"{TWO} AS w, w.start", ["w", "start"]),
        ("window.*", ["start", "end"]),
    ],
)
def test_start_and_end_are_read_wherever_they_stand(mill, shown, names):
    mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown}, count(*) AS n FROM s GROUP BY {TWO}")
    mill.insert("s", [(NOON, 0)])
    assert mill["v"].to_arrow().column_names == [*names, "n"]
    later = NOON + dt.timedelta(minutes=2)
    found = {tuple(row)[-1]: row for row in mill["v"].rows()}
    assert sorted(found) == [1, 3]
    window = {"start": NOON, "end": later}
    first = {"w": window, "start": NOON, "window.start": NOON, "end": later, "window.end": later}
    assert found[3] == (*(first[name] for name in names), 3)
    assert mill["v"].verify() == []
    assert "recompute" not in mill["v"].status()["strategy"]


def test_a_window_is_read_from_a_query_inside_and_from_a_view(mill):
    mill.sql(f"CREATE MATERIALIZED VIEW w AS SELECT {TWO} AS w, count(*) AS n FROM s GROUP BY w")
    mill.sql("CREATE MATERIALIZED VIEW above AS SELECT q.w.start AS a, w.end AS e, n FROM w AS q")
    mill.sql(
        "CREATE MATERIALIZED VIEW inside AS SELECT w.start AS a, w.end AS e, n"
        f" FROM (SELECT {TWO} AS w, count(*) AS n FROM s GROUP BY {TWO})"
    )
    mill.delete("s", [(NOON + dt.timedelta(seconds=130), 130)])
    assert mill["above"].rows() == [(NOON, NOON + dt.timedelta(minutes=2), 2)]
    assert mill["inside"].rows() == mill["above"].rows()
    assert mill["above"].verify() == mill["inside"].verify() == []


@pytest.mark.parametrize(
    ("call", "message", "marked"),
    [
        ("window(ts, '1', '0')", "not a duration: '1'", "'1'"),
        ("window(ts, '1 second', '0 seconds')", "longer than nothing", "'0 seconds'"),
        ("window(ts, '-1 second')", "longer than nothing", "'-1 second'"),
        ("window(ts, '1 second', '2 seconds')", "at most its size", "'2 seconds'"),
        ("window(ts, '2 seconds', '1 second', '1 second')", "less than a slide", "'1 second'"),
        ("window(ts, x)", "constants", "x"),
    ],
)
def test_a_length_that_makes_no_window_is_underlined(mill, call, message, marked):
    sql = f"SELECT {call}.start FROM s"
    with pytest.raises(MalformedSQL, match=message) as error:
        mill.sql(sql)
    span = error.value.span
    assert sql[span.start : span.end + 1] == marked


def test_a_select_has_one_window(mill):
    with pytest.raises(UnsupportedQuery, match="one window"):
        mill.sql(f"SELECT window(ts, '1 minute').start, count(*) FROM s GROUP BY {TWO}")
    with pytest.raises(UnsupportedQuery, match="10,000"):
        mill.sql("SELECT count(*) FROM s GROUP BY window(ts, '1 day', '1 microsecond')")
    with pytest.raises(UnknownName, match="no field"):
        mill.sql(f"SELECT {TWO}.middle FROM s")
    with pytest.raises(UnsupportedQuery, match="cannot stand here"):
        mill.sql(f"SELECT x FROM s WHERE {TWO}.start > '2024-01-01'")
