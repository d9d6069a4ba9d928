"""`viewmill run`: takes each file once, whatever happens in between."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest


def revenue(shop):
    with (shop.folder / "out/revenue.csv").open() as file:
        return {row["customer"]: int(row["revenue"]) for row in csv.DictReader(file)}


def test_the_sink_holds_the_view(shop):
    assert "dataflow" in shop.run("run")
    assert revenue(shop) == {"ann": 15, "bob": 7}


def test_running_again_takes_only_new_files(shop):
    shop.run("run")
    assert json.loads(shop.run("run", "--json"))["rows"] == 0
    shop.write("data/2.csv", "op,customer,amount\ndelete,bob,7\ninsert,cy,1\n")
    assert json.loads(shop.run("run", "--json"))["rows"] == 2
    assert revenue(shop) == {"ann": 15, "cy": 1}
    assert "revenue: equal to recompute" in shop.run("verify")


def test_watching_takes_files_as_they_come_and_ends_by_ctrl_c(shop):
    spec = shop.folder / "viewmill.yml"
    spec.write_text(
        spec.read_text().replace("out/revenue.csv", "out/r, format: json, mode: changes")
    )
    command = [sys.executable, "-m", "viewmill.cli.main", "run", "--watch", "--every", "0.1"]
    with subprocess.Popen(
        command, cwd=shop.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert "waiting" in next(line for line in process.stderr if "waiting" in line)
            shop.write("data/2.csv", "op,customer,amount\ninsert,cy,1\n")
            assert ": 1 rows in" in process.stdout.readline()
            shop.write("data/3.csv", "op,customer,amount\ninsert,cy,2\ndelete,bob,7\n")
            assert ": 2 rows in" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert "revenue" in process.stdout.read()
            assert process.wait(20) == 0
        finally:
            process.kill()
    net = shop.query(
        """SELECT customer, revenue FROM 'out/r/*.json' GROUP BY ALL
        HAVING sum(CASE _change_type WHEN 'insert' THEN 1 ELSE -1 END) > 0 ORDER BY 1"""
    )
    assert net == [("ann", 15), ("cy", 3)]
    assert json.loads(shop.run("run", "--json"))["rows"] == 0


def test_watching_and_json_do_not_go_together(shop):
    assert "--watch" in shop.fail("run", "--watch", "--json")
    assert "--every" in shop.fail("run", "--watch", "--every", "0")


def test_a_touched_file_is_not_taken_again_and_a_changed_one_is_an_error(shop):
    shop.run("run")
    os.utime(shop.folder / "data/1.csv", (1, 1))
    assert json.loads(shop.run("run", "--json"))["rows"] == 0
    shop.write("data/1.csv", "op,customer,amount\ninsert,ann,11\n")
    complaint = shop.fail("run")
    assert "data/1.csv has changed since its rows were taken" in complaint
    assert "--full-refresh orders" in complaint
    shop.run("run", "--full-refresh", "orders")
    assert revenue(shop) == {"ann": 11}


def test_a_bad_row_stops_at_its_batch_and_what_was_taken_stays(shop):
    bad = "op,customer,amount\ninsert,cy,1\ninsert,cy,2\ninsert,cy,x\n"
    shop.write("data/2.csv", bad)
    for _ in range(2):
        complaint = shop.fail("run", "--batch-rows", "1")
        assert "2.csv, row 3: amount cannot be 'x'" in complaint
    shop.write("data/2.csv", bad.replace("x", "4"))
    assert "--full-refresh orders" in shop.fail("run")
    shop.run("run", "--full-refresh-all")
    assert revenue(shop) == {"ann": 15, "bob": 7, "cy": 7}


def test_a_changed_view_is_created_again_with_its_readers(shop):
    shop.write(
        "views/big.sql", "CREATE MATERIALIZED VIEW big AS SELECT * FROM revenue WHERE revenue > 9"
    )
    shop.run("run")
    view = shop.folder / "views/revenue.sql"
    view.write_text(view.read_text().replace("SUM(amount)", "SUM(amount) * 2"))
    shop.run("run")
    assert revenue(shop) == {"ann": 30, "bob": 14}
    assert json.loads(shop.run("status", "--json"))["big"]["rows"] == 2


def test_a_view_with_a_quote_in_its_name_can_be_changed(shop):
    """Its name became a part of a statement."""
    for factor in (1, 2):
        shop.write(
            "views/n.sql",
            f"CREATE MATERIALIZED VIEW `it's \\` AS SELECT {factor} * COUNT(*) AS n FROM orders",
        )
        shop.run("run")


def test_a_view_that_left_the_libraries_is_dropped(shop):
    extra = shop.write(
        "views/n.sql", "CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM orders"
    )
    shop.run("run")
    extra.unlink()
    assert "no longer in the libraries" in shop.call("run").stderr
    assert set(json.loads(shop.run("status", "--json"))) == {"revenue"}


def test_a_changed_schema_is_refused_with_the_way_out(shop):
    shop.run("run")
    spec = shop.folder / "viewmill.yml"
    spec.write_text(spec.read_text().replace("amount BIGINT", "amount DOUBLE"))
    assert "--full-refresh orders" in shop.fail("run")
    shop.run("run", "--full-refresh", "orders")
    assert shop.query("SELECT sum(revenue) FROM 'out/revenue.csv'") == [(22.0,)]


def test_changes_are_files_whose_net_is_the_view(shop):
    spec = shop.folder / "viewmill.yml"
    spec.write_text(
        spec.read_text().replace("out/revenue.csv", "out/r, format: json, mode: changes")
    )
    shop.run("run")
    shop.write("data/2.csv", "op,customer,amount\ndelete,bob,7\ninsert,ann,1\n")
    shop.run("run")
    net = shop.query(
        """SELECT customer, revenue FROM 'out/r/*.json' GROUP BY ALL
        HAVING sum(CASE _change_type WHEN 'insert' THEN 1 ELSE -1 END) > 0"""
    )
    assert net == [("ann", 16)]
    assert len(list((shop.folder / "out/r").iterdir())) == 2


@pytest.mark.parametrize("name", ["revenues", "nothing"])
def test_an_unknown_name_is_refused(name, shop):
    assert "the project defines no" in shop.fail("run", "--refresh", name)


def test_a_killed_run_neither_loses_nor_doubles_rows(shop):
    """Kill it over and over while it takes rows in small batches; then let it finish."""
    rows = "".join(f"insert,c{i % 7},{i}\n" for i in range(3_000))
    shop.write("data/2.csv", "op,customer,amount\n" + rows)
    command = [sys.executable, "-m", "viewmill.cli.main", "run", "--batch-rows", "7"]
    for wait in (0.2, 0.5, 0.9):
        process = subprocess.Popen(
            command, cwd=shop.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        mill = shop.folder / "storage/mill"
        while not mill.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    shop.run("run")
    expected = {f"c{k}": sum(range(k, 3_000, 7)) for k in range(7)} | {"ann": 15, "bob": 7}
    assert revenue(shop) == expected


def test_the_policies_of_the_spec_are_those_of_the_views(shop):
    spec = shop.folder / "viewmill.yml"
    text = spec.read_text()
    spec.write_text(text + "refresh: {revenue: [EVERY 1000 ROWS, ON DEMAND]}\n")
    shop.run("run")
    assert json.loads(shop.run("explain", "revenue", "--json"))["policies"] == [
        "REFRESH EVERY 1000 ROWS",
        "REFRESH ON DEMAND",
    ]
    spec.write_text(text + "refresh: {revenu: ON DEMAND}\n")
    assert "revenu" in shop.fail("run")
