"""Passwords by SCRAM-SHA-256, with libpq as the other side."""

import pathlib
import stat

import psycopg
import pytest

import viewmill as vm
from viewmill.serve.scram import Secret
from viewmill.serve.users import add_user


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users"
    add_user(file, "ann", "correct horse")
    add_user(file, "bob", "pässword")
    return file


def test_the_right_password_lets_in(served, connect, users):
    with served.serve(port=0, users=users) as server:
        for user, password in (("ann", "correct horse"), ("bob", "pässword")):
            client = connect(server, user, password=password, require_auth="scram-sha-256")
            assert client.execute("SELECT current_user").fetchone() == (user,)


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", "wrong"), ("ann", "pässword"), ("nobody", "correct horse"), ("ann", "")],
)
def test_another_password_does_not(served, connect, users, user, password):
    with served.serve(port=0, users=users) as server:
        with pytest.raises(psycopg.OperationalError):
            connect(server, user, password=password)
        connect(server, "ann", password="correct horse")


def test_a_new_password_replaces_the_old_one(served, connect, users):
    add_user(users, "ann", "new")
    with served.serve(port=0, users=users) as server:
        connect(server, "ann", password="new")
        with pytest.raises(psycopg.OperationalError):
            connect(server, "ann", password="correct horse")


def test_the_file_holds_no_password_and_is_for_its_owner(users):
    assert "correct" not in users.read_text()
    assert stat.S_IMODE(pathlib.Path(users).stat().st_mode) == 0o600


def test_a_secret_reads_as_it_was_written():
    secret = Secret.of("pencil")
    assert Secret.read(str(secret)) == secret


@pytest.mark.parametrize("line", ["ann", "ann:pencil", "ann:SCRAM-SHA-256$0:YQ==$YQ==:YQ=="])
def test_a_line_that_is_no_user_is_refused(served, tmp_path, line):
    (tmp_path / "users").write_text(line)
    with pytest.raises(vm.ViewmillError, match="line 1 of"):
        served.serve(port=0, users=tmp_path / "users")


@pytest.mark.parametrize("name", ["", "a:b", "#a", "a\nb"])
def test_a_name_that_would_break_the_file_is_refused(tmp_path, name):
    with pytest.raises(vm.ViewmillError):
        add_user(tmp_path / "users", name, "x")
    assert not (tmp_path / "users").exists()


def test_other_machines_need_a_password(served):
    with pytest.raises(vm.ViewmillError, match="can be reached from other machines"):
        served.serve(port=0, host="0.0.0.0")
