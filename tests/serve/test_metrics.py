"""Figures for Prometheus, and health, over HTTP."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import viewmill as vm

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r'viewmill_[a-z_]+(\{(view|table)="(\\.|[^"\\\n])*"\})?')


def get(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
        return answer.read().decode()


def figures(server):
    found = {}
    for line in get(server, "/metrics").splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert LINE.fullmatch(name), line
            found[name] = float(value)
    return found


def test_prometheus_gets_the_figures_of_views_and_tables(served):
    with served.serve_metrics(port=0) as server:
        before = figures(server)
        assert before['viewmill_view_rows{view="revenue"}'] == 2
        assert before['viewmill_table_rows{table="orders"}'] == 2
        assert before["viewmill_healthy"] == 1
        served.insert("orders", [(3, "eve", 1, None, None, None)])
        after = figures(server)
        assert after["viewmill_version"] == before["viewmill_version"] + 1
        assert after['viewmill_view_rows{view="revenue"}'] == 3
        name = 'viewmill_view_refreshes_total{view="revenue"}'
        assert after[name] == before[name] + 1


def test_odd_names_stay_in_their_labels(uncompiled):
    with vm.connect() as mill:
        mill.sql('CREATE TABLE `a"} 1\\b` (x BIGINT)')
        with mill.serve_metrics(port=0) as server:
            assert figures(server)[r'viewmill_table_rows{table="a\"} 1\\b"}'] == 0


def test_health_says_what_is_wrong(served):
    with served.serve_metrics(port=0) as server:
        assert json.loads(get(server, "/health")) == {"status": "ok", "problems": []}
        served.core.catalog.view("revenue").failure = "too large"
        with pytest.raises(urllib.error.HTTPError) as raised:
            get(server, "/health")
        with raised.value as answer:
            assert answer.code == 503
            assert "revenue" in answer.read().decode()


def test_there_is_nothing_else(served):
    with served.serve_metrics(port=0) as server:
        with pytest.raises(urllib.error.HTTPError) as raised:
            get(server, "/../etc/passwd")
        with raised.value as answer:
            assert answer.code == 404


def test_closing_the_mill_ends_it(served):
    server = served.serve_metrics(port=0)
    served.close()
    with pytest.raises(urllib.error.URLError):
        get(server, "/health")


def test_the_board_for_grafana_asks_for_metrics_that_exist(served):
    board = json.loads((ROOT / "docs/operations/grafana.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"viewmill_\w+", target["expr"])
    }
    with served.serve_metrics(port=0) as server:
        given = {name.partition("{")[0] for name in figures(server)}
    assert len(asked) == 8
    assert asked <= given
