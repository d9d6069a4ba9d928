import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from viewmill.bench.sinks import _is_right, sinks


def test_a_table_with_a_wrong_group_is_not_called_right(tmp_path):
    rows = pa.table({"k": [1, 1, 2], "x": [3, 4, 5]})
    pq.write_table(pa.table({"k": [1, 2], "s": [7, 5], "n": [2, 1]}), tmp_path / "a.parquet")
    assert _is_right("parquet", tmp_path, rows)
    pq.write_table(pa.table({"k": [1, 2], "s": [7, 6], "n": [2, 1]}), tmp_path / "a.parquet")
    assert not _is_right("parquet", tmp_path, rows)


@pytest.mark.slow
def test_a_row_costs_a_small_part_of_the_table():
    found = sinks(seed=1, quick=True, say=lambda text: None, sizes=(200_000,))
    assert found.verified
    for format in ("parquet", "delta"):
        share = found.value(format, "written_share", groups=200_000, change="1 row")
        assert share < 10
