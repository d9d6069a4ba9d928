"""The bench prints the object that programs rely on, and notices a wrong result."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from viewmill.bench.groupby import same
from viewmill.bench.report import Report


@pytest.mark.slow
def test_the_json_is_one_object_with_every_figure(tmp_path):
    plot = tmp_path / "g.svg"
    command = [sys.executable, "-m", "viewmill.cli.main", "bench", "groupby", "--quick", "--json"]
    done = subprocess.run([*command, "--plot", str(plot)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == {"bench", "seed", "verified", "results"}
    assert found["verified"] is True
    assert all(set(each) == {"system", "workload", "metric", "value"} for each in found["results"])
    metrics = {(each["system"], each["metric"]) for each in found["results"]}
    assert {("viewmill", "rows_per_cpu_s"), ("duckdb", "rows_per_cpu_s")} <= metrics
    assert {
        ("viewmill", "state_bytes"),
        ("viewmill", "compile_s"),
        ("viewmill", "speedup"),
    } <= metrics
    batches = {
        each["workload"]["batch"] for each in found["results"] if "batch" in each["workload"]
    }
    assert batches == {1, 10, 1_000, 100_000}
    assert plot.read_text().startswith("<svg")


ROWS = pa.table({"k": [1, 1, 2], "n": [3, 4, 5], "x": [1.0, 2.0, 4.0]})


def view(total):
    columns = {"k": [2, 1], "orders": [1, 2], "total": [5, total], "average": [4.0, 1.5]}
    return pa.table(columns)


def test_a_wrong_result_is_not_called_verified():
    assert same(view(7), ROWS)
    assert not same(view(8), ROWS)
    assert not same(view(7).slice(1), ROWS)


def test_a_report_finds_its_figures_and_draws_them():
    report = Report("groupby", 1)
    report.add("viewmill", {"batch": 10, "table": "checked"}, rows_per_s=2e6, p50_ms=0.1)
    report.add("duckdb", {"batch": 10}, rows_per_s=1e3)
    assert report.value("viewmill", "rows_per_s", batch=10) == 2e6
    assert "viewmill  batch 10  table checked  2,000,000     0.1" in report.to_text()
    assert "DIFFERENT FROM" in report.to_text()
    assert report.to_svg().count("<rect") == 1 + 2 + 2
