"""Tables that never change: nothing is kept for changes that cannot come, with rings as well."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")

COLUMNS = {
    "Inventory": ("locn", "dateid", "ksn", "units"),
    "Item": ("ksn", "price"),
    "Weather": ("locn", "dateid", "rain"),
    "Location": ("locn", "zip", "size"),
    "Census": ("zip", "people"),
}
JOINED = (
    "Inventory JOIN Item ON Inventory.ksn = Item.ksn "
    "JOIN Weather ON Inventory.locn = Weather.locn AND Inventory.dateid = Weather.dateid "
    "JOIN Location ON Inventory.locn = Location.locn JOIN Census ON Location.zip = Census.zip"
)
COFACTOR = "cofactor(Inventory.units, Item.price, Weather.rain, Location.size, Census.people) AS c"
ORDER = "/*+ VARIABLE_ORDER(locn(dateid(ksn), zip)) */"
QUERIES = {
    "global": f"SELECT {ORDER} {COFACTOR} FROM {JOINED}",
    "grouped": f"SELECT Inventory.locn, {COFACTOR} FROM {JOINED} GROUP BY Inventory.locn",
    "summed": f"SELECT SUM(Inventory.units * Census.people) AS v FROM {JOINED}",
}
DIMENSIONS = ("Item", "Weather", "Location", "Census")
STATIC = {
    "dimensions": DIMENSIONS,
    "a_pair": ("Location", "Census"),
    "apart": ("Item", "Census"),
    "the_largest": ("Inventory", "Weather"),
    "all": tuple(COLUMNS),
}


def _rows(random: np.random.Generator, name: str) -> list[tuple[int | None, ...]]:
    found = random.integers(0, 4, (30, len(COLUMNS[name]))).tolist()
    return [tuple(None if random.random() < 0.03 else x for x in row) for row in found]


def _create(mill: Any, static: tuple[str, ...]) -> None:
    for name, columns in COLUMNS.items():
        kind = "STATIC" if name in static else ""
        mill.sql(f"CREATE TABLE {name} ({', '.join(f'{x} BIGINT' for x in columns)}) {kind}")


def _change(mill: Any, random: np.random.Generator, static: tuple[str, ...]) -> None:
    for name in COLUMNS:
        if name not in static:
            rows = _rows(random, name)
            mill.insert(name, rows)
            mill.delete(name, rows[:7])


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
@pytest.mark.parametrize("static", STATIC.values(), ids=list(STATIC))
@pytest.mark.parametrize("loaded", ["before", "after"])
def test_equal_to_recompute(query: str, static: tuple[str, ...], loaded: str) -> None:
    """Also where a STATIC table is loaded after the view was made."""
    random = np.random.default_rng(len(static))
    with vm.connect() as mill:
        _create(mill, static)
        for name in static:
            if loaded == "before":
                mill.insert(name, _rows(random, name))
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
        for name in static:
            if loaded == "after":
                mill.insert(name, _rows(random, name))
        for _ in range(2):
            _change(mill, random, static)
            assert mill["v"].verify() == []


def test_nothing_is_kept_for_changes_that_cannot_come() -> None:
    """Views of Inventory are joined with what never changes, so that they are not stored."""
    held = {}
    for static in ((), DIMENSIONS):
        random = np.random.default_rng(5)
        with vm.connect() as mill:
            _create(mill, static)
            for name in DIMENSIONS:
                mill.insert(name, _rows(random, name))
            mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['global']}")
            mill.insert("Inventory", _rows(random, "Inventory"))
            maintainer = mill.core.catalog.view("v").blocks[-1].maintainer
            held[static] = {n for n, size in maintainer.state_bytes().items() if size > 64}
            said = mill["v"].explain()
            assert mill["v"].verify() == []
    assert any("inventory" in name for name in held[()])
    assert held[DIMENSIONS] == {"v_weather", "v_item", "v_location_census_at_zip", "root"}
    assert "not kept, as only changes of Census, Item, Location, Weather would need them" in said


def test_a_mill_that_is_opened_again(tmp_path: Path) -> None:
    """States that were needed only to read STATIC tables come back as they were: empty."""
    random = np.random.default_rng(6)
    with vm.connect(tmp_path / "m") as mill:
        _create(mill, DIMENSIONS)
        for name in DIMENSIONS:
            mill.insert(name, _rows(random, name))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES['global']}")
        mill.insert("Inventory", _rows(random, "Inventory"))
        mill.checkpoint()
        mill.insert("Inventory", _rows(random, "Inventory"))
    with vm.connect(tmp_path / "m") as mill:
        assert mill["v"].verify() == []
        mill.insert("Inventory", _rows(random, "Inventory"))
        assert mill["v"].verify() == []


# Cyclic joins: what an indicator says may be of a table that never changes.

CYCLE = "FROM x JOIN y ON x.b = y.b JOIN z ON y.c = z.c AND z.a = x.a"
EDGES = {"x": ("a", "b"), "y": ("b", "c"), "z": ("c", "a")}
CYCLIC = {
    "count": f"SELECT COUNT(*) AS n {CYCLE}",
    "by_key": f"SELECT x.a, SUM(x.p * y.p * z.p) AS s, COUNT(*) AS n {CYCLE} GROUP BY x.a",
    "moments": f"SELECT cofactor(x.p, y.p, z.p) AS c {CYCLE}",
}


def _edges(random: np.random.Generator) -> list[tuple[int | None, ...]]:
    rows = random.integers(0, 4, (12, 3)).tolist()
    return [(None if random.random() < 0.05 else a, b, p) for a, b, p in rows]


def _triangle(static: tuple[str, ...]) -> Any:
    mill = vm.connect()
    for name, (first, second) in EDGES.items():
        kind = "STATIC" if name in static else ""
        mill.sql(f"CREATE TABLE {name} ({first} INT, {second} INT, p INT) {kind}")
    return mill


@pytest.mark.parametrize("query", CYCLIC.values(), ids=list(CYCLIC))
@pytest.mark.parametrize("static", ["x", "y", "z", "xy", "yx", "zx", "xyz"])
def test_a_triangle_of_which_some_never_change(query: str, static: str) -> None:
    """The first of them is loaded before the view is made, the others after it."""
    random = np.random.default_rng(len(static))
    with _triangle(tuple(static)) as mill:
        mill.insert(static[0], _edges(random))
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {query}")
        for name in static[1:]:
            mill.insert(name, _edges(random))
        for _ in range(2):
            for name in sorted({*EDGES} - {*static}):
                rows = _edges(random)
                mill.insert(name, rows)
                mill.delete(name, rows[:8])
                assert mill["v"].verify() == []


def test_repeating_keys_and_products_around_an_indicator_that_never_changes() -> None:
    with _triangle(("x",)) as mill:
        mill.insert("x", [(i % 3, i % 4, i) for i in range(12)])
        mill.sql(f"CREATE MATERIALIZED VIEW v STRATEGY view_tree AS {CYCLIC['by_key']}")
        mill.insert("y", [(i % 4, i % 5, i % 7) for i in range(200)])
        mill.apply_product("z", [[{"c": 1}, {"c": 2}], [{"a": 0, "p": 1}, {"a": 2, "p": 3}]])
        mill.insert("z", [(i % 5, i % 3, 1) for i in range(200)])
        assert mill["v"].rows()
        assert mill["v"].verify() == []


def test_a_triangle_keeps_what_its_changing_tables_meet() -> None:
    with _triangle(("x", "y")) as mill:
        for name in "xy":
            mill.insert(name, _edges(np.random.default_rng(1)))
        mill.sql(f"CREATE MATERIALIZED VIEW v AS {CYCLIC['count']}")
        said = mill["v"].explain()
        assert "x is STATIC" in said
        assert "update of z   O(n)" in said
        assert "update of x" not in said
        kept = {state.name for state in mill.core.catalog.view("v").block.program.states}
        assert kept == {"v_x", "v_y", "root"}  # what a row of z meets; z itself is not stored
