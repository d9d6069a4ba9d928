"""Keys that are integers close together are found by a map, compiled; others by their hash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import viewmill as vm
from viewmill.kernels.structures import dense, indexed
from viewmill.mill.mill import Mill

QUERY = "SELECT SUM(r.b * t.d * s.e) AS v FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c"
COLUMNS = {"r": ("a", "b"), "s": ("a", "c", "e"), "t": ("c", "d")}
LOWEST, HIGHEST = -(2**63), 2**63 - 1
BATCHES, SIZE = 8, 300

Keys = npt.NDArray[np.int64]


def _numbers(batch: int) -> Keys:
    return np.arange(batch * SIZE, (batch + 1) * SIZE, dtype=np.int64)


def _outwards(batch: int) -> Keys:
    return _numbers(batch) * np.where(_numbers(batch) % 2, -1, 1)


def _one_far(batch: int) -> Keys:
    keys = _numbers(batch)
    if batch == 5:
        keys[SIZE // 2] = LOWEST
    return keys


def _scattered(batch: int) -> Keys:
    return np.random.default_rng(batch).integers(LOWEST, HIGHEST, SIZE, np.int64, endpoint=True)


# Keys batch by batch, and whether the entries are found by a map after the last one.
STREAMS: dict[str, tuple[Callable[[int], Keys], bool]] = {
    "ascending": (_numbers, True),
    "descending": (lambda batch: -_numbers(batch), True),
    "outwards": (_outwards, True),
    "shuffled": (lambda batch: np.random.default_rng(batch).integers(-999, 999, SIZE), True),
    "highest": (lambda batch: HIGHEST - _numbers(batch), True),
    "lowest": (lambda batch: LOWEST + _numbers(batch), True),
    "apart": (lambda batch: _numbers(batch) * 5, True),
    "far apart": (lambda batch: _numbers(batch) * 40, False),
    "one far away": (_one_far, False),
    "scattered": (_scattered, False),
}


def _rows(keys: Keys, columns: tuple[str, ...]) -> pa.Table:
    """Rows with these keys; those of c are the same in another order."""
    small = np.abs(keys) % 7
    kinds = {"a": keys, "c": np.roll(keys, len(columns))}
    return pa.table({each: kinds.get(each, small) for each in columns})


def _masks(mill: Mill) -> list[int]:
    stores = mill.core.catalog.view("v").block.maintainer._stores  # type: ignore[attr-defined]
    return [stores[name].get(dense.MASK) for name in ("by_a", "v_t", "v_s")]


def _assert_bytes_are_counted(mill: Mill) -> None:
    """What a state took is what it gives back."""
    stores = mill.core.catalog.view("v").block.maintainer._stores  # type: ignore[attr-defined]
    for store in stores.values():
        store.clear()
        assert store.get(indexed.BYTES) == 0


def _create(mill: Mill) -> None:
    for table, columns in COLUMNS.items():
        mill.sql(f"CREATE TABLE {table} ({', '.join(f'{each} BIGINT' for each in columns)})")
    mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {QUERY}")


@pytest.mark.parametrize("name", STREAMS)
def test_keys_of_every_kind(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    stream, is_direct = STREAMS[name]
    with vm.connect() as mill:
        _create(mill)
        for batch in range(BATCHES):
            for table, columns in COLUMNS.items():
                mill.insert(table, _rows(stream(batch), columns))
        assert mill["v"].verify() == []
        assert _masks(mill) == [dense.DIRECT] * 3 if is_direct else min(_masks(mill)) > 0
        for batch in range(BATCHES - 1):  # so many go that the states give memory back
            for table, columns in COLUMNS.items():
                mill.delete(table, _rows(stream(batch), columns))
            assert mill["v"].verify() == []
        for batch in range(3):
            for table, columns in COLUMNS.items():
                mill.insert(table, _rows(stream(batch), columns))
        assert mill["v"].verify() == []
        _assert_bytes_are_counted(mill)


@pytest.mark.parametrize("step", [SIZE, -SIZE, 40 * SIZE])
def test_keys_that_move_on(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Old keys go when new ones come: the map goes with them, upwards, downwards and in leaps."""
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect() as mill:
        _create(mill)
        for batch in range(40):
            for table, columns in COLUMNS.items():
                mill.insert(table, _rows(_numbers(0) + batch * step, columns))
                if batch > 1:
                    mill.delete(table, _rows(_numbers(0) + (batch - 2) * step, columns))
            if batch % 13 == 12:
                assert mill["v"].verify() == []
        if abs(step) == SIZE:
            assert _masks(mill) == [dense.DIRECT] * 3
            assert mill["v"].status()["state_bytes"] < 400_000
        _assert_bytes_are_counted(mill)


def test_states_are_found_by_a_map_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIEWMILL_COMPILER", "on")
    with vm.connect(tmp_path / "m.mill") as mill:
        _create(mill)
        for batch in range(BATCHES):
            for table, columns in COLUMNS.items():
                mill.insert(table, _rows(_outwards(batch), columns))
        mill.checkpoint()
        before = mill["v"].rows()
    with vm.connect(tmp_path / "m.mill") as mill:
        assert mill["v"].rows() == before
        assert _masks(mill) == [dense.DIRECT] * 3
        mill.insert("r", [(HIGHEST, 1), (-3, 5)])
        assert mill["v"].verify() == []
