"""`viewmill doctor` and `viewmill export`, and commands that read a mill that is open elsewhere."""

import json

import pyarrow.parquet as pq
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.fixture
def broken(project, monkeypatch):
    """A mill with a view that cannot be opened, and an odd name.

    It is an old one, that did not store which version a view has: it cannot come back stale.
    """
    monkeypatch.setattr("viewmill.mill.mill.stale_records", lambda core, tables: {})
    path = project.folder / "m.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (x BIGINT, s STRING)")
        mill.sql("CREATE TABLE `../odd/name` (x INT)")
        mill.sql("CREATE MATERIALIZED VIEW bad REFRESH ON DEMAND AS SELECT 10 div x AS q FROM t")
        mill.sql("CREATE MATERIALIZED VIEW good AS SELECT s, count(*) AS n FROM t GROUP BY s")
        mill.insert("t", [(0, "a"), (5, "a"), (5, None)])
        mill.insert("../odd/name", [(1,)])
    return path


def test_doctor_looks_at_the_environment(project):
    said = project.run("doctor")
    for word in ("Python", "pyarrow", "Java", "kernel cache"):
        assert word in said


def test_doctor_says_what_is_broken_and_what_to_do(project, broken):
    done = project.call("doctor", str(broken))
    assert done.returncode == 1
    assert "broken: " in done.stdout
    assert "division by zero" in done.stdout
    assert "REFRESH MATERIALIZED VIEW" in done.stdout
    found = json.loads(project.call("doctor", str(broken), "--json").stdout)
    assert [each["what"] for each in found if each["to_do"]] == ["view bad"]
    with vm.connect(broken) as mill:
        mill.sql("DELETE FROM t WHERE x = 0")
        mill.sql("REFRESH MATERIALIZED VIEW bad")
        assert "2 rows" in project.run("doctor", str(broken))  # while it is open here


def test_doctor_of_a_damaged_mill_names_the_file(project, broken):
    (broken / "mill.db").write_bytes(b"not a database")
    done = project.call("doctor", str(broken))
    assert done.returncode == 1
    assert "mill.db" in done.stdout


def test_export_writes_what_can_be_read(project, broken):
    with vm.connect(broken) as mill:
        mill.insert("t", [(7, "b")])
        said = project.run("export", str(broken), "out")  # while it is open and has changed
    assert "left out: bad" in said
    out = project.folder / "out"
    rows = pq.read_table(out / "tables" / "t.parquet").to_pylist()
    assert sorted((row["x"], row["s"] or "") for row in rows) == [
        (0, "a"),
        (5, ""),
        (5, "a"),
        (7, "b"),
    ]
    assert pq.read_table(out / "tables" / "..%2Fodd%2Fname.parquet").to_pylist() == [{"x": 1}]
    counts = pq.read_table(out / "views" / "good.parquet").to_pylist()
    assert {row["s"]: row["n"] for row in counts} == {"a": 2, None: 1, "b": 1}
    assert not (out / "views" / "bad.parquet").exists()
    with vm.connect() as again:  # the definitions are SQL
        again.sql((out / "definitions.sql").read_text())
        assert sorted(again.views()) == ["bad", "good"]
    assert "not empty" in project.fail("export", str(broken), "out")


def test_status_and_verify_read_a_mill_that_is_open_elsewhere(project, broken):
    with vm.connect(broken) as mill:
        mill.sql("DROP MATERIALIZED VIEW bad")
        assert "good" in project.run("status", "--mill", str(broken))
        assert "good: equal to recompute" in project.run("verify", "--mill", str(broken))
        mill.insert("t", [(8, "c")])
        assert (
            json.loads(project.run("status", "--mill", str(broken), "--json"))["good"]["rows"] == 3
        )


def test_the_definitions_run_in_another_mill(project):
    """Plain views were left out, and the views that read them could not be created."""
    literal = "a\r\nb\rc"
    with vm.connect(project.folder / "m.mill") as mill:
        mill.sql("CREATE TABLE t (x BIGINT, s STRING) -- the rows")
        mill.sql("CREATE VIEW later AS SELECT x FROM t")
        mill.sql("CREATE VIEW first AS SELECT x, s FROM t -- by name")
        mill.sql("CREATE OR REPLACE VIEW later AS SELECT x FROM first")
        mill.sql(f"CREATE MATERIALIZED VIEW v AS SELECT count(x) AS n, '{literal}' AS s FROM later")
    project.run("export", "m.mill", "out")
    with vm.connect() as again:
        again.sql((project.folder / "out" / "definitions.sql").read_bytes().decode())
        assert again["v"].rows() == [(0, literal)]


def test_an_empty_mill_is_exported_and_names_are_no_emoji(project):
    vm.connect(project.folder / "empty.mill").close()
    assert "version 0" in project.run("export", "empty.mill", "out")
    assert (project.folder / "out" / "definitions.sql").read_text() == ""
    with vm.connect(project.folder / "m.mill") as mill:
        mill.sql("CREATE TABLE t (x BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW `:smile:` AS SELECT x FROM t")
    assert ":smile:" in project.run("status", "--mill", "m.mill")


def test_a_backup_is_a_mill(project, broken):
    said = project.run("backup", str(broken), "copy.mill")
    assert "copy.mill: version " in said
    with vm.connect(project.folder / "copy.mill", read_only=True) as copy:
        assert set(copy["good"].rows()) == {("a", 2), (None, 1)}
    done = project.call("backup", "absent.mill", "other.mill")
    assert done.returncode == 1
    assert "there is no mill at" in done.stderr
