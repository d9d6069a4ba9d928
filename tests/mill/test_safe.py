"""vm.connect(safe=True): SQL of others reaches the tables and views of the mill, nothing else."""

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv_auto('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM parquet.`/tmp/x.parquet`",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM read_csv('/etc/passwd')",
        "CREATE VIEW v AS SELECT * FROM glob('/etc/*')",
        "COPY t TO '/tmp/t.csv'",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1GB'",
        "PRAGMA threads = 1",
        "SELECT getenv('HOME') AS home",
        "SELECT * FROM duckdb_settings()",
        "EXPORT DATABASE '/tmp/x'",
        "CREATE TABLE a (t TIMESTAMP, x BIGINT) TIMESTAMP BY t PARTITION LENGTH 60 "
        "RETENTION INTERVAL '1' DAYS ARCHIVE '/tmp/parts'",
    ],
)
def test_sql_reaches_nothing_but_tables_and_views(query, tmp_path):
    with vm.connect(tmp_path / "m.mill", safe=True) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        before = {each.name for each in mill._core.catalog.tables()}
        with pytest.raises(vm.ViewmillError):
            mill.sql(query)
        assert {each.name for each in mill._core.catalog.tables()} == before


def test_a_safe_mill_keeps_views_as_any_other():
    with vm.connect(safe=True) as mill:
        mill.sql("CREATE TABLE t (k BIGINT, x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW kept AS SELECT k, sum(x) AS s FROM t GROUP BY k")
        mill.sql("CREATE MATERIALIZED VIEW again AS SELECT first(x) AS x FROM t")
        mill.function("twice", lambda x: 2 * x, "BIGINT")
        mill.insert("t", [(1, 2), (1, 3)])
        assert mill.sql("SELECT twice(s) AS s FROM kept").rows() == [(10,)]
        assert mill["kept"].verify() == []
        with pytest.raises(Exception, match="locked"):
            mill._core.local_engine._connection.execute("SET threads = 1")


def test_a_table_with_an_archive_is_there_if_it_was_created_before(tmp_path):
    with vm.connect(tmp_path / "m.mill") as mill:
        mill.sql(
            "CREATE TABLE a (t TIMESTAMP, x BIGINT) TIMESTAMP BY t PARTITION LENGTH 60 "
            f"RETENTION INTERVAL '1' DAYS ARCHIVE '{tmp_path / 'parts'}'"
        )
    with vm.connect(tmp_path / "m.mill", safe=True) as mill:
        assert mill.sql("SELECT * FROM a").rows() == []


def test_a_mill_on_spark_cannot_be_safe():
    with pytest.raises(vm.InvalidArgument, match="cannot be safe"):
        vm.connect(spark=object(), safe=True)
