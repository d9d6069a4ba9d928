"""The console of a pipeline that Spark feeds."""

import pytest

from viewmill.pipeline.pipeline import Pipeline

from .conftest import opened

pytestmark = pytest.mark.spark


def test_a_running_pipeline_shows_its_batches_sinks_and_dead_letters(spark, uncompiled, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("1,ann,10\n2,bob,7\n")
    schema = "id BIGINT, customer STRING, amount BIGINT"
    with Pipeline(spark, tmp_path / "storage") as pipe:
        pipe.source("orders", spark.readStream.schema(schema).csv(str(folder)), key="id")
        pipe.view("revenue", "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer")
        pipe.sink("revenue", path=tmp_path / "out")
        with pipe.console() as console, opened(console.url) as client:
            query = pipe.start()
            query.spark_query.processAllAvailable()
            (folder / "2.csv").write_text("3,ann,5\n,cyd,1\n")
            query.spark_query.processAllAvailable()
            told = client.get("/api/mill").json()
            nodes = client.get("/api/nodes").json()
            letters = client.get("/api/refused").json()["letters"]
            assert "only reads" in client.post("/api/sql", json={"sql": "DROP TABLE orders"}).text
            query.stop()
    assert told["pipeline"]["batches"] == len(told["batches"]) == 2
    assert [each["rows"] for each in told["batches"]] == [2, 2]
    assert "revenue" in {each["name"] for each in nodes["nodes"]}
    (sink,) = nodes["sinks"]
    assert (sink["view"], sink["state"]) == ("revenue", "writing")
    assert sink["sink"].endswith("out")
    assert [each["source"] for each in letters] == ["orders"]
