"""The command that starts a console."""

import re
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typer.testing import CliRunner

import viewmill as vm
from viewmill.cli.main import app
from viewmill.console.console import Console


@pytest.fixture
def mill_path(uncompiled, tmp_path):
    path = tmp_path / "orders.mill"
    with vm.connect(path) as mill:
        mill.sql("CREATE TABLE orders (id BIGINT)")
    return path


def test_the_browser_is_led_to_the_link_which_is_in_no_command_line(mill_path, monkeypatch):
    opened = []

    def open_browser(address):
        page = Path(unquote(urlsplit(address).path))
        opened.append((address, page.read_text(), page.parent.stat().st_mode & 0o777, page))

    def stop_at_once(self, timeout=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", open_browser)
    monkeypatch.setattr(Console, "wait", stop_at_once)
    done = CliRunner().invoke(app, ["console", "--open", str(mill_path)])
    assert done.exit_code == 0, done.output
    (link,) = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", done.output)
    ((address, text, mode, page),) = opened
    assert link.partition("token=")[2] not in address
    assert link in text
    assert mode == 0o700
    assert not page.exists()


def test_what_is_no_mill_is_an_error_that_makes_no_mill(tmp_path):
    missing = tmp_path / "nothing.mill"
    for more in ([], ["--write"]):
        done = CliRunner().invoke(app, ["console", str(missing), *more])
        assert isinstance(done.exception, vm.ViewmillError)
        assert "there is no mill" in done.exception.message
    assert not missing.exists()
