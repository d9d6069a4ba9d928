"""`viewmill adopt spark-pipeline.yml`: an unmodified project of Spark Declarative Pipelines."""

from __future__ import annotations

import json
from contextlib import chdir

import pyarrow.parquet as pq
import pytest
from pyspark.pipelines.init_cli import init

from viewmill.cli.adopt_pipeline import read_project
from viewmill.cli.yaml_reader import InvalidSpec
from viewmill.errors import InvalidArgument, ViewmillError
from viewmill.pipeline.declarative.adopt import adopt
from viewmill.pipeline.declarative.auto_cdc import Columns, history
from viewmill.pipeline.declarative.names import Names, rewrite
from viewmill.pipeline.declarative.sql_file import statements

SPEC = """
name: shop
storage: storage
libraries:
  - glob: {include: transformations/**}
"""
SQL = """
-- reads what is declared later; and has a ; in a comment
CREATE MATERIALIZED VIEW revenue COMMENT 'per city; and month' TBLPROPERTIES ('team' = 'x')
PARTITIONED BY (city) AS
SELECT c.city, SUM(o.amount) AS s, COUNT(*) AS n
FROM default.clean o JOIN cities c ON c.name = o.customer GROUP BY ALL;
CREATE MATERIALIZED VIEW sales.top AS
SELECT customer, amount FROM clean WHERE amount = (SELECT MAX(amount) FROM clean);
CREATE TEMPORARY VIEW clean AS SELECT id, customer, COALESCE(amount, 0) AS amount FROM raw;
CREATE STREAMING TABLE both (id BIGINT, customer STRING);
CREATE FLOW one AS INSERT INTO both BY NAME SELECT id, customer FROM STREAM(raw) WHERE id > 1;
CREATE FLOW two AS INSERT INTO both BY NAME SELECT customer, CAST(id + 100 AS INT) AS id FROM raw;
CREATE MATERIALIZED VIEW listed AS SELECT collect_list(id) AS ids FROM raw;
CREATE MATERIALIZED VIEW broken AS SELECT nothing FROM raw;
CREATE MATERIALIZED VIEW over_broken AS SELECT * FROM broken;
SET a.b = 3;
"""
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, Window, functions as F

@dp.table
def raw():
    columns = "id BIGINT, customer STRING, amount DOUBLE"
    return spark.readStream.format("json").schema(columns).load("{root}/orders")

@dp.materialized_view(name="cities", comment="where they live")
def some():
    return SparkSession.active().read.option("header", True).csv("{root}/cities")

@dp.materialized_view
def by_frame():
    found = spark.read.table("raw").withColumn("k", F.upper("customer")).filter("id > 0")
    sums = found.groupBy("k").agg(F.sum("amount").alias("t"), F.countDistinct("id").alias("u"))
    cities = spark.table("cities").select(F.upper("name").alias("k"), "city")
    return sums.withColumn("half", F.col("t") / 2).filter("u > 0").join(cities, "k", "left")

@dp.materialized_view
def ranked():
    window = Window.partitionBy("customer").orderBy(F.desc("amount"), "id")
    first = spark.table("raw").withColumn("r", F.row_number().over(window)).where("r = 1")
    return first.select("id", F.when(F.col("amount") > 6, "it's").otherwise("no").alias("big"))

@dp.materialized_view
def by_sql():
    named = "SELECT name FROM cities_named"
    return spark.sql(f"SELECT DISTINCT customer FROM raw WHERE customer IN ({{named}})")

@dp.temporary_view
def cities_named():
    return spark.sql("SELECT name FROM cities")

@dp.materialized_view
def backwards():
    return spark.table("ranked").select(F.udf(lambda big: big[::-1])("big").alias("back"))

@dp.materialized_view
def renamed():
    found = spark.table("raw").select("id", F.upper("customer").alias("customer"))
    named = F.nvl("customer", F.lit("?")).alias("customer")
    return found.select(named, F.left("customer", F.lit(1)))

@dp.materialized_view
def counted():
    return spark.table("backwards").groupBy("back").count()

@dp.materialized_view
def no_frame():
    return 7

dp.create_sink("out", "json", {{"path": "{root}/sent"}})

@dp.append_flow(target="out")
def send():
    return spark.readStream.table("both")
"""


@pytest.fixture
def shop(tmp_path):
    """Two orders and two cities."""
    for folder in ("orders", "cities", "transformations/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    (tmp_path / "transformations" / "a.sql").write_text(SQL)
    (tmp_path / "transformations" / "deep" / "b.py").write_text(PYTHON.format(root=tmp_path))
    orders(tmp_path, (1, "ann", 10.5), (2, "bob", 5.0))
    (tmp_path / "cities" / "1.csv").write_text("name,city\nann,Rome\nbob,Oslo\n")
    return tmp_path


def orders(root, *rows):
    lines = [json.dumps(dict(zip(("id", "customer", "amount"), row, strict=True))) for row in rows]
    (root / "orders" / f"{rows[0][0]}.json").write_text("\n".join(lines))


def tables(found):
    """The rows of every table that was written, sorted."""
    return {
        name.replace("`", ""): sorted(
            (tuple(row.values()) for row in pq.read_table(place).to_pylist()), key=repr
        )
        for name, place in found["tables"].items()
        if place.startswith("/")
    }


@pytest.mark.spark
def test_a_project_of_any_order_is_kept_incrementally_and_says_what_is_not(shop, spark):
    project = read_project(shop / "spark-pipeline.yml")
    found = adopt(project, spark=spark)
    kept = {each["dataset"]: each["kept"] for each in found["datasets"]}
    assert kept == dict.fromkeys(kept, "incrementally") | {
        "listed": "again", "backwards": "by Spark"
    }  # fmt: skip
    why = {each["dataset"]: each["why"] for each in found["datasets"]}
    assert "PythonUDF" in why["backwards"]
    assert "collect_list" in why["listed"]
    assert "PARTITIONED BY" in why["revenue"]
    lost = {each["what"]: each["why"] for each in found["not understood"]}
    assert lost.keys() == {"SET a.b = 3", "broken", "over_broken", "no_frame"}
    assert "nothing" in lost["broken"]
    assert "broken" in lost["over_broken"]
    assert found["summary"].startswith("10 of 15 datasets are kept incrementally, 2 are computed")

    orders(shop, (3, "bob", 50.0), (4, "ann", None))
    (shop / "cities" / "2.csv").write_text("name,city\ncy,Bonn\n")
    found = adopt(project, spark=spark)
    assert found["rows"] < 10
    assert tables(found) == {
        "raw": [(1, "ann", 10.5), (2, "bob", 5.0), (3, "bob", 50.0), (4, "ann", None)],
        "cities": [("ann", "Rome"), ("bob", "Oslo"), ("cy", "Bonn")],
        "revenue": [("Oslo", 55.0, 2), ("Rome", 10.5, 2)],
        "sales.top": [("bob", 50.0)],
        "both": [(101, "ann"), (102, "bob"), (103, "bob"), (104, "ann"), (2, "bob"), (3, "bob"),
                 (4, "ann")],
        "listed": [([1, 2, 3, 4],)],
        "by_frame": [("ANN", 10.5, 2, 5.25, "Rome"), ("BOB", 55.0, 2, 27.5, "Oslo")],
        "ranked": [(1, "it's"), (3, "it's")],
        "by_sql": [("ann",), ("bob",)],
        "backwards": [("s'ti",), ("s'ti",)],
        "counted": [("s'ti", 2)],
        "renamed": [("ANN", "A"), ("ANN", "A"), ("BOB", "B"), ("BOB", "B")],
    }  # fmt: skip
    files = (shop / "sent").glob("*.json")
    sent = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(each["id"] for each in sent) == [2, 3, 4, 101, 102, 103, 104]


@pytest.mark.spark
def test_what_spark_pipelines_init_writes_runs_as_it_is(tmp_path, spark, capsys):
    with chdir(tmp_path):
        init("demo")
    project = read_project(tmp_path / "demo" / "spark-pipeline.yml")
    for _ in range(2):
        found = adopt(project, spark=spark)
        assert found["incremental"] == 1.0
        assert found["not understood"] == []
        assert tables(found) == {
            "example_python_materialized_view": [(number,) for number in range(10)],
            "example_sql_materialized_view": [(number,) for number in range(0, 10, 2)],
        }
    assert found["rows"] == 0


EVENTS = """
import json
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.temporary_view
def events():
    columns = "id BIGINT, v STRING, w STRING, op STRING, ts BIGINT"
    return spark.readStream.format("json").schema(columns).load("{root}/events")

dp.create_streaming_table("newest")
dp.create_auto_cdc_flow(
    target="newest", source="events", keys=["id"], sequence_by="ts",
    apply_as_deletes=F.expr("op = 'D'"), except_column_list=[F.col("op"), "ts"],
)
dp.create_streaming_table("of_v")
dp.create_auto_cdc_flow(
    "of_v", "events", ["id"], F.col("ts"), apply_as_deletes="op = 'D'",
    column_list=["id", "v", "w"], stored_as_scd_type=2, track_history_column_list=["v"],
)
"""
EVENTS_SQL = """
CREATE STREAMING TABLE history FLOW AUTO CDC FROM STREAM(events) KEYS (id)
APPLY AS DELETE WHEN op = 'D' SEQUENCE BY ts COLUMNS * EXCEPT (op, ts) STORED AS SCD TYPE 2;
"""


def replayed(events, tracked):
    """The history of each key, from a plain list: the oracle."""
    found = []
    for key in sorted({each["id"] for each in events}):
        last = None
        mine = sorted((each for each in events if each["id"] == key), key=lambda each: each["ts"])
        for each in mine:
            gone = each["op"] == "D"
            if last is not None and not gone and all(last[c] == each[c] for c in tracked):
                last |= {"v": each["v"], "w": each["w"]}
                continue
            if last is not None:
                last["end"] = each["ts"]
            last = None if gone else {**each, "start": each["ts"], "end": None}
            found += [] if last is None else [last]
    rows = [(each["id"], each["v"], each["w"], each["start"], each["end"]) for each in found]
    return sorted(rows, key=repr)


@pytest.mark.spark
def test_auto_cdc_keeps_the_newest_row_and_the_history_whatever_the_order(tmp_path, spark):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "events").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    (tmp_path / "transformations" / "a.py").write_text(EVENTS.format(root=tmp_path))
    (tmp_path / "transformations" / "b.sql").write_text(EVENTS_SQL)
    values = [(1, "a", "x", "U", 1), (2, "b", "x", "U", 2), (1, "a", "y", "U", 5),
              (2, None, None, "D", 6), (1, "c", "y", "U", 3), (1, None, "y", "U", 4),
              (2, "b", "x", "U", 8), (2, "b", "x", "U", 9), (3, None, None, "D", 1),
              (1, None, "z", "U", 7), (2, "b", "z", "U", 1)]  # fmt: skip
    events = [dict(zip(("id", "v", "w", "op", "ts"), each, strict=True)) for each in values]
    for count, part in enumerate((events[:6], events[6:])):
        text = "\n".join(map(json.dumps, part))
        (tmp_path / "events" / f"{count}.json").write_text(text)
        found = adopt(read_project(tmp_path / "spark-pipeline.yml"), spark=spark)
        assert found["incremental"] == 1.0, found
        seen, shown = events[: 6 + 5 * count], tables(found)
        assert shown["history"] == replayed(seen, ("v", "w"))
        assert shown["of_v"] == replayed(seen, ("v",))
        open_ = {row[:3] for row in shown["history"] if row[4] is None}
        assert set(shown["newest"]) == open_


EXPECTED = """
from pyspark import pipelines as dp

@dp.table
@dp.expect("has a name", "customer IS NOT NULL")
@dp.expect_or_drop("is worth something", "amount > 0")
@dp.expect_all_or_fail({{"has an id": "id IS NOT NULL"}})
def orders():
    columns = "id BIGINT, customer STRING, amount DOUBLE"
    return spark.readStream.format("json").schema(columns).load("{root}/orders")
"""


@pytest.mark.spark
def test_expectations_are_counted_drop_rows_and_refuse_a_batch(tmp_path, spark):
    for folder in ("orders", "transformations"):
        (tmp_path / folder).mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    (tmp_path / "transformations" / "a.py").write_text(EXPECTED.format(root=tmp_path))
    orders(tmp_path, (1, "ann", 10.5), (2, None, 5.0), (3, "bob", None), (4, "bob", -1.0))
    project = read_project(tmp_path / "spark-pipeline.yml")
    found = adopt(project, spark=spark)
    assert tables(found) == {"orders": [(1, "ann", 10.5), (2, None, 5.0)]}
    counted = {each["expectation"]: each["rows that fail"] for each in found["expectations"]}
    assert counted == {"has a name": "1", "is worth something": "2", "has an id": "0"}
    orders(tmp_path, (None, "cy", 1.0))
    with pytest.raises(ViewmillError, match="has an id"):
        adopt(project, spark=spark)
    assert len(pq.read_table(found["tables"]["orders"])) == 2


@pytest.mark.spark
def test_a_plan_is_printed_and_nothing_written(shop, spark):
    found = adopt(read_project(shop / "spark-pipeline.yml"), run=False, spark=spark)
    assert found["incremental"] == 10 / 15
    assert not (shop / "storage").exists()
    assert not [each for each in spark.catalog.listTables() if "stand_in" in each.name]


@pytest.mark.parametrize(
    ("more", "said"),
    [("", "needs the key 'storage'"), ("storage: s3://lake/x\n", "needs a local disk"),
     ("storage: s\nlibraries: [{glob: {include: 'a/*.py'}}]\n", "no pattern of Spark's"),
     ("storage: s\nlibrary: x\n", "unknown key 'library'"),
     ("storage: s\nconfiguration: [a]\n", "must be a mapping")],
)  # fmt: skip
def test_a_spec_that_spark_would_refuse_is_refused_where_it_stands(tmp_path, more, said):
    (tmp_path / "spark-pipeline.yml").write_text("name: x\n" + more)
    with pytest.raises(InvalidSpec, match=said):
        read_project(tmp_path / "spark-pipeline.yml")


def test_a_spec_without_definitions_is_refused(tmp_path):
    (tmp_path / "spark-pipeline.yml").write_text("name: x\nstorage: s\n")
    with pytest.raises(InvalidArgument, match="no definitions"):
        read_project(tmp_path / "spark-pipeline.yml")


def test_names_are_completed_quoted_and_told_apart():
    names = Names("spark_catalog", "shop")
    assert (
        names.key("`Orders`") == names.key("shop.orders") == names.key("spark_catalog.SHOP.orders")
    )
    given = ("a.orders", "b.orders", "x.`my table`", "../etc", "1")
    said = ["orders", "b_orders", "my_table", "_etc", "t_1"]
    assert [names.own(each) for each in given] == said


@pytest.mark.parametrize(
    ("before", "after"),
    [("SELECT * FROM STREAM(a.b) AS x", "SELECT * FROM <a.b!> AS x"),
     ("SELECT 'FROM b' FROM STREAM `b c` WHERE x IN (SELECT y FROM d)",
      "SELECT 'FROM b' FROM <b c!> AS `b c` WHERE x IN (SELECT y FROM <d> AS `d`)"),
     ("WITH a AS (SELECT 1 FROM b) SELECT * FROM a, stream",
      "WITH a AS (SELECT 1 FROM <b> AS `b`) SELECT * FROM a, <stream> AS `stream`")],
)  # fmt: skip
def test_names_are_replaced_where_tables_stand(before, after):
    def called(name, is_stream):
        return f"<{name.replace('`', '')}{'!' if is_stream else ''}>"

    assert " ".join((rewrite(before, called) or "").split()) == after


def test_statements_end_at_semicolons_outside_of_texts():
    text = "SELECT ';' -- a; b\n;\n\n/* ; */ SELECT `;`"
    assert [(line, sql.split()[0]) for line, sql in statements(text)] == [
        (1, "SELECT"),
        (4, "SELECT"),
    ]


def test_a_history_without_tracked_columns_opens_a_record_only_after_a_delete():
    sql = history("SELECT 1", Columns(["id"], ["id"], []))
    assert "__was_0" not in sql
