"""Whatever insert, delete, upsert and apply accept, the mill opens again with it."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import scaled

import viewmill as vm

COLUMNS = {
    "b": "BOOLEAN", "i": "INT", "f": "FLOAT", "d": "DOUBLE", "m": "DECIMAL(12,2)",
    "w": "DECIMAL(38,6)", "s": "STRING", "day": "DATE", "ts": "TIMESTAMP",
}  # fmt: skip
VIEWS = (
    "SELECT s, COUNT(*) AS n, SUM(m) AS m, MAX(w) AS w, MIN(ts) AS t FROM bag GROUP BY s",
    "SELECT day, COUNT(b) AS n, MAX(d) AS d FROM keyed GROUP BY day",
    "SELECT k.id, k.s, bag.i FROM keyed AS k JOIN bag ON k.i = bag.i AND k.s = bag.s",
)

# Far too much of everything: most is refused.
_TEXTS = st.text(st.characters(codec=None), max_size=4) | st.sampled_from(
    ["\ud800", "\0", "", "2024-01-01", "2024-01-01 00:00:00.1234567", "'", "\u2028", "𝔫"]
)
_NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.decimals(allow_nan=True),
    st.sampled_from([np.int8(-1), np.uint64(2**64 - 1), np.float32(1.5), 1j, Decimal("1e9999")]),
)
_TIMES = st.one_of(
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: np.datetime64(n, "us")),
    st.integers(-(2**62), 2**62).map(pd.Timestamp),
)
_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    _TEXTS,
    _NUMBERS,
    _TIMES,
    st.sampled_from([pd.NA, pd.NaT, b"\xff", [1], (), {}]),
)
_FITTING = {
    "b": st.booleans(), "i": st.integers(-2, 2), "f": st.floats(width=32), "d": st.floats(),
    "m": st.decimals(-999, 999, places=2), "w": st.decimals(-(10**30), 10**30, places=6),
    "s": st.text(max_size=3), "day": st.dates(), "ts": st.datetimes(),
}  # fmt: skip


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, Any]:
    """A call, a table and rows in some form."""
    table = draw(st.sampled_from(["bag", "keyed"]))
    how = draw(st.sampled_from(["insert", "insert", "insert", "delete", "upsert", "apply"]))
    size = draw(st.integers(1, 3))
    names = draw(st.lists(st.sampled_from([*COLUMNS]), min_size=1, unique=True))
    odd = draw(st.sampled_from([None, None, *names]))
    columns: dict[str, Any] = {}
    for name in names:
        values = _ANYTHING if name == odd else st.none() | _FITTING[name]
        columns[name] = draw(st.lists(values, min_size=size, max_size=size))
    if table == "keyed":
        columns["id"] = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    if how == "apply":
        columns["n"] = draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size))
    return how, table, _formed(columns, draw(st.sampled_from(["dicts", "arrow", "pandas"])))


def _formed(columns: dict[str, list[Any]], form: str) -> Any:
    """The rows as somebody may have them; dicts where the form cannot hold them."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        if form == "arrow":
            return pa.table({name: pa.array(values) for name, values in columns.items()})
        if form == "pandas":
            return pd.DataFrame(columns)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    return rows


def _take(mill: vm.Mill, how: str, table: str, rows: Any) -> None:
    if how == "apply":
        mill.apply(table, rows, multiplicity="n")
    else:
        getattr(mill, how)(table, rows)


def _everything(mill: vm.Mill) -> dict[str, list[str]]:
    names = [*mill.tables(), *mill.views()]
    return {name: sorted(map(repr, mill.sql(f"SELECT * FROM {name}").rows())) for name in names}


@settings(max_examples=scaled(0.6))
@given(
    sequence=st.lists(changes(), min_size=1, max_size=12),
    options=st.sampled_from(["", "UNCHECKED"]),
)
def test_any_accepted_sequence_can_be_opened_again(
    sequence: list[tuple[str, str, Any]], options: str, uncompiled: None
) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    with tempfile.TemporaryDirectory() as folder:
        with vm.connect(f"{folder}/m") as mill:
            mill.sql(f"CREATE TABLE bag ({columns}) {options}")
            mill.sql(f"CREATE TABLE keyed (id INT, {columns}, PRIMARY KEY (id))")
            for n, query in enumerate(VIEWS):
                mill.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
            for how, table, rows in sequence:
                try:
                    _take(mill, how, table, rows)
                except vm.ViewmillError:
                    continue  # anything else is not an answer
            before = _everything(mill)
        for _ in range(2):  # from the log, then from a checkpoint
            with vm.connect(f"{folder}/m") as mill:
                assert mill.broken() == {}
                assert _everything(mill) == before
                if not options:  # rows that are owed count in a view, and no query sees them
                    assert [mill[name].verify() for name in mill.views()] == [[]] * len(VIEWS)
                mill.checkpoint()
