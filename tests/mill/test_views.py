"""What a view tells: changes, status, differences, explanations; how it is replaced, dropped."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

import viewmill as vm
from viewmill import errors


@pytest.fixture
def shop(mill: vm.Mill, uncompiled) -> vm.Mill:
    mill.sql("CREATE TABLE orders (id INT, customer STRING, amount INT)")
    mill.sql(
        "CREATE MATERIALIZED VIEW revenue AS "
        "SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer"
    )
    mill.insert("orders", [(1, "ann", 10), (2, "ann", 5), (3, "bob", 7)])
    return mill


# Changes.


def test_a_subscriber_gets_one_consolidated_change_for_each_refresh(shop):
    heard: list[vm.Change] = []
    shop["revenue"].subscribe(heard.append)
    with shop.batch():
        shop.delete("orders", [(1, "ann", 10)])
        shop.insert("orders", [(4, "cy", 1)])
        shop.insert("orders", [(5, "cy", 2)])
    (change,) = heard
    assert sorted(change) == [(("ann", 5), 1), (("ann", 15), -1), (("cy", 3), 1)]
    assert (sorted(change.inserted), change.deleted) == ([("ann", 5), ("cy", 3)], [("ann", 15)])
    assert (change.view, change.version) == ("revenue", shop.status()["version"])


def test_a_refresh_that_changes_nothing_tells_nobody(shop):
    heard: list[vm.Change] = []
    shop["revenue"].subscribe(heard.append)
    shop.apply("orders", [(9, "ann", 0, 1)], multiplicity="m")  # the sum stays
    shop.insert("orders", [])
    assert heard == []


def test_changes_come_in_version_order_also_when_a_subscriber_writes(shop):
    seen: list[tuple[str, int]] = []
    shop.sql("CREATE TABLE log (n INT)")
    shop.sql("CREATE MATERIALIZED VIEW logged AS SELECT COUNT(*) AS n FROM log")

    def write(change: vm.Change) -> None:
        seen.append(("revenue", change.version))
        shop.insert("log", [(1,)])

    shop["revenue"].subscribe(write)
    shop["logged"].subscribe(lambda change: seen.append(("logged", change.version)))
    shop.insert("orders", [(4, "cy", 1)])
    version = shop.status()["version"]
    assert seen == [("revenue", version - 1), ("logged", version)]


def test_an_error_in_a_subscriber_is_reported_and_undoes_nothing(shop, caplog):
    heard: list[vm.Change] = []

    def fail(_: vm.Change) -> None:
        raise ZeroDivisionError("subscriber")

    shop["revenue"].subscribe(fail)
    shop["revenue"].subscribe(heard.append)
    shop.insert("orders", [(4, "cy", 1)])
    assert ("cy", 1) in shop["revenue"].rows()
    assert len(heard) == 1
    assert "a subscriber failed" in caplog.text


def test_a_stopped_subscriber_hears_nothing_more(shop):
    heard: list[vm.Change] = []
    stop = shop["revenue"].subscribe(heard.append)
    stop()
    stop()
    shop.insert("orders", [(4, "cy", 1)])
    assert heard == []


def test_changes_iterates_over_what_came_since(shop):
    stream = shop["revenue"].changes()
    assert list(stream) == []
    shop.insert("orders", [(4, "cy", 1)])
    shop.insert("orders", [(5, "cy", 1)])
    assert [sorted(change) for change in stream] == [
        [(("cy", 1), 1)],
        [(("cy", 1), -1), (("cy", 2), 1)],
    ]
    stream.close()
    shop.insert("orders", [(6, "cy", 1)])
    assert list(stream) == []


def test_changes_in_another_thread_wait_for_the_writer(shop):
    stream = shop["revenue"].changes()
    got: list[Any] = []

    def read() -> None:
        got.extend(list(change) for change in stream)

    reader = threading.Thread(target=read)
    reader.start()
    shop.insert("orders", [(4, "cy", 1)])
    shop.close()  # ends the stream
    reader.join(timeout=20)
    assert got == [[(("cy", 1), 1)]]


def test_the_changes_of_a_view_add_up_to_its_rows(shop):
    total: dict[Any, int] = dict.fromkeys(shop["revenue"].rows(), 1)

    def add(change: vm.Change) -> None:
        for row, times in change:
            total[row] = total.get(row, 0) + times

    shop["revenue"].subscribe(add)
    for i in range(20):
        shop.insert("orders", [(i, "ann" if i % 2 else "dan", i)])
        shop.delete("orders", [(i, "ann" if i % 2 else "dan", i)] if i % 3 else [])
    assert sorted(row for row, times in total.items() if times) == sorted(shop["revenue"].rows())


# Status and verify.


def test_status_counts_refreshes_rows_and_engine_calls(shop):
    status = shop["revenue"].status()
    assert status["freshness"] == "fresh"
    assert (status["rows"], status["refreshes"], status["refresh_kind"]) == (2, 1, "incremental")
    assert status["strategy"] == "dataflow"
    assert status["version"] == shop.status()["version"]
    assert status["state_bytes"] > 0
    calls = status["engine_calls"]
    shop.insert("orders", [(4, "cy", 1)])
    after = shop["revenue"].status()
    assert (after["engine_calls"], after["refreshes"], after["rows"]) == (calls, 2, 3)


def test_refreshing_an_incremental_view_calls_no_engine(shop):
    before = shop["revenue"].status()["engine_calls"]
    for i in range(30):
        shop.insert("orders", [(i, "ann", i)])
    assert shop["revenue"].status()["engine_calls"] == before
    shop.sql("CREATE MATERIALIZED VIEW top REFRESH POLICY FULL AS SELECT MAX(s) AS m FROM revenue")
    before = shop["top"].status()["engine_calls"]
    shop.insert("orders", [(99, "ann", 1)])
    assert shop["top"].status()["engine_calls"] == before + 1
    assert shop["top"].status()["refresh_kind"] == "full"


def test_verify_names_every_row_that_differs(shop):
    view = shop["revenue"]
    assert view.verify() == []
    maintainer = shop._core.catalog.view("revenue").block.maintainer
    source = shop._core.catalog.view("revenue").plan.program.inputs[0]
    delta = shop._delta("orders", [(9, "ann", 1)])
    maintainer.apply(source.name, delta)  # behind the mill's back
    maintainer.flush()
    maintainer.commit()
    assert sorted(view.verify()) == [(("ann", 15), 1, 0), (("ann", 16), 0, 1)]
    assert sorted(shop.sql("VERIFY revenue").rows()) == [("ann", 15, 1, 0), ("ann", 16, 0, 1)]
    view.refresh(full=True)
    assert view.verify() == []
    assert sorted(view.rows()) == [("ann", 15), ("bob", 7)]


def test_deferred_views_wait_and_say_so(shop):
    shop.sql("CREATE MATERIALIZED VIEW late REFRESH ON DEMAND AS SELECT COUNT(*) AS n FROM orders")
    shop.insert("orders", [(4, "cy", 1)])
    status = shop["late"].status()
    assert (status["freshness"], status["waiting_rows"]) == ("stale", 1)
    assert shop["late"].rows() == [(3,)]
    assert shop["late"].verify() == [], "at its own version"
    shop.sql("REFRESH MATERIALIZED VIEW late")
    assert shop["late"].rows() == [(4,)]
    assert shop["late"].status()["freshness"] == "fresh"


def test_every_rows_refreshes_when_so_many_rows_have_come(shop):
    shop.sql(
        "CREATE MATERIALIZED VIEW late REFRESH EVERY 3 ROWS AS SELECT COUNT(*) AS n FROM orders"
    )
    shop.insert("orders", [(4, "cy", 1), (5, "cy", 1)])
    assert shop["late"].rows() == [(3,)]
    shop.insert("orders", [(6, "cy", 1)])
    assert shop["late"].rows() == [(6,)]


def test_views_over_deferred_views_follow_them(shop):
    shop.sql(
        "CREATE MATERIALIZED VIEW low REFRESH ON DEMAND AS SELECT customer, amount FROM orders"
    )
    shop.sql("CREATE MATERIALIZED VIEW high AS SELECT SUM(amount) AS s FROM low")
    shop.insert("orders", [(4, "cy", 1)])
    assert shop["high"].rows() == [(22,)]
    shop["low"].refresh()
    assert shop["high"].rows() == [(23,)]
    assert shop["high"].verify() == []


# Explain.


def test_explain_shows_chosen_offered_rejected_and_states_with_definition_and_bytes(shop):
    text = str(shop["revenue"].explain())
    assert "chosen    dataflow" in text
    assert "offered   recompute" in text
    assert "keep     groups[" in text
    assert "bytes" in text
    assert "Aggregate by" in text
    shop.sql(
        "CREATE MATERIALIZED VIEW lists AS "
        "SELECT customer, collect_list(amount) AS l FROM orders GROUP BY customer"
    )
    text = str(shop["lists"].explain())
    assert "chosen    recompute" in text
    assert "rejected  dataflow" in text
    assert "^^^^" in text, "the part in the way is underlined"


def test_explain_as_json_holds_the_same_record(shop):
    record = json.loads(str(shop["revenue"].explain("json")))
    assert record["strategy"] == shop["revenue"].explain()["strategy"] == "dataflow"
    assert record["incremental"] is True
    assert [each["strategy"] for each in record["offered"]] == ["recompute"]
    assert record["status"]["rows"] == 2
    assert record["sql"].startswith("CREATE MATERIALIZED VIEW revenue")


def test_explain_as_svg_is_a_picture_that_parses(shop):
    picture = str(shop["revenue"].explain("svg"))
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg")
    assert "dataflow" in picture
    assert shop["revenue"].explain()._repr_html_().lstrip().startswith("<svg")


def test_explain_refuses_other_forms(shop):
    with pytest.raises(errors.InvalidArgument, match="no form"):
        shop["revenue"].explain("yaml")


def test_explaining_a_statement_creates_nothing(shop):
    plan = shop.sql("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM orders")
    assert "chosen    dataflow" in plan.rows()[0][0] + "\n".join(row[0] for row in plan.rows())
    assert "v" not in shop
    assert shop.sql("EXPLAIN revenue").rows()[0] == ("view revenue",)


# Replacing and dropping.


def test_replacing_a_view_keeps_its_readers_and_listeners(shop):
    heard: list[vm.Change] = []
    shop.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(s) AS t FROM revenue")
    shop["revenue"].subscribe(heard.append)
    shop.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW revenue AS "
        "SELECT customer, SUM(amount) * 2 AS s FROM orders GROUP BY customer"
    )
    assert sorted(shop["revenue"].rows()) == [("ann", 30), ("bob", 14)]
    assert shop["total"].rows() == [(44,)]
    assert sorted(heard[0]) == [
        (("ann", 15), -1),
        (("ann", 30), 1),
        (("bob", 7), -1),
        (("bob", 14), 1),
    ]
    shop.insert("orders", [(4, "bob", 1)])
    assert (shop["total"].rows(), shop["total"].verify()) == ([(46,)], [])


def test_a_view_is_replaced_by_one_with_other_columns(shop):
    heard: list[vm.Change] = []
    shop["revenue"].subscribe(heard.append)
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW revenue AS SELECT COUNT(*) AS n FROM orders")
    shop.insert("orders", [(4, "bob", 1)])
    assert shop["revenue"].rows() == [(4,)]
    assert [sorted(each) for each in heard] == [[((3,), 1)], [((3,), -1), ((4,), 1)]]


def test_a_view_can_be_created_again_after_it_was_dropped(shop):
    shop.sql("DROP MATERIALIZED VIEW revenue")
    assert "revenue" not in shop
    with pytest.raises(errors.UnknownName):
        shop["revenue"]
    shop.sql("DROP TABLE orders")
    shop.sql("CREATE TABLE orders (id BIGINT)")
    shop.sql("CREATE MATERIALIZED VIEW revenue AS SELECT COUNT(*) AS n FROM orders")
    shop.insert("orders", [(1,)])
    assert shop["revenue"].rows() == [(1,)]


def test_if_exists_and_if_not_exists_are_no_errors(shop):
    shop.sql("DROP MATERIALIZED VIEW IF EXISTS nothing")
    shop.sql("DROP TABLE IF EXISTS nothing")
    shop.sql("CREATE TABLE IF NOT EXISTS orders (x INT)")
    shop.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS revenue AS SELECT 1 AS x")
    assert len(shop["revenue"]) == 2


def test_a_plain_view_is_inlined_and_guarded(shop):
    shop.sql("CREATE VIEW big AS SELECT * FROM orders WHERE amount > 5")
    shop.sql("CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS n FROM big")
    assert shop["many"].rows() == [(2,)]
    shop.insert("orders", [(4, "cy", 100)])
    assert shop["many"].rows() == [(3,)]
    with pytest.raises(errors.NameInUse, match="in use"):
        shop.sql("DROP VIEW big")
    with pytest.raises(errors.NameInUse):
        shop.sql("DROP TABLE orders")


def test_names_are_found_whatever_their_case_and_keep_it(mill, uncompiled):
    mill.sql("CREATE TABLE Orders (Id INT, Amount INT, PRIMARY KEY (ID))")
    mill.sql("CREATE MATERIALIZED VIEW Revenue AS SELECT SUM(AMOUNT) AS Total FROM ORDERS")
    mill.insert("orders", [{"ID": 1, "amount": 2}])
    mill.upsert("ORDERS", [(1, 3)])
    assert (mill.tables(), mill.views()) == (["Orders"], ["Revenue"])
    assert mill["REVENUE"].rows() == [(3,)]
    assert mill["revenue"].to_arrow().column_names == ["Total"]


def test_views_of_views_are_one_version(shop):
    shop.sql("CREATE MATERIALIZED VIEW total AS SELECT SUM(s) AS t FROM revenue")
    shop.sql("CREATE MATERIALIZED VIEW best REFRESH POLICY FULL AS SELECT MAX(s) AS m FROM revenue")
    seen: list[tuple[Any, Any]] = []
    shop["total"].subscribe(lambda _: seen.append((shop["total"].rows(), shop["best"].rows())))
    shop.insert("orders", [(4, "cy", 100)])
    assert seen == [([(122,)], [(100,)])]


def test_reads_inside_a_batch_see_the_last_version(shop):
    with shop.batch():
        shop.insert("orders", [(4, "cy", 1)])
        assert len(shop.sql("SELECT * FROM orders")) == 3
        assert len(shop["revenue"]) == 2
    assert len(shop["revenue"]) == 3


def test_tables_declare_what_may_happen_to_them(mill, uncompiled):
    mill.sql("CREATE TABLE log (x INT) APPEND ONLY")
    mill.sql("CREATE TABLE fixed (x INT) STATIC")
    mill.insert("log", [(1,), (1,)])
    mill.insert("fixed", [(1,)])
    with pytest.raises(errors.ForbiddenChange, match="APPEND ONLY"):
        mill.delete("log", [(1,)])
    with pytest.raises(errors.ForbiddenChange, match="STATIC"):
        mill.insert("fixed", [(2,)])
    assert (len(mill.sql("SELECT * FROM log")), len(mill.sql("SELECT * FROM fixed"))) == (2, 1)


def test_sql_changes_rows_as_the_calls_do(shop):
    shop.sql("INSERT INTO orders (customer, id) VALUES ('cy', 4)")
    shop.sql("UPDATE orders SET amount = amount + 1 WHERE customer = 'ann'")
    shop.sql("DELETE FROM orders WHERE customer = 'bob'")
    rows = sorted(shop.sql("SELECT * FROM orders").rows())
    assert rows == [(1, "ann", 11), (2, "ann", 6), (4, "cy", None)]
    assert sorted(shop["revenue"].rows()) == [("ann", 17), ("cy", None)]
    assert shop["revenue"].verify() == []


def test_upserts_of_one_batch_count_in_order(mill, uncompiled):
    mill.sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))")
    mill.sql("CREATE MATERIALIZED VIEW s AS SELECT SUM(v) AS s FROM t")
    mill.upsert("t", [])
    mill.upsert("t", [(1, 1), (1, 2), (2, 5)])
    assert sorted(mill.sql("SELECT * FROM t").rows()) == [(1, 2), (2, 5)]
    with mill.batch():
        mill.upsert("t", [(1, 7)])
        mill.delete("t", [(2, 5)])
        mill.upsert("t", [(2, 6), (1, 8)])
    assert sorted(mill.sql("SELECT * FROM t").rows()) == [(1, 8), (2, 6)]
    assert mill["s"].rows() == [(14,)]


def test_a_row_that_pays_for_an_early_delete_is_not_seen_by_recompute():
    with vm.connect() as mill:
        mill.sql("CREATE TABLE u (k INT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM u")
        mill.delete("u", [(0,)])
        assert mill.sql("SELECT * FROM u").rows() == []
        mill.insert("u", [(0,), (1,)])
        assert mill.sql("SELECT * FROM u").rows() == mill["v"].rows() == [(1,)]
        assert mill["v"].verify() == []
