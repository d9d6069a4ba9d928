"""Plant mistakes, one at a time, in a copy of the project, and see whether the tests notice.

    python tools/mutate.py --count 50 --seed 1 [--rooms mill strategies] [--tests tests/golden ...]

A mistake is a wrong border (< for <=), a dropped sign or `not`, a swapped operand (+ for -), `and`
for `or`, a number that is off by one, a call that is left out, or one of these in a line of
generated source. Places are drawn from the rooms that decide what a view shows. The tests of
TESTS run uncompiled, the quick ones first; the report lists the mistakes that nobody noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/viewmill")
ROOMS = ("algebra", "deltas", "engines", "kernels/plain", "mill", "rewrite", "sql", "strategies")
TESTS = (
    ("tests/golden", "tests/meaning", "tests/sessions"),
    ("tests/mill", "tests/sql", "tests/rewrite", "tests/deltas"),
    ("tests/strategies", "tests/papers", "tests/equivalence", "tests/policies", "tests/engines"),
)
# What these files decide is cost and wording, not rows.
_NO_ROWS = ("estimate", "explain", "cost", "display", "picture", "statistics", "guess", "rates")

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_IN_TEXT = ((" + ", " - "), (" - ", " + "), (" < ", " <= "), (" > ", " >= "), (" and ", " or "))


@dataclass(frozen=True)
class Mistake:
    """One edit: the characters of a file from `start` to `end` are replaced."""

    path: Path
    line: int
    start: int
    end: int
    new: str

    def describe(self, text: str) -> str:
        """Where it is, and the line before and after."""
        whole = text[: self.start] + self.new + text[self.end :]
        old, new = text.splitlines()[self.line - 1], whole.splitlines()[self.line - 1]
        return f"{self.path}:{self.line}\n    - {old.strip()}\n    + {new.strip()}"


def mistakes_in(path: Path, text: str) -> Iterator[Mistake]:
    """Every mistake that can be made in a file."""
    starts = _line_starts(text)

    def at(node: ast.AST, new: str) -> Mistake:
        line, end = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        first = starts[line - 1] + len(_prefix(text, starts, line, node.col_offset))  # type: ignore[attr-defined]
        last = starts[end - 1] + len(_prefix(text, starts, end, node.end_col_offset))  # type: ignore[attr-defined]
        return Mistake(path, line, first, last, new)

    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("__"):
            for node in (part for each in function.body for part in ast.walk(each)):
                for new in _replacements(node):
                    yield at(node, new)


def _line_starts(text: str) -> list[int]:
    found = [0]
    for line in text.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


def _prefix(text: str, starts: list[int], line: int, column: int) -> str:
    """The characters before a column, which `ast` counts in bytes."""
    return text[starts[line - 1] : starts[line]].encode()[:column].decode()


def _replacements(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]()], [right]))
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not _is_text(left, right):
            yield f"({ast.unparse(ast.BinOp(left, ast.Sub(), right))})"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield f"({ast.unparse(ast.BinOp(left, ast.Add(), right))})"
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.BoolOp(op=ast.And(), values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or(), values))})"
        case ast.BoolOp(op=ast.Or(), values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.And(), values))})"
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.Expr(value=ast.Constant()):
            return  # a docstring
        case ast.JoinedStr():
            yield from _in_text(ast.unparse(node))


def _is_text(*sides: ast.expr) -> bool:
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(
        isinstance(s, kinds) or (isinstance(s, ast.Constant) and isinstance(s.value, str))
        for s in sides
    )


def _in_text(text: str) -> Iterator[str]:
    for old, new in _IN_TEXT:
        if text.count(old) == 1 and "(" in text:
            yield text.replace(old, new)


def drawn(count: int, seed: int, rooms: Sequence[str]) -> list[Mistake]:
    """So many mistakes, spread evenly over the rooms."""
    rng = random.Random(seed)
    chosen: list[Mistake] = []
    by_room = {room: list(_all_in(room)) for room in rooms}
    while len(chosen) < count:
        room = rooms[len(chosen) % len(rooms)]
        chosen.append(rng.choice(by_room[room]))
    return chosen


def _all_in(room: str) -> Iterator[Mistake]:
    for path in sorted((ROOT / SOURCE / room).rglob("*.py")):
        if not any(word in path.stem for word in _NO_ROWS):
            yield from mistakes_in(path.relative_to(ROOT), path.read_text(encoding="utf-8"))


def noticed_by(copy: Path, mistake: Mistake, tests: Sequence[Sequence[str]]) -> str | None:
    """The first test that fails with the mistake planted, None if all pass."""
    target = copy / mistake.path
    text = target.read_text(encoding="utf-8")
    target.write_text(text[: mistake.start] + mistake.new + text[mistake.end :], encoding="utf-8")
    try:
        for group in tests:
            found = _first_failure(copy, group)
            if found is not None:
                return found
        return None
    finally:
        target.write_text(text, encoding="utf-8")


def _first_failure(copy: Path, group: Sequence[str]) -> str | None:
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "2",
        "-m", "not slow and not spark", "-k", "not compiled", *group,
    ]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(copy / "src"), "VIEWMILL_COMPILER": "off",
        "HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=1200
        )
    except subprocess.TimeoutExpired:
        return "a test that does not end"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:150] if lines else "the tests could not start"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if at least 95 of 100 mistakes were noticed."""
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--tests", nargs="*", help="these tests only")
    given = parser.parse_args(arguments)
    tests = [tuple(given.tests)] if given.tests else TESTS
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", "*cache*", "*.mill")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for number, mistake in enumerate(drawn(given.count, given.seed, given.rooms), 1):
            by = noticed_by(copy, mistake, tests)
            text = mistake.describe((ROOT / mistake.path).read_text(encoding="utf-8"))
            print(f"{number} {'noticed by ' + by if by else 'NOT NOTICED'}\n  {text}", flush=True)
            if by is None:
                unnoticed.append(text)
    share = 1 - len(unnoticed) / given.count
    print(f"\n{given.count - len(unnoticed)} of {given.count} noticed ({share:.0%})")
    for text in unnoticed:
        print(f"  {text}")
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    raise SystemExit(main())
