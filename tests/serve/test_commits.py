"""Logs, traces and lineage of commits: each is told of once, and nobody waits for who listens."""

import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import viewmill as vm
from viewmill.errors import InvalidArgument


@pytest.fixture
def mill(uncompiled):
    with vm.connect() as mill:
        mill.sql('CREATE TABLE "T <b>" (id BIGINT, x BIGINT, PRIMARY KEY (id))'.replace('"', "`"))
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM `T <b>`")
        mill.sql(
            "CREATE MATERIALIZED VIEW late REFRESH ON DEMAND AS SELECT count(*) AS n FROM `T <b>`"
        )
        yield mill


def test_each_commit_is_a_line_of_json(mill, tmp_path):
    path = tmp_path / "commits.jsonl"
    mill.insert("T <b>", [(0, 0)])  # before anybody listens
    with mill.log_commits(path):
        mill.insert("T <b>", [(1, 10), (2, 20)])
        with pytest.raises(vm.ViewmillError):
            mill.insert("T <b>", [(1, 5)])
        with mill.batch():
            mill.delete("T <b>", [(2, 20)])
            mill.insert("T <b>", [(3, 1)])
        mill["late"].refresh()
    mill.insert("T <b>", [(9, 9)])  # after
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    assert [each["tables"] for each in lines] == [{"T <b>": 2}, {}, {"T <b>": 2}, {}]
    now = mill._core.version - 1
    assert [each["version"] for each in lines] == [now - 1, now - 1, now, now]
    assert lines[0]["views"] == {"v": {"rows": 2, "kind": "incremental"}}
    assert "exists" in lines[1]["error"] or "key" in lines[1]["error"]
    assert lines[3]["views"]["late"]["rows"] > 0
    assert mill._core.watched is None
    assert mill["v"].verify() == mill["late"].verify() == []


def test_a_listener_that_fails_or_sleeps_holds_nobody_up(mill):
    free = threading.Event()

    def fail(line):
        free.wait(20)
        raise ValueError(line)

    lines: list[str] = []
    with mill.log_commits(fail), mill.log_commits(lines.append):
        start = time.monotonic()
        for i in range(20):
            mill.insert("T <b>", [(i, i)])
        assert time.monotonic() - start < 10
        free.set()
    assert len(lines) == 20
    assert mill["v"].rows() == [(190,)]


def test_a_file_that_cannot_be_written_is_an_error_at_once(mill, tmp_path):
    with pytest.raises(InvalidArgument):
        mill.log_commits(tmp_path / "no" / "such.jsonl")


def test_lineage_tells_of_views_with_their_inputs_and_columns(mill):
    events: list[dict[str, Any]] = []
    with mill.lineage(events.append, namespace="shop", every=3600):
        mill.insert("T <b>", [(1, 10)])
        mill.insert("T <b>", [(2, 10)])  # within an hour: not told again
    assert [(each["eventType"], each["job"]["name"]) for each in events] == [
        ("START", "v"), ("COMPLETE", "v"), ("START", "late"), ("COMPLETE", "late"),
    ]  # fmt: skip
    event = events[1]
    assert uuid.UUID(event["run"]["runId"])
    assert event["run"] == events[0]["run"] != events[2]["run"]
    assert event["job"]["namespace"] == "shop"
    assert "sum(x)" in event["job"]["facets"]["sql"]["query"]
    (read,) = event["inputs"]
    assert read["name"] == "T <b>"
    assert [each["name"] for each in read["facets"]["schema"]["fields"]] == ["id", "x"]
    assert event["outputs"][0]["name"] == "v"
    assert {"eventTime", "producer", "schemaURL"} <= event.keys()


def test_lineage_is_posted_to_a_server_and_told_again_after_a_while(mill):
    came = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self):
            came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *values):
            pass

    server = HTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        with mill.lineage(f"http://127.0.0.1:{server.server_port}/api/v1/lineage", every=0):
            mill.insert("T <b>", [(1, 10)])
            mill.insert("T <b>", [(2, 10)])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    told = [each for each in came if each["job"]["name"] == "v" and each["eventType"] == "COMPLETE"]
    rows = [each["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for each in told]
    assert rows == [0, 2, 2]


def test_a_span_of_opentelemetry_has_an_event_per_changed_view(mill):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    kept, provider = in_memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    with mill.trace(provider.get_tracer("test")):
        mill.insert("T <b>", [(1, 10)])
        with pytest.raises(vm.ViewmillError):
            mill.insert("T <b>", [(1, 5)])
        mill["late"].refresh()
    first, failed, refresh = kept.get_finished_spans()
    assert first.name == "viewmill.commit"
    assert first.attributes["viewmill.tables"] == ("T <b>",)
    assert [each.attributes["viewmill.view"] for each in first.events] == ["v"]
    assert first.end_time > first.start_time
    assert not failed.status.is_ok
    assert refresh.name == "viewmill.refresh"
    provider.shutdown()
