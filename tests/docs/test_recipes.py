"""The recipes of CONTRIBUTING.md, followed in a copy of the project."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.recipes import RECIPES, follow, touched

import viewmill

ROOT = Path(__file__).parents[2]
MOST_FILES = 3

FOUND = {
    "aggregate": [[[1, 1], [2, 0]], [[7, 2]], ["dataflow", "view_tree", "shared_window"]],
    "ring": 26,
    "kind of state": [[0, 3], [3, 2]],
    "scalar function": [[[1]], [[2]]],
    "window function": [[[4, 1], [6, 2], [9, 3]], []],
    "sink": [1],
    "source": [[0], [1], [2]],
    "policy": [0, 2, 2],
    "command": True,
    "rewrite rule": "before\nProject: t.a AS a\n└─ Filter: NOT NOT t.a > 1\n   └─ Scan: t\n"
    "after\nProject: t.a AS a\n└─ Filter: t.a > 1\n   └─ Scan: t",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every recipe leads to; all of them followed in one copy."""
    folder = tmp_path_factory.mktemp("recipes")
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(Path(viewmill.__file__).parent, folder / "viewmill", ignore=ignored)
    for kind in RECIPES:
        follow(kind, folder / "viewmill")
    environment = {"PYTHONPATH": str(folder), "VIEWMILL_COMPILER": "off"}
    command = [sys.executable, "-B", str(Path(__file__).with_name("use_recipes.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_is_all_that_its_kind_takes(kind: str, found: dict[str, Any]) -> None:
    assert found[kind] == FOUND[kind]


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_touches_the_few_files_that_its_page_names(kind: str) -> None:
    (row,) = re.findall(rf"^\| new {kind}[^|]* \* \| (.*) \|$", _recipes(), re.MULTILINE)
    named = re.findall(r"`src/viewmill/([\w/.]+)`", row)
    assert len(named) <= MOST_FILES
    for path in touched(kind):
        assert any(path == each or (each.endswith("/") and path.startswith(each)) for each in named)


def _recipes() -> str:
    return (ROOT / "CONTRIBUTING.md").read_text()
