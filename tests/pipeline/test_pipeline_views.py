"""What a pipeline's handle on a view fetches, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipeline.frames import Frame
from tests.pipeline.test_edited_pipelines import opened, rows

from viewmill.errors import InvalidArgument


def test_more_rows_than_the_limit_are_refused_with_what_to_do_instead(tmp_path):
    with opened(tmp_path, Frame(rows((1, 10), (2, 20), (3, 30)))) as pipe:
        pipe.run_once()
        view: Any = pipe["spent"]
        assert sorted(view.rows(limit=3)) == [(1, 10), (2, 20), (3, 30)]
        assert len(view.to_pandas()) == len(view.rows(limit=None)) == 3
        for method in ("rows", "to_pandas", "to_polars"):
            with pytest.raises(InvalidArgument, match="3 rows") as refused:
                getattr(view, method)(limit=2)
            assert "to_spark()" in str(refused.value.hint)
        with pytest.raises(InvalidArgument, match="limit='all'"):
            view.rows(limit="all")
