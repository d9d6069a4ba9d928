"""A project with `runtime: spark` is a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pipeline.harness import shown_table

from viewmill.cli.definitions import read_definitions
from viewmill.cli.run_on_spark import run_on_spark
from viewmill.cli.spec import read_spec
from viewmill.cli.yaml_reader import InvalidSpec
from viewmill.errors import InvalidArgument, MissingDependency
from viewmill.pipeline.spec import SparkProject, build

SPEC = """
name: shop
storage: storage/
runtime: spark
spark: {master: "local[2,4]", conf: {spark.sql.shuffle.partitions: 2}}
sources:
  orders: {path: data/*.csv, schema: "id BIGINT, customer STRING, amount BIGINT", change: op}
libraries:
  - glob: {include: "views/*.sql"}
sinks:
  spent: {path: out/spent, format: parquet}
"""
VIEWS = """
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 1;
CREATE MATERIALIZED VIEW spent AS SELECT customer, sum(amount) AS s FROM large GROUP BY customer;
"""


@pytest.fixture
def project(tmp_path):
    for folder in ("data", "views"):
        (tmp_path / folder).mkdir()
    (tmp_path / "viewmill.yml").write_text(SPEC)
    (tmp_path / "views" / "spent.sql").write_text(VIEWS)
    spec = read_spec(tmp_path / "viewmill.yml")
    assert spec.spark is not None
    return SparkProject(
        spec.name, spec.folder, spec.storage, spec.sources,
        [each.sql for each in read_definitions(spec)], spec.sinks, spec.spark.master,
        spec.spark.conf,
    )  # fmt: skip


@pytest.mark.spark
def test_project_runs_and_running_again_takes_what_is_new(spark, tmp_path, project):
    (tmp_path / "data" / "a.csv").write_text(
        "id,customer,amount,op\n1,ann,10,insert\n2,bob,1,insert\n3,cy,five,insert\n"
    )
    with build(spark, project) as pipe:
        status = pipe.run_once().status()
    assert status["dead_letters"] == 1
    assert shown_table(tmp_path / "out" / "spent") == [("ann", 10)]
    (tmp_path / "data" / "b.csv").write_text("id,customer,amount,op\n1,ann,10,d\n4,bob,7,i\n")
    with build(spark, project) as pipe:
        assert pipe.run_once().status()["rows_in"] == {"orders": 2}
        assert pipe["spent"].verify() == []
        before = pipe["spent"].status()["engine_calls"]
        pipe.recompute("SPENT")
        assert pipe["spent"].status()["engine_calls"] > before
        assert pipe["spent"].rows() == [("bob", 7)]
    assert shown_table(tmp_path / "out" / "spent") == [("bob", 7)]


STREAM = """
storage: storage/
runtime: spark
sources:
  ticks:
    stream: {format: rate-micro-batch, rowsPerBatch: 20, numPartitions: 1}
    schema: "value BIGINT"
libraries:
  - glob: {include: "views/*.sql"}
"""
TICKS = "CREATE MATERIALIZED VIEW odd AS SELECT value % 2 AS o, count(*) AS n FROM ticks GROUP BY 1"


def _streaming(tmp_path, text=STREAM):
    (tmp_path / "views").mkdir()
    (tmp_path / "viewmill.yml").write_text(text)
    (tmp_path / "views" / "odd.sql").write_text(TICKS)
    spec = read_spec(tmp_path / "viewmill.yml")
    sql = [each.sql for each in read_definitions(spec)]
    return SparkProject("ticks", spec.folder, spec.storage, spec.sources, sql, spec.sinks)


@pytest.mark.spark
def test_a_connector_is_a_source_of_a_spec_file(spark, tmp_path):
    with build(spark, _streaming(tmp_path)) as pipe:
        pipe.run_once()
        assert sorted(pipe["odd"].rows()) == [(0, 10), (1, 10)]
        assert pipe["odd"].verify() == []


@pytest.mark.spark
def test_a_missing_connector_is_named_with_the_setting(spark, tmp_path):
    kafka = '{format: kafka, subscribe: ticks, kafka.bootstrap.servers: "host:9092"}'
    rate = "{format: rate-micro-batch, rowsPerBatch: 20, numPartitions: 1}"
    with pytest.raises(MissingDependency, match="no connector 'kafka'") as failure:
        build(spark, _streaming(tmp_path, STREAM.replace(rate, kafka)))
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    assert f'"spark.jars.packages": "{package}"' in failure.value.hint


def test_settings_are_read(project):
    assert project.master == "local[2,4]"
    assert project.conf == {"spark.sql.shuffle.partitions": "2"}


def test_format_that_spark_does_not_write_is_refused(tmp_path):
    (tmp_path / "viewmill.yml").write_text(SPEC.replace("format: parquet", "format: csv"))
    with pytest.raises(InvalidSpec, match="csv"):
        read_spec(tmp_path / "viewmill.yml")


def test_what_spark_cannot_take_again_is_refused(tmp_path, project):
    spec = read_spec(tmp_path / "viewmill.yml")
    definitions = read_definitions(spec)
    with pytest.raises(InvalidArgument, match="a source is not taken again"):
        run_on_spark(spec, definitions, {"orders"}, {"spent"}, json=True)
    assert spec.spark is not None
    in_shards = replace(spec, spark=replace(spec.spark, placement="shards"))
    with pytest.raises(InvalidArgument, match="shards keep no rows"):
        run_on_spark(in_shards, definitions, {"spent"}, {"spent"}, json=True)


def test_an_archive_belongs_to_shards(tmp_path):
    file = tmp_path / "viewmill.yml"
    settings = "placement: shards, shards: 2, archive: true"
    file.write_text(SPEC.replace('master: "local[2,4]"', f'master: "local[2,4]", {settings}'))
    spec = read_spec(file)
    assert spec.spark is not None
    assert (spec.spark.shards, spec.spark.archive) == (2, True)
    file.write_text(SPEC.replace('master: "local[2,4]"', 'master: "local[2,4]", archive: true'))
    with pytest.raises(InvalidSpec, match="the key archive belongs to placement: shards"):
        read_spec(file)
