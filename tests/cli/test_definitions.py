"""Definitions come in an order in which they can be created."""

from pathlib import Path

import pytest

from viewmill.cli.definitions import dependents, in_order, read_library
from viewmill.errors import CyclicViews, InvalidArgument, NameTaken, ViewmillError

SQL = """\
CREATE MATERIALIZED VIEW big AS SELECT customer FROM revenue WHERE revenue > 10;
CREATE MATERIALIZED VIEW revenue AS
  WITH paid AS (SELECT * FROM Orders)
  SELECT customer, SUM(amount) AS revenue FROM paid GROUP BY customer;
CREATE TABLE orders (customer STRING, amount BIGINT);
"""


def library(tmp_path: Path, text: str = SQL) -> Path:
    file = tmp_path / "views.sql"
    file.write_text(text)
    return file


def test_each_comes_after_what_it_reads(tmp_path):
    ordered = in_order(read_library(library(tmp_path)))
    assert [each.name for each in ordered] == ["orders", "revenue", "big"]


def test_dependents_are_found_through_views(tmp_path):
    ordered = in_order(read_library(library(tmp_path)))
    assert dependents({"orders"}, ordered) == {"orders", "revenue", "big"}
    assert dependents({"big"}, ordered) == {"big"}


def test_views_that_read_each_other_are_refused(tmp_path):
    text = "CREATE VIEW a AS SELECT * FROM b; CREATE VIEW b AS SELECT * FROM a"
    with pytest.raises(CyclicViews, match="a, b"):
        in_order(read_library(library(tmp_path, text)))


def test_a_name_defined_twice_is_refused(tmp_path):
    text = "CREATE TABLE t (a INT); CREATE TABLE T (a INT)"
    with pytest.raises(NameTaken, match="already defined"):
        in_order(read_library(library(tmp_path, text)))


def test_a_library_holds_only_create_statements(tmp_path):
    with pytest.raises(InvalidArgument, match="only CREATE"):
        read_library(library(tmp_path, "INSERT INTO t VALUES (1)"))


def test_an_error_names_the_file_and_underlines_its_line(tmp_path):
    text = "CREATE TABLE t (a INT);\n\nCREATE TABLE u (a NONSENSE);\n"
    with pytest.raises(ViewmillError) as raised:
        read_library(library(tmp_path, text))
    assert "views.sql: " in raised.value.message
    assert "  3 | CREATE TABLE u" in str(raised.value)


def test_a_line_break_within_a_literal_stays_as_it_is(tmp_path):
    """Files were read with universal newlines, so that the literal lost its carriage return."""
    file = tmp_path / "views.sql"
    sql = "CREATE MATERIALIZED VIEW v AS\r\n  SELECT 'a\r\nb\rc' AS x FROM t"
    file.write_bytes(b"\xef\xbb\xbf" + sql.encode())
    (found,) = read_library(file)
    assert found.sql == sql
