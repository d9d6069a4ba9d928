"""The bench of a served mill reads what was written."""

import viewmill as vm
from viewmill.bench import serve
from viewmill.bench.report import Report


def test_clients_read_what_was_written(uncompiled):
    report = Report("serve", 1, verified=True)
    with vm.connect() as mill:
        serve._define(mill, 50)
        with mill.serve(port=0) as server:
            serve._measure_points(report, server.port, 2, 0.2, 50)
        serve._measure_flight(report, mill, 1_000)
    assert report.verified
    assert report.value("point reads", "answers_per_s") > 0
    assert report.value("Flight", "rows_per_s", rows=1_000) > 0
