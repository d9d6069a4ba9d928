"""Names with dots, and how many rows a view in a budget says it has."""

import datetime as dt

START = dt.datetime(2024, 1, 1)
ROWS = [(START + dt.timedelta(seconds=i), i) for i in range(10)]


def test_a_dot_in_a_table_name_is_no_border_between_alias_and_column(mill, uncompiled):
    """A budget looks up how many values the column "t" of table "a.b" has."""
    mill.sql("CREATE TABLE `a.b` (t TIMESTAMP, x INT) TIMESTAMP BY t")
    mill.insert("a.b", ROWS)
    mill.sql("CREATE MATERIALIZED VIEW v MEMORY '2 KB' AS SELECT window.start AS w, count(*) AS n"
             " FROM `a.b` GROUP BY window(t, '5 seconds')")  # fmt: skip
    assert sorted(mill["v"].rows()) == [(START, 5), (START + dt.timedelta(seconds=5), 5)]


def test_a_window_that_a_budget_recomputes_knows_how_many_rows_it_has(mill, uncompiled):
    mill.sql("CREATE TABLE s (t TIMESTAMP, x INT) TIMESTAMP BY t")
    mill.insert("s", ROWS)
    mill.sql("CREATE MATERIALIZED VIEW v MEMORY '2 KB' AS"
             " SELECT count(*) AS n FROM s [WINDOW 60 SECONDS SLIDE 5 SECONDS]")  # fmt: skip
    assert mill["v"].rows() == [(5,)]
    assert mill["v"].status()["rows"] == 1
