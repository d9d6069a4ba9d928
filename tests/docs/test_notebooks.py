"""The notebooks are run cell by cell, and show the output that their cells have."""

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples/notebooks").glob("*.ipynb"))


def run(source: str, names: dict[str, Any]) -> str:
    """What a cell prints, and the value of the expression that it ends with."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                printed.write(f"{value!r}\n")
    return printed.getvalue()


def outputs(text: str) -> list[dict[str, Any]]:
    """A cell's outputs as a notebook stores them."""
    if not text:
        return []
    return [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_shows_what_its_cells_print(path, uncompiled, update_golden):
    notebook, names = json.loads(path.read_text()), dict[str, Any]()
    for count, cell in enumerate((e for e in notebook["cells"] if e["cell_type"] == "code"), 1):
        cell["outputs"] = outputs(run("".join(cell["source"]), names))
        cell["execution_count"] = count
    written = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    if update_golden:
        path.write_text(written)
    assert written == path.read_text(), "pytest --update-golden writes it anew; read the diff"
    assert any(cell.get("outputs") for cell in notebook["cells"])


def test_there_is_a_notebook_for_each_paper():
    pages = NOTEBOOKS[0].parents[2] / "docs/papers"
    assert {path.stem for path in NOTEBOOKS} == {path.stem for path in pages.glob("*.md")}
