"""The numbers of a pipeline as Prometheus text: all digits, and names that cannot break a line."""

import math

from viewmill.pipeline.progress import prometheus_text

STATUS = {
    "batches": 123_456_789,
    "dead_letters": 0,
    "recoveries": 1,
    "batch_p50_ms": 1234.5625,
    "batch_p99_ms": 2.0,
    "rows_in": {'odd "name"\nviewmill_x 1\\': 9_007_199_254_740_993},
    "views": {"v": {"rows": 1_234_567, "lag_s": math.inf, "state_bytes": 2**40 + 1}},
}


def test_counters_keep_all_their_digits():
    lines = prometheus_text(STATUS).splitlines()
    assert "viewmill_batches_total 123456789" in lines
    assert 'viewmill_batch_seconds{quantile="0.5"} 1.2345625' in lines
    assert 'viewmill_view_rows{view="v"} 1234567' in lines
    assert f'viewmill_view_state_bytes{{view="v"}} {2**40 + 1}' in lines
    assert 'viewmill_view_lag_seconds{view="v"} +Inf' in lines


def test_a_name_cannot_make_a_line_of_its_own():
    text = prometheus_text(STATUS)
    label = r'{source="odd \"name\"\nviewmill_x 1\\"}'
    assert f"viewmill_rows_in_total{label} 9007199254740993" in text.splitlines()
    assert not any(line.startswith("viewmill_x") for line in text.splitlines())
