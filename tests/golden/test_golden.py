"""Golden scripts, a folder for each stage of a view's life. `make golden` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewmill as vm
from viewmill.testing.golden import Script, check_script, read_rows, show_rows

HERE = Path(__file__).parent
SCRIPTS = sorted(p for p in HERE.glob("*/*.golden") if p.parent.name != "commands")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_script_prints_what_it_says(path, update_golden, uncompiled):
    with vm.connect() as mill:
        check_script(path, Script(mill).run, update=update_golden)


def test_every_stage_has_scripts():
    stages = {path.parent.name for path in SCRIPTS}
    assert stages >= {"sql", "rewrite", "plans", "programs", "kernels", "views"}


def test_a_script_whose_output_differs_fails(tmp_path, uncompiled):
    path = tmp_path / "wrong.golden"
    path.write_text("CREATE TABLE t (x INT)\n---\nok\n\nSELECT 1 AS x\n---\n(2)\n")
    with vm.connect() as mill, pytest.raises(AssertionError, match="make golden"):
        check_script(path, Script(mill).run)


def test_a_script_cannot_bless_a_wrong_view(uncompiled):
    with vm.connect() as mill:
        script = Script(mill)
        script.run("CREATE TABLE t (x INT)")
        script.run("view n: SELECT COUNT(*) AS n FROM t")
        maintainer = mill._core.catalog.view("n").block.maintainer
        maintainer.apply("t", mill._delta("t", [(1,)]))  # behind the mill's back
        maintainer.flush()
        maintainer.commit()
        with pytest.raises(AssertionError, match="n is wrong"):
            script.run("SELECT 1 AS x")


def test_rows_are_read_as_they_are_shown():
    text = "(-1.5, 'it''s') (1, NULL)"
    assert read_rows('(1, NULL) (-1.5, "it\'s")') == [(1, None), (-1.5, "it's")]
    assert show_rows(read_rows("(2, nan) (1, -inf)")) == "(1, -inf) (2, nan)"
    assert show_rows([(1, None), (-1.5, "its")]) == text.replace("it''s", "its")
