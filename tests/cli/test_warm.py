"""`viewmill warm`: kernels before they are needed."""

import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")


def test_the_kernels_of_a_mill_are_packed_and_added(project):
    path, packed = project.folder / "m.mill", project.folder / "kernels.zip"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE t (a BIGINT) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a > 1")
    said = project.run("warm", "--only", "--mill", str(path), "--export", str(packed))
    assert "m.mill: 1 views" in said
    assert "kernels.zip: " in said
    said = project.run("warm", "--only", "--mill", str(path), "--import", str(packed))
    assert "kernels.zip: 0 files that the cache did not have" in said


def test_nothing_to_warm_and_nothing_to_add_are_mistakes(project):
    done = project.call("warm", "--only", "--mill", "absent.mill")
    assert done.returncode == 1
    assert "there is no mill at absent.mill" in done.stderr
    done = project.call("warm", "--only", "--import", "absent.zip")
    assert done.returncode == 1
    assert "there are no kernels at absent.zip" in done.stderr
