"""`viewmill serve`: a process that serves a mill until it is interrupted."""

import re
import signal
import subprocess
import sys

import psycopg
import pytest

import viewmill as vm

pytestmark = pytest.mark.usefixtures("uncompiled")
SERVE = [sys.executable, "-m", "viewmill.cli.main", "serve"]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_mill_on_disk_is_served_to_who_knows_the_password(project, stop):
    with vm.connect(project.folder / "m.mill") as mill:
        mill.sql("CREATE TABLE t (a BIGINT)")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS a FROM t")
        mill.insert("t", [(1,), (2,)])
    added = subprocess.run(
        [*SERVE, "--add-user", "ann", "--users", "users"],
        cwd=project.folder, input="secret\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert added.returncode == 0, added.stderr
    with subprocess.Popen(
        [*SERVE, "m.mill", "--port", "0", "--users", "users"],
        cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            said = re.match(r"listening on 127\.0\.0\.1:(\d+), ", process.stdout.readline())
            assert said is not None
            where = f"host=127.0.0.1 port={said[1]} user=ann dbname=v connect_timeout=20"
            with psycopg.connect(where, password="secret") as client:
                assert client.execute("SELECT a FROM v").fetchall() == [(3,)]
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(where, password="wrong")
        finally:
            process.send_signal(stop)
        _, complaint = process.communicate(timeout=20)
    assert "Traceback" not in complaint


def test_what_cannot_be_served_is_said(project):
    assert "there is no mill at absent.mill" in project.fail("serve", "absent.mill")
    assert "--add-user needs a file" in project.fail("serve", "--add-user", "ann")
    with vm.connect(project.folder / "m.mill"):
        pass
    said = project.fail("serve", "m.mill", "--host", "0.0.0.0", "--port", "0")
    assert "can be reached from other machines" in said
    said = project.fail("serve", "m.mill", "--port", "99999")
    assert "port 99999" in said
