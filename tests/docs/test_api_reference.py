"""The API reference is what the docstrings say, and names each of what users import."""

import importlib.util
from pathlib import Path

import viewmill as vm

ROOT = Path(__file__).resolve().parents[2]


def load():
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "tools/api_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_docstrings_say():
    module = load()
    written = module.PAGE.read_text()
    assert written == module.page(), "python tools/api_reference.py writes it anew"


def test_every_class_and_function_of_the_package_is_there():
    written = load().PAGE.read_text()
    for name in ("connect", "factorize"):
        assert f"## vm.{name}\n" in written
    for name in ("Mill", "View", "Change", "Difference", "Result", "Pipeline", "Ring"):
        assert f"## {name}\n" in written
        assert getattr(vm, name)
    for name in ("Mill.insert", "Mill.serve", "View.rows", "View.verify", "Pipeline.start"):
        assert f"### {name}\n" in written
