"""Every statement of the contract is read; every mistake is underlined."""

from typing import Any

import pytest

from viewmill.algebra.refresh import (
    EveryInterval,
    EveryRows,
    Immediate,
    OnDemand,
    OnReadAfter,
    Within,
)
from viewmill.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Integer,
    Type,
)
from viewmill.algebra.units import parse_bytes, parse_duration
from viewmill.errors import (
    InvalidArgument,
    MalformedSQL,
    TypeMismatch,
    UnknownName,
    UnsupportedQuery,
    ViewmillError,
)
from viewmill.sql.parse import parse
from viewmill.sql.statements import (
    AlterRefresh,
    CreateMaterializedView,
    CreateTable,
    CreateTemporalView,
    CreateView,
    Delete,
    DropTable,
    DropView,
    Explain,
    Insert,
    Query,
    RefreshView,
    Update,
    Verify,
)

SECOND = 1_000_000


def one(sql: str) -> Any:
    [statement] = parse(sql)
    return statement


def fails(sql: str, kind: type[ViewmillError] = MalformedSQL) -> ViewmillError:
    """The error of `sql`, which must be of exactly this kind."""
    with pytest.raises(kind) as caught:
        parse(sql)
    assert type(caught.value) is kind
    return caught.value


def underlined(error: ViewmillError) -> str:
    assert error.span is not None
    return error.span.text


# CREATE TABLE


def test_a_table_has_its_columns_types_and_key() -> None:
    table = one("CREATE TABLE Bids (t TIMESTAMP, id BIGINT, price DECIMAL(12,2), PRIMARY KEY (ID))")
    assert isinstance(table, CreateTable)
    assert table.name == "Bids"
    found = [(each.name, each.type, each.nullable) for each in table.columns]
    assert found == [
        ("t", TIMESTAMP, True),
        ("id", BIGINT, False),
        ("price", Decimal(12, 2), True),
    ]
    assert table.primary_key == ("id",)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("BOOLEAN", BOOLEAN),
        ("TINYINT", Integer(8)),
        ("SMALLINT", Integer(16)),
        ("INT", INT),
        ("integer", INT),
        ("BIGINT", BIGINT),
        ("LONG", BIGINT),
        ("FLOAT", FLOAT),
        ("REAL", FLOAT),
        ("DOUBLE", DOUBLE),
        ("DECIMAL", Decimal(10, 0)),
        ("DECIMAL(5)", Decimal(5, 0)),
        ("NUMERIC(38, 38)", Decimal(38, 38)),
        ("DEC(4,1)", Decimal(4, 1)),
        ("STRING", STRING),
        ("VARCHAR(20)", STRING),
        ("CHAR(1)", STRING),
        ("TEXT", STRING),
        ("DATE", DATE),
        ("TIMESTAMP", TIMESTAMP),
        ("TIMESTAMP_NTZ", TIMESTAMP),
    ],
)
def test_a_column_has_the_type_that_is_written(text: str, type_: Type) -> None:
    [column] = one(f"CREATE TABLE t (a {text} NOT NULL)").columns
    assert (column.type, column.nullable) == (type_, False)


def test_table_clauses_come_in_any_order() -> None:
    clauses = [
        "APPEND ONLY",
        "UNCHECKED",
        "STATIC",
        "TIMESTAMP BY TS",
        "PARTITION LENGTH 60",
        "LATENESS INTERVAL '10' MINUTES",
        "RETENTION INTERVAL '7' DAYS",
    ]
    forward = one(f"CREATE TABLE t (ts TIMESTAMP) {' '.join(clauses)}")
    assert forward == one(f"CREATE TABLE t (ts TIMESTAMP) {' '.join(reversed(clauses))}")
    assert (forward.append_only, forward.unchecked, forward.static) == (True, True, True)
    assert (forward.timestamp_by, forward.partition_length) == ("ts", 60)
    assert (forward.lateness, forward.retention) == (600 * SECOND, 7 * 86_400 * SECOND)


def test_a_bare_table_has_no_clauses() -> None:
    table = one("CREATE TABLE IF NOT EXISTS t (a INT)")
    assert table.if_not_exists
    assert (table.append_only, table.timestamp_by, table.lateness, table.primary_key) == (
        False, None, None, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    "columns",
    [
        "a INT PRIMARY KEY, b INT",
        "a INT NOT NULL, b INT, PRIMARY KEY (a)",
        "PRIMARY KEY (A), a INT, b INT",
        "a INT, CONSTRAINT pk PRIMARY KEY (`a`), b INT COMMENT 'second'",
    ],
)
def test_a_key_column_is_not_null_however_the_key_is_written(columns: str) -> None:
    table = one(f"CREATE TABLE t ({columns})")
    assert table.primary_key == ("a",)
    assert [each.nullable for each in table.columns] == [False, True]


def test_back_quoted_names_may_hold_anything() -> None:
    table = one("CREATE TABLE `my table` (`group by` INT, `Ü;` STRING, date DATE, window INT)")
    assert table.name == "my table"
    assert [each.name for each in table.columns] == ["group by", "Ü;", "date", "window"]


@pytest.mark.parametrize(
    ("sql", "kind", "text", "said"),
    [
        ("CREATE TABLE t (a GEOMETRY)", TypeMismatch, "GEOMETRY", "INT"),
        ("CREATE TABLE t (a BIGNIT)", TypeMismatch, "BIGNIT", "Did you mean BIGINT?"),
        ("CREATE TABLE t (a DECIMAL(39,2))", TypeMismatch, "DECIMAL(39,2)", "38"),
        ("CREATE TABLE t (a DECIMAL(4,5))", TypeMismatch, "DECIMAL(4,5)", "s of at most p"),
        ("CREATE TABLE t (a DECIMAL(0))", TypeMismatch, "DECIMAL(0)", "1 to 38"),
        ("CREATE TABLE t (a INT(4))", MalformedSQL, "INT(4)", "parameters"),
        ("CREATE TABLE t (a, b INT)", MalformedSQL, ",", "has no type"),
        ("CREATE TABLE t (a INT, A STRING)", MalformedSQL, "A STRING", "two columns"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (xyz))", UnknownName, "xyz", "There is: a."),
        ("CREATE TABLE t (cust INT, PRIMARY KEY (cost))", UnknownName, "cost", '"cust"'),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, A))", MalformedSQL, "A", "twice"),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", MalformedSQL, "b", "two primary"),
        ("CREATE TABLE t (time TIMESTAMP) TIMESTAMP BY tme", UnknownName, "tme", '"time"'),
        ("CREATE TABLE t (a INT) TIMESTAMP BY a", TypeMismatch, "a", "is INT"),
        ("CREATE TABLE t (a INT) APEND ONLY", MalformedSQL, "APEND", "APPEND ONLY"),
        ("CREATE TABLE t (a INT) STATIC STATIC", MalformedSQL, "STATIC", "twice"),
        ("CREATE TABLE t (a INT NOTT NULL)", MalformedSQL, "NOTT", "NOT NULL"),
        ("CREATE TABLE t (a INT, UNIQUE (a))", MalformedSQL, "UNIQUE", "PRIMARY KEY"),
        ("CREATE TABLE t (a INT, FOREIGN KEY (a))", MalformedSQL, "FOREIGN KEY", "PRIMARY KEY"),
        ("CREATE TABLE t (a INT) LATENESS '10' MINUTES", MalformedSQL, "'10'", "INTERVAL"),
        ("CREATE TABLE t (a INT) RETENTION INTERVAL '1' MONTH", MalformedSQL, None, "fixed length"),
        ("CREATE TABLE t (a INT) PARTITION LENGTH 0", MalformedSQL, "0", "at least 1"),
        ("CREATE TABLE t ()", MalformedSQL, ")", "a column"),
        ("CREATE TABLE t (a INT", MalformedSQL, "INT", "ends too early"),
        ("CREATE TABLE s.t (a INT)", MalformedSQL, "s.", "one part"),
        ("CREATE TABLE t AS SELECT 1", MalformedSQL, "AS", "INSERT INTO"),
        ("CREATE OR REPLACE TABLE t (a INT)", MalformedSQL, "TABLE", "DROP TABLE"),
    ],
)
def test_a_wrong_table_is_refused(
    sql: str, kind: type[ViewmillError], text: str | None, said: str
) -> None:
    error = fails(sql, kind)
    assert said in str(error)
    assert text is None or underlined(error) == text


# Views


def test_a_materialized_view_keeps_the_exact_text_of_its_query() -> None:
    sql = "CREATE MATERIALIZED VIEW v AS\n  SELECT a,  -- the key\n    sum(b) FROM t GROUP BY a ;"
    view = one(sql)
    assert isinstance(view, CreateMaterializedView)
    assert view.query_sql == "SELECT a,  -- the key\n    sum(b) FROM t GROUP BY a"
    assert view.query.sql() == "SELECT a /* the key */, SUM(b) FROM t GROUP BY a"
    assert (view.refresh_policy, view.policies, view.result) == ("auto", (), "listed")
    assert (view.strategy, view.memory_bytes, view.or_replace) == (None, None, False)


def test_view_clauses_come_in_any_order() -> None:
    clauses = [
        "REFRESH POLICY INCREMENTAL STRICT",
        "REFRESH EVERY 1000 ROWS",
        "STRATEGY View_Tree",
        "MEMORY '64 MB'",
        "RESULT FACTORIZED",
    ]
    view = one(f"CREATE OR REPLACE MATERIALIZED VIEW v {' '.join(clauses)} AS SELECT 1")
    assert view == one(
        f"CREATE OR REPLACE MATERIALIZED VIEW v {' '.join(reversed(clauses))} AS SELECT 1"
    )
    assert (view.or_replace, view.refresh_policy) == (True, "incremental_strict")
    assert (view.strategy, view.memory_bytes) == ("view_tree", 64_000_000)
    assert (view.policies, view.result) == ((EveryRows(1000),), "factorized")


@pytest.mark.parametrize(
    ("clause", "policy"),
    [
        ("IMMEDIATE", Immediate()),
        ("ON DEMAND", OnDemand()),
        ("EVERY INTERVAL '60' SECONDS", EveryInterval(60 * SECOND)),
        ("EVERY 1000 ROWS", EveryRows(1000)),
        ("WITHIN INTERVAL 10 MINUTES", Within(600 * SECOND)),
        ("ON READ AFTER INTERVAL '1' HOUR", OnReadAfter(3600 * SECOND)),
    ],
)
def test_a_policy_and_its_sql_are_the_same(clause: str, policy: object) -> None:
    assert one(f"CREATE MATERIALIZED VIEW v REFRESH {clause} AS SELECT 1").policies == (policy,)
    assert one(f"CREATE MATERIALIZED VIEW v {policy} AS SELECT 1").policies == (policy,)
    assert one(f"ALTER MATERIALIZED VIEW v {policy}") == AlterRefresh("v", (policy,))  # type: ignore[arg-type]


def test_several_refresh_clauses_are_all_kept() -> None:
    view = one(
        "CREATE MATERIALIZED VIEW v REFRESH EVERY 10 ROWS REFRESH POLICY FULL "
        "REFRESH WITHIN INTERVAL '5' SECONDS AS SELECT 1"
    )
    assert view.policies == (EveryRows(10), Within(5 * SECOND))
    assert view.refresh_policy == "full"


@pytest.mark.parametrize("policy", ["AUTO", "INCREMENTAL", "INCREMENTAL STRICT", "FULL"])
def test_a_refresh_policy_is_read_whole(policy: str) -> None:
    view = one(f"CREATE MATERIALIZED VIEW v REFRESH POLICY {policy} AS SELECT 1")
    assert view.refresh_policy == policy.lower().replace(" ", "_")


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("INTERVAL '10' MINUTES", 600 * SECOND),
        ("INTERVAL 10 MINUTE", 600 * SECOND),
        ("INTERVAL '10 minutes'", 600 * SECOND),
        ("INTERVAL '1' HOUR", 3600 * SECOND),
        ("INTERVAL '1 hour 30 minutes'", 5400 * SECOND),
        ("INTERVAL 1.5 SECONDS", 1_500_000),
        ("interval '2' days", 172_800 * SECOND),
        ("INTERVAL '250' MILLISECONDS", 250_000),
    ],
)
def test_an_interval_may_be_spelt_in_several_ways(text: str, microseconds: int) -> None:
    view = one(f"CREATE MATERIALIZED VIEW v REFRESH EVERY {text} AS SELECT 1")
    assert view.policies == (EveryInterval(microseconds),)


@pytest.mark.parametrize(
    ("clause", "text", "said"),
    [
        ("REFRESH EVRY 10 ROWS", "EVRY", "Did you mean EVERY?"),
        ("REFRESH EVERY 10 ROWZ", "ROWZ", "EVERY 1000 ROWS"),
        ("REFRESH EVERY INTERVL '10' MINUTES", "INTERVL", "Did you mean INTERVAL?"),
        ("REFRESH EVERY INTERVAL '10' MINUTS", "MINUTS", "Did you mean MINUTES?"),
        ("REFRESH EVERY INTERVAL '10'", "AS", "expected a unit"),
        ("REFRESH EVERY INTERVAL 'ten minutes'", "INTERVAL 'ten minutes'", "not a number"),
        ("REFRESH EVERY INTERVAL '0' SECONDS", "INTERVAL '0' SECONDS", "longer than zero"),
        ("REFRESH EVERY 0 ROWS", "0", "at least 1"),
        ("REFRESH EVERY -5 ROWS", "-", "at least 1"),
        ("REFRESH POLICY INCREMENTL", "INCREMENTL", "Did you mean INCREMENTAL?"),
        ("REFRESH POLICY FULL REFRESH POLICY AUTO", "REFRESH", "twice"),
        ("REFESH IMMEDIATE", "REFESH", "Did you mean REFRESH?"),
        ("STRATEGY a STRATEGY b", "STRATEGY", "twice"),
        ("MEMORY '64 MX'", "'64 MX'", "unknown unit"),
        ("MEMORY 'much'", "'much'", "not a number"),
        ("RESULT LISTD", "LISTD", "Did you mean LISTED?"),
        ("(a, b)", "(", "SELECT a AS b"),
        ("USING parquet", "USING", "REFRESH, STRATEGY, MEMORY, RESULT, AS"),
    ],
)
def test_a_wrong_view_clause_is_underlined(clause: str, text: str, said: str) -> None:
    error = fails(f"CREATE MATERIALIZED VIEW v {clause} AS SELECT 1")
    assert underlined(error) == text
    assert said in str(error)


def test_or_replace_and_if_not_exists_exclude_each_other() -> None:
    assert one("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1").if_not_exists
    fails("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1")


def test_a_plain_view_has_no_clauses() -> None:
    view = one("CREATE OR REPLACE VIEW v AS WITH x AS (SELECT 1 AS a) SELECT a FROM x")
    assert isinstance(view, CreateView)
    assert view.query_sql == "WITH x AS (SELECT 1 AS a) SELECT a FROM x"
    assert view.or_replace
    assert "MATERIALIZED" in fails("CREATE VIEW v REFRESH IMMEDIATE AS SELECT 1").hint


TEMPORAL = """
CREATE VIEW Helper AS
INITIALIZE Helper[i] AS
  SELECT src, 1 AS ct FROM M[i] WHERE loss > 10
UPDATE helper[j] AS
  SELECT src, ct + 1 FROM (SELECT * FROM M[j] AS New LEFT JOIN Helper[j-1] AS Prev ON a = b) x
PARTITION LENGTH 60
"""


def test_a_temporal_view_is_cut_into_its_parts() -> None:
    view = one(TEMPORAL)
    assert isinstance(view, CreateTemporalView)
    assert (view.name, view.partition_length) == ("Helper", 60)
    assert view.initialize.subscript == "i"
    assert view.initialize.query_sql == "SELECT src, 1 AS ct FROM M[i] WHERE loss > 10"
    assert view.update.subscript == "j"
    assert view.update.query_sql.endswith("ON a = b) x")
    assert view.defined_by is None


def test_a_temporal_view_may_say_what_defines_it() -> None:
    view = one(f"{TEMPORAL} DEFINED BY SELECT src, count(*) FROM M PATTERN [a, b+] GROUP BY src")
    assert view.defined_by_sql == "SELECT src, count(*) FROM M PATTERN [a, b+] GROUP BY src"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("PARTITION LENGTH 60", "", "needs PARTITION LENGTH"),
        ("UPDATE helper[j] AS", "UPDATE other[j] AS", 'expected "Helper"'),
        ("INITIALIZE Helper[i]", "INITIALIZE Helper", "expected ["),
        ("PARTITION LENGTH 60", "PARTITION LENGTH 60 RETENTION", "no part of a temporal view"),
        ("CREATE VIEW Helper", "CREATE MATERIALIZED VIEW Helper MEMORY '1 MB'", "REFRESH clauses"),
        ("PARTITION LENGTH 60", "PARTITION LENGTH 60 PARTITION LENGTH 6", "twice"),
    ],
)
def test_a_wrong_temporal_view_is_refused(old: str, new: str, said: str) -> None:
    assert said in str(fails(TEMPORAL.replace(old, new)))


# Short statements


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("REFRESH MATERIALIZED VIEW v", RefreshView("v")),
        ("refresh materialized view v full", RefreshView("v", full=True)),
        ("DROP VIEW v", DropView("v")),
        ("DROP MATERIALIZED VIEW IF EXISTS V", DropView("V", if_exists=True, materialized=True)),
        ("DROP TABLE IF EXISTS t", DropTable("t", if_exists=True)),
        ("VERIFY `My View`", Verify("My View")),
        ("EXPLAIN v", Explain("v")),
        (
            "ALTER MATERIALIZED VIEW v REFRESH ON DEMAND REFRESH POLICY FULL",
            AlterRefresh("v", (OnDemand(),), "full"),
        ),
    ],
)
def test_a_short_statement_is_read(sql: str, statement: object) -> None:
    assert one(sql) == statement


def test_explain_takes_a_view_that_is_not_created() -> None:
    explain = one("EXPLAIN CREATE MATERIALIZED VIEW v REFRESH IMMEDIATE AS SELECT a FROM t")
    assert isinstance(explain, Explain)
    assert isinstance(explain.of, CreateMaterializedView)
    assert explain.of.query_sql == "SELECT a FROM t"
    assert "only views" in fails("EXPLAIN SELECT 1", UnsupportedQuery).message


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("VERIFY v w", "w"),
        ("VERIFY", "VERIFY"),
        ("EXPLAIN v;  EXPLAIN a b", "b"),
        ("REFRESH MATERIALIZED VIEW v FUL", "FUL"),
        ("DROP INDEX i", "INDEX"),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", "RENAME"),
        ("CREATE MATERIALIZED TABLE t (a INT)", "MATERIALIZED"),
        ("CRAETE TABLE t (a INT)", "CRAETE"),
        ("'text'", "'text'"),
    ],
)
def test_a_broken_statement_is_underlined(sql: str, text: str) -> None:
    assert underlined(fails(sql)) == text


@pytest.mark.parametrize(
    "sql",
    ["SHOW TABLES", "MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE", "SET x = 1",
     "CALL f(1)", "OPTIMIZE t", "DESCRIBE t", "USE db", "TRUNCATE TABLE t"],
)  # fmt: skip
def test_a_foreign_statement_is_named(sql: str) -> None:
    error = fails(sql, UnsupportedQuery)
    assert sql.split()[0] in error.message
    assert underlined(error) == sql.split()[0]


# Changes


def test_insert_takes_values_or_a_query() -> None:
    insert = one("INSERT INTO t (a, B) VALUES (1, 'x'), (2, NULL)")
    assert isinstance(insert, Insert)
    assert (insert.table, insert.columns) == ("t", ("a", "B"))
    assert len(insert.source.expressions) == 2
    for query in ("SELECT a FROM s", "(SELECT a FROM s)", "WITH x AS (SELECT 1) SELECT * FROM x"):
        insert = one(f"INSERT INTO TABLE t {query}")
        assert (insert.table, insert.columns, insert.source_sql) == ("t", (), query)


def test_delete_keeps_its_condition() -> None:
    delete = one("DELETE FROM t WHERE a = 1 AND b IN (SELECT c FROM s)")
    assert isinstance(delete, Delete)
    assert delete.table == "t"
    assert delete.where is not None
    assert delete.where.sql() == "a = 1 AND b IN (SELECT c FROM s)"
    assert one("DELETE FROM t") == Delete("t")
    assert one("DELETE FROM t AS x").alias == "x"


def test_update_keeps_its_assignments_in_order() -> None:
    update = one("UPDATE t SET a = 1, t.b = b + a WHERE c")
    assert isinstance(update, Update)
    assert [(name, value.sql()) for name, value in update.assignments] == [
        ("a", "1"),
        ("b", "b + a"),
    ]
    assert update.where is not None
    assert update.where.sql() == "c"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("INSERT OVERWRITE t VALUES (1)", MalformedSQL),
        ("INSERT INTO t (a, A) VALUES (1, 2)", MalformedSQL),
        ("INSERT INTO t", MalformedSQL),
        ("INSERT INTO t VALUES (1) RETURNING a", MalformedSQL),
        ("DELETE t", MalformedSQL),
        ("DELETE FROM t WHERE", MalformedSQL),
        ("DELETE FROM t USING s WHERE t.a = s.a", UnsupportedQuery),
        ("DELETE FROM t WHERE a = 1 LIMIT 3", UnsupportedQuery),
        ("DELETE FROM db.t", MalformedSQL),
        ("UPDATE t SET a = 1, A = 2", MalformedSQL),
        ("UPDATE t SET a > 1", MalformedSQL),
        ("UPDATE t SET s.a = 1", MalformedSQL),
        ("UPDATE t SET a = 1 FROM s", UnsupportedQuery),
        ("UPDATE t", MalformedSQL),
    ],
)
def test_a_change_with_more_than_we_do_is_refused(sql: str, kind: type[ViewmillError]) -> None:
    fails(sql, kind)


# Queries and scripts


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "WITH x AS (SELECT 1 AS a) SELECT a FROM x",
        "VALUES (1, 2), (3, 4)",
        "(SELECT 1) UNION ALL (SELECT 2) ORDER BY 1",
        "SELECT a FROM t WHERE b > (SELECT avg(b) FROM t) GROUP BY a HAVING sum(b) > 1 LIMIT 3",
    ],
)
def test_a_query_is_a_statement(sql: str) -> None:
    query = one(f"  {sql} ; ")
    assert isinstance(query, Query)
    assert query.query_sql == sql


def test_statements_are_separated_by_semicolons_outside_strings_and_comments() -> None:
    script = """
    -- first; not a statement
    CREATE TABLE t (a STRING) /* ; */ ;;
    INSERT INTO t VALUES ('x;y'), ("it's");
    SELECT `a;b` FROM t -- the end;
    ;
    """
    table, insert, query = parse(script)
    assert [type(each) for each in (table, insert, query)] == [CreateTable, Insert, Query]
    assert isinstance(query, Query)
    assert query.query_sql == "SELECT `a;b` FROM t"


@pytest.mark.parametrize("sql", ["", "  \n", ";", ";;", "-- nothing", "/* nothing */ ;"])
def test_nothing_is_no_statement(sql: str) -> None:
    assert parse(sql) == ()


def test_the_span_of_a_later_statement_points_into_the_whole_text() -> None:
    sql = "VERIFY a;\n  VERIFY b;"
    assert [underlined_span(each) for each in parse(sql)] == ["VERIFY a", "VERIFY b"]


def underlined_span(statement: Any) -> str:
    return str(statement.span.text)


@pytest.mark.parametrize(
    ("sql", "text", "said"),
    [
        ("SELECT a FORM t", "t", "FROM"),
        ("SELECT a FROM t WEHRE b = 1", "b", "WHERE"),
        ("SELECT a FROM t GRUOP BY a", "BY", "GROUP"),
        ("SELECT (1 + 2", "2", "ends too early"),
        ("SELECT a FROM t WHERE", "WHERE", "ends too early"),
        ("SELECT a FROM t WHERE 1 = )", ")", "unexpected"),
        ("SELECT", "SELECT", "names no columns"),
        ("SELECT 1 UNION SELECT FROM t", "t", "names no columns"),
        ("SELECT a INTO b FROM t", "b", "INSERT INTO"),
        ("SELECT 1 FROM m t [i]", "[", "between the table and its alias"),
        ("SELECT 'abc", "'abc", "string is not closed"),
        ("SELECT `abc", "`abc", "name is not closed"),
        ("SELECT 1 /* abc", "/* abc", "comment is not closed"),
    ],
)
def test_a_broken_query_is_underlined(sql: str, text: str, said: str) -> None:
    error = fails(sql)
    assert underlined(error) == text
    assert said in str(error)


def test_the_underline_is_under_the_word_in_its_line() -> None:
    error = fails("CREATE MATERIALIZED VIEW v\n  REFRESH EVRY 10 ROWS\nAS SELECT 1")
    assert str(error).splitlines()[1:3] == [
        "  2 |   REFRESH EVRY 10 ROWS",
        "    |           ^^^^",
    ]


def test_deep_nesting_is_an_error_of_ours() -> None:
    with pytest.raises(MalformedSQL):
        parse("SELECT " + "(" * 5000 + "1" + ")" * 5000)


# Units


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512 MB", 512_000_000),
        ("512mb", 512_000_000),
        ("64 MiB", 64 * 2**20),
        ("1.5 GB", 1_500_000_000),
        ("2 KiB", 2048),
        ("4096", 4096),
        (4096, 4096),
        ("7 B", 7),
        ("0 MB", 0),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MB", "12 XB", "-5 MB", "nan MB", "1 2 MB"])
def test_a_size_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "10", "10 minutes 5", "-1 seconds", "0.5 microseconds"])
def test_a_duration_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_duration(text)


@pytest.mark.parametrize("call", ["MAP(x)", "var_map(1, 2, 3)"])
def test_a_function_without_enough_arguments_is_refused_as_sql(call: str) -> None:
    with pytest.raises(MalformedSQL, match="too few arguments"):
        parse(f"SELECT {call} FROM t")
