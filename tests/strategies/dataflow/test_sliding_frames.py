"""Wide frames that slide: what left is taken away, what came is added, and nothing is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest

import viewmill as vm

FRAMES = (
    "ROWS BETWEEN 20 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 30 PRECEDING AND 5 PRECEDING",
    "ROWS BETWEEN 3 FOLLOWING AND 25 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 5 PRECEDING AND 1 PRECEDING",
    "RANGE BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING",
)
CALLS = ("sum(b)", "count(b)", "avg(b)", "avg(d)", "sum(d)", "min(b)", "max(d)", "max(c)")
USUAL = (None, 1e20, -1e20, 1e9, 1.0, 0.1, 1e-9)
ODD = (None, float("inf"), float("-inf"), float("nan"), 1e300, 1.0, 1e-5)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("floats", [USUAL, ODD], ids=["usual", "odd"])
def test_frames_equal_recompute(
    frame: str, floats: tuple[float | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "off")
    source, live, number = random.Random(frame), [], 0
    order = "t, id" if frame.startswith("ROWS") else "t"
    shown = ", ".join(
        f"{call} OVER (PARTITION BY g ORDER BY {order} {frame}) AS c{i}"
        for i, call in enumerate(CALLS)
    )
    with vm.connect() as mill:
        mill.sql("CREATE TABLE r (id INT, g INT, t INT, b BIGINT, c STRING, d DOUBLE)")
        mill.sql(
            "CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL STRICT AS "
            f"SELECT id, {shown} FROM r"
        )
        for count in (60, 1, -3, 2, -1, 30, -40):
            rows: list[tuple[Any, ...]] = []
            for _ in range(abs(count)):
                number += 1
                t, b = source.choice((None, *range(20))), source.choice((None, *range(-4, 9)))
                g, c = source.choice((1, 1, 2)), source.choice((None, "a", "ab", "b"))
                rows.append((number, g, t, b, c, source.choice(floats)))
            if count > 0:
                live += rows
                mill.insert("r", rows)
            else:
                gone = [live.pop(source.randrange(len(live))) for _ in rows]
                mill.delete("r", gone)
            assert mill["v"].verify() == []
