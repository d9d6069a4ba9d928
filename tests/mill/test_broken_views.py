"""Opening a mill never fails for one view: it is broken, says why, and can be repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewmill as vm
from viewmill.errors import BrokenView

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mill with a view that fails for a row, two that read it, and one that does not.

    The mill is an old one, that did not store which version a view has: it cannot come back stale.
    """
    monkeypatch.setattr("viewmill.mill.mill.stale_records", lambda core, tables: {})
    path = tmp_path / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW bad REFRESH ON DEMAND AS SELECT 10 div x AS q FROM t")
        mill.sql("CREATE MATERIALIZED VIEW over REFRESH ON DEMAND AS SELECT q + 1 AS r FROM bad")
        mill.sql("CREATE VIEW plain AS SELECT q FROM bad")
        mill.sql("CREATE MATERIALIZED VIEW good AS SELECT count(*) AS n FROM t")
        mill.insert("t", [(0,), (5,)])
    return path


def test_everything_else_works(path: Path) -> None:
    for n in (2, 3):  # it stays so, however often the mill is opened
        with vm.connect(path) as mill:
            assert mill.views() == ["good"]
            assert sorted(mill.broken()) == ["bad", "over", "plain"]
            assert "division by zero" in mill.broken()["bad"]
            assert mill.status()["broken"] == mill.broken()
            assert mill["good"].rows() == [(n,)]
            for query in ("SELECT * FROM bad", "SELECT * FROM plain", "SELECT * FROM over"):
                with pytest.raises(BrokenView):
                    mill.sql(query)
            with pytest.raises(BrokenView, match="bad") as caught:
                mill["bad"].rows()
            assert "division by zero" in caught.value.detail
            mill.insert("t", [(7,)])
            mill.checkpoint()


def test_a_refresh_repairs_it_and_what_reads_it(path: Path) -> None:
    with vm.connect(path) as mill:
        with pytest.raises(vm.ViewmillError, match="division by zero"):
            mill.sql("REFRESH MATERIALIZED VIEW bad")
        assert "bad" in mill.broken()
        mill.sql("DELETE FROM t WHERE x = 0")
        mill.sql("REFRESH MATERIALIZED VIEW bad")
        assert mill.broken() == {}
        assert mill["bad"].rows() == [(2,)]
        assert mill["over"].rows() == [(3,)]
        assert mill.sql("SELECT * FROM plain").rows() == [(2,)]
        assert mill["bad"].status()["policies"] == ["REFRESH ON DEMAND"]
    with vm.connect(path) as mill:
        assert mill.broken() == {}
        assert mill["over"].rows() == [(3,)]


def test_an_altered_policy_repairs_it(path: Path) -> None:
    with vm.connect(path) as mill:
        mill.sql("DELETE FROM t WHERE x = 0")
        mill.sql("ALTER MATERIALIZED VIEW bad REFRESH IMMEDIATE")
        mill.insert("t", [(1,)])
        assert sorted(mill["bad"].rows()) == [(2,), (10,)]


def test_it_can_be_dropped_or_replaced(path: Path) -> None:
    with vm.connect(path) as mill:
        with pytest.raises(vm.NameInUse):
            mill.sql("DROP MATERIALIZED VIEW bad")
        with pytest.raises(vm.NameInUse):
            mill.sql("DROP TABLE t")
        with pytest.raises(vm.NameTaken):
            mill.sql("CREATE MATERIALIZED VIEW bad AS SELECT x FROM t")
        with pytest.raises(vm.ViewmillError, match="zero"):
            mill.sql("CREATE OR REPLACE MATERIALIZED VIEW bad AS SELECT 10 div x AS q FROM t")
        assert sorted(mill.broken()) == ["bad", "over", "plain"]
        mill.sql("DROP VIEW plain")
        mill.sql("CREATE OR REPLACE MATERIALIZED VIEW bad AS SELECT x AS q FROM t WHERE x > 0")
        assert mill.broken() == {}
        assert mill["over"].rows() == [(6,)]
        mill.sql("DROP MATERIALIZED VIEW over")
        mill.sql("DROP MATERIALIZED VIEW bad")
    with vm.connect(path) as mill:
        assert mill.broken() == {}
        assert mill.views() == ["good"]
