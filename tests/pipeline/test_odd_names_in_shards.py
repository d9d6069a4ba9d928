"""Names that a user may give to columns and views never decide where rows go in shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest

from viewmill.testing.local_shards import LocalShards

ODD: dict[str, tuple[str, dict[str, str], dict[str, Sequence[tuple[int, ...]]]]] = {
    "a column called as two of them are written": (
        "`a+b` BIGINT, a BIGINT, b BIGINT",
        {"v": "SELECT `a+b`, count(*) AS n FROM t GROUP BY `a+b`",
         "w": "SELECT a, b, count(*) AS n FROM t GROUP BY a, b"},
        {"v": [(1, 2), (2, 2)], "w": [(1, 1, 2), (2, 2, 2)]},
    ),
    "separators": (
        "`a@b` BIGINT, `c/4,*` BIGINT, `*` BIGINT",
        {"v": "SELECT `a@b`, count(*) AS n FROM t GROUP BY `a@b`",
         "w": "SELECT `c/4,*`, `*` FROM t",
         "x": "SELECT a.`*`, b.`a@b` FROM t a, t b WHERE a.`*` < b.`c/4,*`"},
        {"v": [(1, 2), (2, 2)], "w": [(1, 1)] * 2 + [(2, 2)] * 2, "x": [(1, 2)] * 4},
    ),
    "names of our own": (
        "`_viewmill_cell_0` BIGINT, `_multiplicity` BIGINT, c0 BIGINT",
        {"v": "SELECT _viewmill_cell_0, c0, count(*) AS n FROM t GROUP BY _viewmill_cell_0, c0",
         "_multiplicity": "SELECT _multiplicity FROM t WHERE c0 > 1"},
        {"v": [(1, 1, 2), (2, 2, 2)], "_multiplicity": [(2,)] * 2},
    ),
    "a view with a space, a quote and a letter beyond ASCII": (
        "k BIGINT, l BIGINT, m BIGINT",
        {"my view": "SELECT k, count(*) AS n FROM t GROUP BY k", "a`b": "SELECT k FROM t",
         "Sélect": "SELECT l, sum(m) AS s FROM t GROUP BY l"},
        {"my view": [(1, 2), (2, 2)], "a`b": [(1,), (1,), (2,), (2,)], "Sélect": [(1, 2), (2, 4)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_odd_names_change_nothing(case, tmp_path, uncompiled):
    columns, views, expected = ODD[case]
    shards = LocalShards(tmp_path, {"t": columns}, views, multiplicity="times")
    names = shards.mill.core.catalog.table("t").table.schema.names
    rows = {name: pa.array([1, 1, 2, 2], pa.int64()) for name in names}
    shards.take({"t": pa.table({**rows, "times": pa.array([1] * 4, pa.int64())})})
    for name, wanted in expected.items():
        assert Counter(shards.mill[name].rows()) == Counter(wanted), name
        assert Counter(shards.partial(name)) == Counter(wanted), name
