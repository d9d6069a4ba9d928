"""What the console says about a mill is what the mill holds."""

import json
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest

import viewmill as vm

from .conftest import opened

HOSTILE = "<script>alert(1)</script>"


def sql(client, text):
    return client.post("/api/sql", json={"sql": text})


def wait_for(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


def test_the_graph_says_what_reads_what_and_how_fresh_it_is(shop, client):
    found = client.get("/api/nodes").json()
    nodes = {each["name"]: each for each in found["nodes"]}
    assert (found["tables"], found["views"]) == (1, 2)
    assert nodes["orders"]["kind"] == "table"
    assert nodes["orders"]["rows"] == 2
    assert nodes["revenue"]["reads"] == ["orders"]
    assert nodes["revenue"]["freshness"] == "fresh"
    assert nodes["revenue"]["refresh_kind"] == "incremental"
    assert nodes["largest"]["freshness"] == "stale"
    assert nodes["largest"]["waiting_rows"] == 2
    stale = client.get("/api/nodes", params={"only": "stale"}).json()
    assert [each["name"] for each in stale["nodes"]] == ["largest"]


def test_the_page_of_a_view_has_its_sql_plan_states_and_rows(shop, client):
    found = client.get("/api/details", params={"name": "REVENUE"}).json()
    assert found["sql"].startswith("CREATE MATERIALIZED VIEW revenue")
    assert found["plan"]["strategy"] == shop["revenue"].status()["strategy"]
    assert sum(each["bytes"] for each in found["plan"]["states"]) > 0
    assert found["plan"]["offered"] or found["plan"]["rejected"]
    rows = client.get("/api/rows", params={"name": "revenue"}).json()
    assert sorted(rows["rows"]) == [["ann", "10"], ["bob", "7"]]
    drawn = client.get("/api/plan.svg", params={"name": "revenue"})
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert "revenue" in drawn.text


def test_the_page_of_a_table_has_its_columns_rows_and_readers(client):
    found = client.get("/api/details", params={"name": "orders"}).json()
    assert [each["name"] for each in found["columns"]] == ["id", "customer", "amount"]
    assert found["readers"] == ["largest", "revenue"]
    assert client.get("/api/rows", params={"name": "orders"}).json()["total"] == 2


def test_a_refresh_is_told_to_who_listens_and_remembered(shop, client):
    with client.stream("GET", "/api/live") as stream:
        lines = stream.iter_lines()
        told = (json.loads(each[6:]) for each in lines if each.startswith("data: "))
        next(told)
        shop.insert("orders", [(3, "ann", 5)])
        news = next(each for each in told if "revenue" in each["changed"])
        assert news["version"] == shop.version
    last = wait_for(lambda: client.get("/api/details?name=revenue").json()["history"])[0]
    assert (last["refreshes"], last["rows_changed"], last["kind"]) == (1, 2, "incremental")


def test_the_editor_gives_rows_plans_and_errors_with_their_place(client):
    rows = sql(client, "SELECT customer FROM revenue ORDER BY customer").json()
    assert rows["rows"] == [["ann"], ["bob"]]
    plan = sql(client, "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT id FROM orders").json()
    assert plan["is_plan"]
    assert plan["rows"][0] == ["view v"]
    wrong = sql(client, "SELECT nope\nFROM revenue")
    where = wrong.json()["error"]["where"]
    assert wrong.status_code == 404
    assert where["sql"][where["start"] : where["end"] + 1] == "nope"


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO orders VALUES (9, 'x', 1)",
        "DROP MATERIALIZED VIEW revenue",
        "SELECT 1; DELETE FROM orders",
        "REFRESH MATERIALIZED VIEW largest",
        "CREATE TABLE t (x INT)",
    ],
)
def test_a_console_that_only_reads_changes_nothing(shop, client, text):
    before = shop.version
    answer = sql(client, text)
    assert answer.status_code == 400
    assert "only reads" in answer.json()["error"]["message"]
    assert client.post("/api/refresh", json={"name": "largest"}).status_code == 400
    assert shop.version == before
    assert shop["largest"].status()["freshness"] == "stale"


def test_with_write_the_editor_and_the_button_change_the_mill(shop):
    with shop.console(write=True) as console, opened(console.url) as client:
        assert sql(client, "INSERT INTO orders VALUES (9, 'cyd', 100)").status_code == 200
        assert client.post("/api/refresh", json={"name": "largest"}).status_code == 200
        assert client.post("/api/verify", json={"name": "revenue"}).json()["differences"] == 0
    assert shop["largest"].rows() == [(100,)]


def test_names_and_values_that_look_like_markup_come_as_json_only(shop, client):
    shop.sql(f"CREATE TABLE `{HOSTILE}` (`{HOSTILE}` STRING)")
    shop.sql(f"CREATE MATERIALIZED VIEW `v{HOSTILE}` AS SELECT * FROM `{HOSTILE}`")
    shop.insert(HOSTILE, [(HOSTILE,)])
    for path in ("nodes", "details", "rows"):
        answer = client.get(f"/api/{path}", params={"name": HOSTILE})
        assert answer.headers["content-type"] == "application/json"
        assert HOSTILE in json.dumps(answer.json())
    drawn = client.get("/api/plan.svg", params={"name": f"v{HOSTILE}"}).text
    assert "<script" not in drawn
    assert "&lt;script" in drawn
    assert HOSTILE not in client.get("/").text


def test_values_that_json_lacks_are_texts(shop, client):
    shop.sql("CREATE TABLE odd (f DOUBLE, d DECIMAL(12, 2), s STRING, l BIGINT)")
    shop.insert("odd", [(float("nan"), Decimal("12.50"), "\u2028\x00", 2**62), (None,) * 4])
    rows = client.get("/api/rows?name=odd").json()["rows"]
    assert ["nan", "12.50", "\u2028\x00", str(2**62)] in rows
    assert [None] * 4 in rows


def test_thousands_of_tables_are_shown_a_page_at_a_time(mill):
    for i in range(2000):
        mill.sql(f"CREATE TABLE t{i:05} (x BIGINT)")
    with mill.console() as console, opened(console.url) as client:
        start = time.process_time()
        found = client.get("/api/nodes", params={"text": "T01", "page": 3}).json()
        assert time.process_time() - start < 1
        assert (found["found"], found["pages"], len(found["nodes"])) == (1000, 20, 50)
        assert found["nodes"][0]["name"] == "t01150"
        assert len(client.get("/api/nodes", params={"page": 10**8}).json()["nodes"]) == 50


def test_closing_the_mill_stops_the_console_and_its_threads(uncompiled):
    before = set(threading.enumerate())
    mill = vm.connect()
    console = mill.console()
    mill.close()
    console.wait(10)
    assert not console.is_running
    left = [each for each in threading.enumerate() if each not in before]
    assert [each.name for each in left if each.name.startswith("viewmill-console")] == []


def test_a_mill_that_another_process_writes_is_read_again(uncompiled, tmp_path):
    path = tmp_path / "orders.mill"
    with vm.connect(path) as writer:
        writer.sql("CREATE TABLE orders (id BIGINT)")
        writer.sql("CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders")
        command = [sys.executable, "-m", "viewmill.cli.main", "console", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                with opened(process.stdout.readline().strip()) as client:
                    assert client.get("/api/rows?name=n").json()["rows"] == [["0"]]
                    writer.insert("orders", [(1,), (2,)])
                    wait_for(lambda: client.get("/api/rows?name=n").json()["rows"] == [["2"]], 30)
                    assert sql(client, "DELETE FROM orders").status_code == 400
            finally:
                process.terminate()


def test_a_source_that_fails_is_told_shown_and_found_and_one_that_heals_too(shop, client, tmp_path):
    (tmp_path / "1.csv").write_text("customer,amount\nann,1\n")
    shop.sql("CREATE TABLE sales (customer STRING, amount BIGINT) UNCHECKED")
    shop.follow("sales", vm.sources.files(tmp_path / "*.csv"), every=0.05)

    def sales():
        nodes = client.get("/api/nodes", params={"text": "sales"}).json()["nodes"]
        return nodes[0] if nodes[0]["source_rows"] else None

    found = wait_for(sales)
    assert (found["freshness"], found["error"], found["source_rows"]) == ("following", None, 1)
    assert str(tmp_path) in found["source"]
    assert abs(found["caught_up"] - time.time()) < 60
    with client.stream("GET", "/api/live") as stream:
        told = (each for each in stream.iter_lines() if each.startswith("data: "))
        next(told)
        (tmp_path / "2.csv").write_text("customer,amount\nann,many\n")
        next(told)
    wait_for(lambda: sales()["freshness"] == "retrying")
    assert "2.csv" in sales()["error"]
    failing = client.get("/api/nodes", params={"only": "failing"}).json()["nodes"]
    assert [each["name"] for each in failing] == ["sales"]
    assert "2.csv" in client.get("/api/details?name=sales").json()["status"]["error"]
    (tmp_path / "2.csv").unlink()
    wait_for(lambda: sales()["freshness"] == "following")
    assert client.get("/api/nodes", params={"only": "failing"}).json()["nodes"] == []


def test_completion_offers_names_as_sql_takes_them(shop, client):
    def offered(word):
        answer = client.get("/api/complete", params={"word": word}).json()["found"]
        return [(each["name"], each["kind"], each["insert"]) for each in answer]

    assert offered("REV")[:2] == [("revenue", "view", "revenue"), ("revenue", "column", "revenue")]
    assert offered("orde")[0] == ("orders", "table", "orders")
    assert ("sum", "function", "sum(") in offered("sum")
    assert offered("") == offered("zzz") == []
    for name in (f"odd`{HOSTILE}", "oddselect", "Select"):
        shop.sql(f"CREATE TABLE `{name.replace('`', '``')}` (x BIGINT)")
        insert = offered(name[:6])[0][2]
        assert sql(client, f"SELECT x FROM {insert}").status_code == 200, insert
    for i in range(30):
        shop.sql(f"CREATE TABLE many{i} (x BIGINT)")
    assert len(offered("`many")) == 20
