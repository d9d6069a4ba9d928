"""Blocks and sinks, rates, changed rows, why, memory, refused rows, proposals, pipelines."""

import json
import random
import time
from dataclasses import replace

import pytest

import viewmill as vm
from viewmill.console import live
from viewmill.console.console import Console, follow_console
from viewmill.console.subjects import OwnPipeline

from .conftest import opened
from .test_answers import HOSTILE, wait_for

BLOCKS = (
    "SELECT g, MAX(s) AS s FROM (SELECT k.g, o.customer, SUM(o.amount) AS s FROM orders o "
    "JOIN kinds k ON o.customer = k.customer GROUP BY k.g, o.customer) x GROUP BY g"
)


@pytest.fixture
def kinds(shop):
    shop.sql("CREATE TABLE kinds (customer STRING, g STRING, PRIMARY KEY (customer))")
    shop.sql(f"CREATE MATERIALIZED VIEW best AS {BLOCKS}")
    shop.insert("kinds", [("ann", "x"), ("bob", "y")])
    return shop


def why(client, name, row):
    return client.post("/api/why", json={"name": name, "row": row})


def propose(client, name, query, path="propose"):
    sql = f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"
    return client.post(f"/api/{path}", json={"name": name, "sql": sql})


def test_the_graph_has_blocks_and_sinks(kinds, client, tmp_path):
    kinds.sink("best", format="parquet", path=tmp_path / "out")
    kinds.flush(20)
    found = client.get("/api/nodes").json()
    best = next(each for each in found["nodes"] if each["name"] == "best")
    first, last = best["blocks"]
    assert sorted(first["reads"]) == ["kinds", "orders"]
    assert (last["name"], last["blocks"], last["reads"]) == ("best", [first["name"]], [])
    assert [each["view"] for each in found["sinks"]] == ["best"]
    assert found["sinks"][0]["state"] == "writing"
    assert client.get("/api/nodes?text=orders").json()["sinks"] == []


def test_rates_and_latencies_are_of_the_commits_since_a_page_was_opened(shop, client, monkeypatch):
    monkeypatch.setattr(live, "_HEARTBEAT_S", 0.1)  # soon notices that the page is gone
    assert shop.core.watched is None
    with client.stream("GET", "/api/live") as stream:
        lines = stream.iter_lines()
        next(lines)
        wait_for(lambda: shop.core.watched)
        shop.insert("orders", [(i, "cyd", 1) for i in range(10, 20)])
        of_all, of_view = (client.get("/api/tempo" + q).json() for q in ("", "?name=revenue"))
        assert (sum(of_all["rows"]), sum(of_all["commits"])) == (10, 1)
        assert (sum(of_view["rows"]), sum(of_view["commits"])) == (1, 1)
        assert 0 < of_all["p50_ms"] <= of_all["p99_ms"] <= max(of_all["ms"])
        assert sum(client.get("/api/tempo?name=largest").json()["commits"]) == 0
    wait_for(lambda: shop.core.watched is None)


def test_changed_rows_are_followed_from_the_first_question_on(shop, client):
    def changes():
        return client.get("/api/changed?name=REVENUE").json()["changes"]

    assert changes() == []
    shop.insert("orders", [(5, "ann", 5)])
    (only,) = changes()
    assert sorted(only["rows"]) == [["ann", "10", "-1"], ["ann", "15", "1"]]
    assert only["version"] == shop.version
    shop.insert("orders", [(100 + i, f"c{i}", 1) for i in range(50)])
    newest = changes()[0]
    assert (len(newest["rows"]), newest["total"]) == (20, 50)
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW revenue AS SELECT customer FROM orders")
    assert changes() == []
    assert client.get("/api/changed?name=orders").status_code in (400, 404)


def test_why_shows_the_rows_of_the_group(kinds, client):
    kinds.insert("orders", [(3, "ann", 5), (4, None, 9)])
    (found,) = why(client, "revenue", ["ann", "15"]).json()["of"]
    assert sorted(found["rows"]) == [["1", "ann", "10"], ["3", "ann", "5"]]
    (found,) = why(client, "revenue", [None, "9"]).json()["of"]
    assert found["rows"] == [["4", None, "9"]]
    assert found["reads"] == ["orders"]
    (found,) = why(client, "best", ["x", "15"]).json()["of"]
    assert [each[:3] for each in found["rows"]] == [["x", "ann", "15"]]
    gone = why(client, "revenue", ["ann", "10"]).json()["error"]
    assert gone["message"] == "the row is no longer there"
    assert why(client, "revenue", [1]).status_code == 400


def test_why_goes_through_filters_unions_expressions_and_names(shop, client):
    shop.sql(
        f"CREATE MATERIALIZED VIEW `v{HOSTILE}` AS SELECT upper(customer) AS who, amount * 2 AS "
        "twice FROM orders WHERE amount > 7 UNION ALL SELECT 'BOB', id FROM orders"
    )
    first, second = why(client, f"v{HOSTILE}", ["ANN", "20"]).json()["of"]
    assert first["rows"] == [["1", "ann", "10"]]
    assert second["rows"] == []
    first, second = why(client, f"v{HOSTILE}", ["BOB", "2"]).json()["of"]
    assert (first["rows"], second["rows"]) == ([], [["2", "bob", "7"]])
    shop.sql(
        "CREATE MATERIALIZED VIEW cube AS SELECT customer, COUNT(*) AS n FROM orders "
        "GROUP BY ROLLUP (customer)"
    )
    assert "ROLLUP" in why(client, "cube", [None, "2"]).json()["error"]["message"]


def test_why_finds_exactly_the_rows_of_each_sum(shop, client):
    chance = random.Random(7)
    shop.sql("CREATE TABLE lines (customer STRING, n BIGINT)")
    names = ["ann", "bob", "cyd", None]
    shop.insert("orders", [(i, chance.choice(names), chance.randint(1, 5)) for i in range(10, 60)])
    shop.insert("lines", [(chance.choice(names), chance.randint(1, 5)) for _ in range(20)])
    shop.sql(
        "CREATE MATERIALIZED VIEW sums AS SELECT upper(o.customer) AS who, o.amount % 2 AS odd, "
        "SUM(l.n) AS s, COUNT(*) AS n FROM orders o LEFT JOIN lines l ON o.customer = l.customer "
        "WHERE o.amount < 5 GROUP BY o.customer, o.amount % 2 HAVING COUNT(*) < 45"
    )
    rows = client.get("/api/rows?name=sums").json()["rows"]
    assert len(rows) > 3
    for row in rows:
        (found,) = why(client, "sums", row).json()["of"]
        values = [int(each[-1]) for each in found["rows"] if each[-1] is not None]
        assert (str(sum(values)) if values else None) == row[2]
        assert str(len(found["rows"])) == row[3]


def test_why_and_the_curve_refuse_what_they_cannot_say(shop, client):
    shop.sql("CREATE TABLE m (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60")
    shop.sql(
        "CREATE VIEW total AS INITIALIZE total[i] AS SELECT SUM(x) AS x FROM m[i] "
        "UPDATE total[j] AS SELECT SUM(x) AS x FROM m[j] PARTITION LENGTH 60"
    )
    shop.insert("m", [("2026-01-01 10:00:00", 1)])
    assert "in parts" in why(client, "total", ["1"]).json()["error"]["message"]
    shop.sql(
        "CREATE MATERIALIZED VIEW pairs RESULT FACTORIZED AS "
        "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.customer = b.customer"
    )
    assert "factorized" in client.get("/api/curve?name=pairs").json()["error"]["message"]


def test_the_curve_says_what_less_memory_costs(kinds, client):
    found = client.get("/api/curve?name=best").json()
    points = found["points"]
    assert (points[0]["budget"], points[0]["mode"]) == (0, "full")
    assert points[-1]["mode"] == "incremental"
    assert points[-1]["refresh_us"] < points[0]["refresh_us"]
    assert found["budget"] is None


def test_late_rows_that_were_refused_are_listed(mill):
    mill.sql(
        "CREATE TABLE m (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60 "
        "LATENESS INTERVAL '1' MINUTE APPEND ONLY"
    )
    with mill.console() as console, opened(console.url) as client:
        assert client.get("/api/refused").json() == {"letters": [], "total": 0, "late": []}
        mill.insert("m", [("2026-01-01 10:00:00", 1)])
        mill.insert("m", [("2026-01-01 08:00:00", 2)])
        (late,) = client.get("/api/refused").json()["late"]
        assert (late["table"], late["total"]) == ("m", 1)
        assert late["rows"][0]["x"] == "2"


def test_a_proposal_shows_the_rows_that_differ_and_is_approved_with_write_only(shop, client):
    more = "SELECT customer, SUM(amount) AS revenue FROM orders WHERE amount > 7 GROUP BY customer"
    found = propose(client, "revenue", more).json()
    assert (found["come"]["rows"], found["go"]["rows"]) == ([], [["bob", "7"]])
    other = propose(client, "revenue", "SELECT customer FROM orders").json()
    assert (other["come"], len(other["before"]), len(other["after"])) == (None, 2, 1)
    assert "only reads" in propose(client, "revenue", more, "approve").json()["error"]["message"]
    create = "CREATE OR REPLACE MATERIALIZED VIEW"
    two = f"{create} revenue AS {more}; DELETE FROM orders"
    for sql in ("DROP TABLE orders", f"{create} v AS {more}", "SELECT 1", two):
        for path in ("propose", "approve"):
            assert client.post(f"/api/{path}", json={"name": "revenue", "sql": sql}).is_error
    assert len(shop["revenue"].rows()) == 2
    with shop.console(write=True) as console, opened(console.url) as writer:
        for path in ("propose", "approve"):
            sql = "DROP TABLE orders"
            assert writer.post(f"/api/{path}", json={"name": "revenue", "sql": sql}).is_error
        assert propose(writer, "revenue", more, "approve").json()["done"]
    assert shop["revenue"].rows() == [("ann", 10)]


class FakePipeline:
    """What a pipeline tells, without Spark."""

    def __init__(self, mill):
        self.mill = mill

    def status(self):
        return {"batch": 3, "batches": 4, "rows_in": {HOSTILE: 9}, "views": {}, "dead_letters": 1}

    def batches(self):
        return [{"batch": 3, "at": time.time(), "ms": 12.5, "letters": 1, "rows": 9}]

    def sinks(self):
        return [{"view": "revenue", "sink": HOSTILE, "state": "writing", "version": 3}]


def test_a_pipeline_shows_its_batches_sinks_and_dead_letters(shop):
    shop.sql(
        "CREATE TABLE _viewmill_dead_letters (source STRING NOT NULL, batch BIGINT NOT NULL,"
        " reason STRING NOT NULL, row STRING NOT NULL) APPEND ONLY"
    )
    shop.insert("_viewmill_dead_letters", [("orders", 3, "no number", HOSTILE)])
    with Console(OwnPipeline(FakePipeline(shop))) as console, opened(console.url) as client:
        told = client.get("/api/mill").json()
        assert (told["pipeline"]["batches"], told["batches"][0]["rows"]) == (4, 9)
        assert client.get("/api/nodes").json()["sinks"][0]["sink"] == HOSTILE
        found = client.get("/api/refused").json()
        assert found["letters"][0]["row"] == HOSTILE
        assert found["total"] == 1


def test_ten_thousand_views_are_looked_at_and_listed_in_little_time(shop):
    """The same view under other names: making so many would take minutes."""
    catalog = shop.core.catalog
    entry = catalog.view("revenue")
    for i in range(10_000):
        catalog.add(replace(entry, name=f"v{i:05}", placed={}, listeners=[]))
    with shop.console() as console, opened(console.url) as client:
        start = time.process_time()
        found = client.get("/api/nodes", params={"text": "v0", "page": 7}).json()
        shown = client.get("/api/details", params={"name": "v09999"}).json()
        took = time.process_time() - start
        assert (found["found"], len(found["nodes"])) == (10_000, 50)
        assert shown["name"] == "v09999"
        assert took < 3, took


def test_a_page_asks_nothing_of_a_directory_that_it_only_reads(uncompiled, tmp_path):
    with vm.connect(tmp_path / "m") as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
        with follow_console(tmp_path / "m") as console, opened(console.url) as client:
            assert client.get("/api/mill").json()["follows"] is False
            assert "process that writes" in json.dumps(client.get("/api/changed?name=n").json())
