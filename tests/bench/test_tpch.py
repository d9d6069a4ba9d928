"""The benches of TPC-H and Nexmark: their report, and options that only they know."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from viewmill.bench.nexmark.bench import nexmark
from viewmill.bench.stream import row_count, stream, tables_of
from viewmill.bench.tpch.bench import tpch
from viewmill.bench.tpch.data import TpchData
from viewmill.bench.tpch.queries import QUERIES, TABLES
from viewmill.cli.main import app
from viewmill.errors import InvalidArgument


def test_a_query_is_timed_at_four_sizes_and_compared() -> None:
    report = tpch(seed=2, quick=True, say=lambda _: None, scale=0.002, query=6).to_json()
    assert report["verified"] is True
    assert report["bench"] == "tpch"
    found = {
        (each["system"], each["workload"].get("batch"))
        for each in report["results"]
        if each["metric"] == "rows_per_cpu_s" and each["workload"]["query"] == 6
    }
    assert found == {(who, n) for who in ("viewmill", "duckdb") for n in (1, 100, 1000, 10_000)}
    assert {"state_bytes", "compile_s", "speedup"} <= {each["metric"] for each in report["results"]}
    json.dumps(report)


def test_the_stream_holds_every_row_of_the_tables_that_a_query_reads_once() -> None:
    tables = TpchData(0.001, 1).tables()
    for number in QUERIES:
        read = {name: tables[name] for name in tables_of(QUERIES[number], TABLES)}
        assert row_count(stream(read, 64)) == sum(rows.num_rows for rows in read.values())
    assert tables_of(QUERIES[17], TABLES) == ["part", "lineitem"]
    assert tables_of(QUERIES[11], TABLES) == ["nation", "supplier", "partsupp"]


def test_nexmark_is_timed_in_the_same_way() -> None:
    report = nexmark(seed=2, quick=True, say=lambda _: None, scale=0.1, query=2).to_json()
    assert report["verified"] is True
    assert {each["workload"].get("batch") for each in report["results"]} >= {1, 100, 1000, 10_000}
    with pytest.raises(InvalidArgument, match="no query 12") as caught:
        nexmark(seed=1, quick=True, say=lambda _: None, query=12)
    assert "processed" in caught.value.hint


def test_an_unknown_query_and_options_of_other_benches_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no query 23"):
        tpch(seed=1, quick=True, say=lambda _: None, query=23)
    refused = CliRunner().invoke(app, ["bench", "groupby", "--scale", "2"])
    assert refused.exit_code != 0
