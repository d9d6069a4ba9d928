"""Records of the catalog that nobody wrote so, with checksums that fit: what can be opened, is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import viewmill as vm
from viewmill.errors import BrokenView, DamagedFile
from viewmill.mill.store import Store

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (ts TIMESTAMP, x BIGINT) TIMESTAMP BY ts PARTITION LENGTH 60")
        mill.sql("CREATE TABLE r (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM r")
        mill.sql("CREATE VIEW p AS SELECT x FROM r")
        mill.sql("CREATE MATERIALIZED VIEW over AS SELECT s + 1 AS s FROM v")
        mill.sql("CREATE MATERIALIZED VIEW good AS SELECT count(*) AS n FROM r")
        mill.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 00:00:00', 1)")
        mill.insert("r", [(1,), (2,)])
        mill.checkpoint()
    return path


def forge(path: Path, **records: Any) -> None:
    """Put these into records, each a text or what it changes."""
    with Store.open(path) as store:
        catalog = store.catalog()
        texts = {
            name: each if isinstance(each, str) else json.dumps(json.loads(catalog[name]) | each)
            for name, each in records.items()
        }
        store.append(store.last_version() + 1, {}, texts)


def forge_notes(path: Path, **notes: str) -> None:
    """Put a text into each note whose name begins so."""
    with Store.open(path) as store:
        tables: dict[str, Any] = {key: store.load_table(key) for key in store.table_keys()}
        found = {
            name: next((text for start, text in notes.items() if name.startswith(start)), body)
            for name, body in store.notes().items()
        }
        assert found != store.notes()
        store.checkpoint(store.last_version(), tables, {}, found)


VIEWS: dict[str, Any] = {
    "empty": "{}",
    "no JSON": "{",
    "a list": "[]",
    "deep": "[" * 100_000,
    "no text": {"sql": None},
    "not SQL": {"sql": "CREATE MATERIALIZED"},
    "no statement": {"sql": ""},
    "another statement": {"sql": "DROP TABLE r"},
    "a query": {"sql": "SELECT 1 AS x"},
    "a table's": {"sql": "CREATE TABLE r (x BIGINT)"},
    "policies": {"policies": 5},
    "policy": {"policies": ["REFRESH NEVER; DROP TABLE r"]},
    "reads nothing known": {"sql": "CREATE MATERIALIZED VIEW v AS SELECT y FROM nowhere"},
    "reads itself": {"sql": "CREATE MATERIALIZED VIEW v AS SELECT s FROM v"},
}


@pytest.mark.parametrize("record", VIEWS)
def test_a_view_is_broken_and_everything_else_works(path: Path, record: str) -> None:
    forge(path, v=VIEWS[record])
    for n in (2, 3):
        with vm.connect(path) as mill:
            assert sorted(mill.broken()) == ["over", "v"]
            assert mill["good"].rows() == [(n,)]
            with pytest.raises(BrokenView):
                mill["v"].rows()
            with pytest.raises(vm.ViewmillError):
                mill.sql("REFRESH MATERIALIZED VIEW v")
            assert len(mill.definitions()) == 6
            mill.insert("r", [(7,)])
            mill.checkpoint()
    with vm.connect(path) as mill:
        mill.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM r")
        assert mill.broken() == {}
        assert mill["over"].rows() == [(18,)]
    with vm.connect(path) as mill:
        assert mill.broken() == {}


def test_a_record_that_says_nothing_can_be_dropped(path: Path) -> None:
    forge(path, over="{}", p="null")
    with vm.connect(path) as mill:
        assert sorted(mill.broken()) == ["over", "p"]
        mill.sql("DROP VIEW over")
        mill.sql("DROP VIEW p")
    with vm.connect(path) as mill:
        assert mill.broken() == {}
        assert sorted(mill.views()) == ["good", "v"]


def test_views_that_read_each_other_are_broken_and_so_is_what_reads_them(path: Path) -> None:
    forge(path, v={"sql": "CREATE MATERIALIZED VIEW v AS SELECT n AS s FROM good"},
          good={"sql": "CREATE MATERIALIZED VIEW good AS SELECT s AS n FROM v"})  # fmt: skip
    with vm.connect(path) as mill:
        assert sorted(mill.broken()) == ["good", "over", "v"]
        assert "read each other" in mill.broken()["v"]
        assert sorted(mill.sql("SELECT * FROM p").rows()) == [(1,), (2,)]
        mill.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM r")
        assert mill["over"].rows() == [(4,)]
        mill.sql("DROP MATERIALIZED VIEW good")
        assert mill.broken() == {}


TABLES: dict[str, Any] = {
    "empty": "{}",
    "no JSON": "x",
    "not SQL": {"sql": 1},
    "another statement": {"sql": "CREATE VIEW r AS SELECT 1 AS x"},
    "no key": {"key": None},
    "tick": {"tick": "soon"},
    "large tick": {"tick": 1 << 70},
    "arrives": {"arrives": 7},
}


@pytest.mark.parametrize("record", TABLES)
@pytest.mark.parametrize("table", ["r", "t"])
def test_a_table_names_the_file_and_loses_nothing(path: Path, record: str, table: str) -> None:
    with Store.open(path) as store:
        text = store.catalog()[table]
    forge(path, **{table: TABLES[record]})
    with pytest.raises(DamagedFile, match=r"mill\.db") as caught:
        vm.connect(path)
    assert f'table "{table}"' in (caught.value.detail or "")
    forge(path, **{table: text})
    with vm.connect(path) as mill:
        assert mill["good"].rows() == [(2,)]
        assert mill.sql("SELECT x FROM t").rows() == [(1,)]


@pytest.mark.parametrize("note", ["", "{}", "[]", '{"catalog": [[1]], "refused": 0}', "1"])
@pytest.mark.parametrize("which", ["parts", "newest"])
def test_notes_that_cannot_be_read_name_the_file(path: Path, note: str, which: str) -> None:
    if which == "newest" and note == "1":
        note = str(1 << 70)
    forge_notes(path, **{which: note})
    with pytest.raises(DamagedFile, match=r"mill\.db") as caught:
        vm.connect(path)
    assert 'table "t"' in (caught.value.detail or "")
