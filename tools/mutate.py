"""Plant mistakes, one at a time, in a copy of the project, and see whether the tests notice.

    python tools/mutate.py --count 60 --seed 1 [--rooms mill strategies] [--jobs 2]
    python tools/mutate.py --count 60 --seed 1 --only 7 31 --tests tests/golden

A mistake is a wrong border (< for <=), a dropped sign or `not`, a swapped operand (+ for -), `and`
for `or`, a number that is off by one, a first element that is skipped, a call that is left out, or
one of these in a line of generated source. Places are drawn evenly from the rooms that decide what
a view shows.

The tests of `make test` run once, uncompiled, on a copy that notes who reaches which place
(`mutate_hits.py`). A mistake is then given to the tests that reach its place: those that lie in the
room's own folder and the quick ones first. Where no test comes by, as at a function whose results
are cached, golden scripts, meaning, sessions and the room's own tests are asked. The report lists
the mistakes that nobody noticed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import accumulate, zip_longest
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("src/viewmill")
HITS = "mutate_hits"
# A file belongs to the longest of these that it lies in.
ROOMS = (
    "algebra", "codegen", "deltas", "engines", "kernels", "kernels/plain",
    "kernels/structures/windows", "mill", "mill/storage", "pipeline/shards", "planner",
    "planner/sharding", "policies", "program", "rewrite", "runtime", "sql",
    "strategies/aggregate_index", "strategies/dataflow", "strategies/shared_window",
    "strategies/temporal_view", "strategies/view_tree",
)  # fmt: skip
GENERAL = ("tests/golden", "tests/meaning", "tests/sessions")
# Some tests compare no rows, only times and texts.
ASKED = (
    "tests",
    "src",
    "--ignore=tests/bench",
    "--ignore=tests/docs",
    "--ignore=tests/mill/test_cost_of_change.py",
)
# What these decide is cost, memory and wording, not rows.
_NO_ROWS = (
    "adaptive_recompute", "allot", "arrivals", "calibration", "cost", "crash_points", "display",
    "estimate", "expect", "explain", "guess", "join_fanout", "join_sizes", "measured", "memory",
    "picture", "prefetch", "rates", "recycler", "select_states", "statistics",
)  # fmt: skip
# Clocks, hooks of tests, empty lines of generated source.
_FIGURES = ("_ns()", "nanoseconds", "perf_counter", "reach(", "source.line()")
# What runs only compiled: tests/kernels and the compiled lanes compare it with its plain twin.
_COMPILED = tuple(
    f"kernels/{name}"
    for name in ("background", "build", "compiler", "library", "source", "structures/")
)

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

    def planted(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        return text[: self.start] + self.new + text[self.end :]

    @property
    def key(self) -> str:
        """What tells it from every other."""
        return f"{self.path}:{self.start}:{self.end}:{self.new}"

    def describe(self) -> str:
        """Where it is, and what is written there before and after."""
        old = (ROOT / self.path).read_text(encoding="utf-8")[self.start : self.end]
        return f"{self.path}:{self.line}\n    - {' '.join(old.split())}\n    + {self.new}"


def mistakes_in(path: Path, text: str) -> Iterator[Mistake]:
    """Every mistake that can be made in the functions of a file."""
    starts = _line_starts(text)
    whole = ast.parse(text)
    texts = _inside_texts(whole)
    for function in ast.walk(whole):
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("__"):
            for node in (part for each in function.body for part in _own_parts(each)):
                if node not in texts:
                    for new in _replacements(node):
                        start, end = _span(node, text, starts)
                        yield Mistake(path, node.lineno, start, end, new)  # type: ignore[attr-defined]


def _own_parts(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is in it, without functions inside, which are visited on their own."""
    if isinstance(node, ast.FunctionDef):
        return
    yield node
    for part in ast.iter_child_nodes(node):
        yield from _own_parts(part)


def _inside_texts(tree: ast.AST) -> set[ast.AST]:
    """What lies in f-strings, whose places Python 3.11 does not know, in errors and annotations."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found |= set(ast.walk(node)) - {node}
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            found |= set(ast.walk(node))
        elif isinstance(node, ast.AnnAssign):
            found |= set(ast.walk(node.annotation))
        elif isinstance(node, ast.match_case):
            found |= set(ast.walk(node.pattern))
    return found


def _line_starts(text: str) -> list[int]:
    found = [0]
    for line in text.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


def _span(node: ast.AST, text: str, starts: list[int]) -> tuple[int, int]:
    """The first character of a node and the one after its last; `ast` counts columns in bytes."""

    def character(line: int, column: int) -> int:
        before = text[starts[line - 1] : starts[line]].encode()[:column].decode()
        return starts[line - 1] + len(before)

    return (
        character(node.lineno, node.col_offset),  # type: ignore[attr-defined]
        character(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def _replacements(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield f"({ast.unparse(ast.Compare(left, [_COMPARISONS[type(op)]()], [right]))})"
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not _is_text(left, right):
            yield f"({ast.unparse(ast.BinOp(left, ast.Sub(), right))})"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield f"({ast.unparse(ast.BinOp(left, ast.Add(), right))})"
        case ast.AugAssign(target=target, op=ast.Add(), value=value) if not _is_text(value):
            yield ast.unparse(ast.AugAssign(target, ast.Sub(), value))
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield f"({ast.unparse(operand)})"
        case ast.BoolOp(op=ast.And(), values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.Or(), values))})"
        case ast.BoolOp(op=ast.Or(), values=values):
            yield f"({ast.unparse(ast.BoolOp(ast.And(), values))})"
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield str(number + 1)
        case ast.ListComp(elt=element, generators=[ast.comprehension() as one]):
            shorter = ast.parse(f"[*({ast.unparse(one.iter)})][1:]", mode="eval").body
            skipped = ast.comprehension(one.target, shorter, one.ifs, one.is_async)
            yield ast.unparse(ast.ListComp(element, [skipped]))
        case ast.Expr(value=ast.Call()):
            yield "pass"
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
    """So many different mistakes, spread evenly over the rooms."""
    rng = random.Random(seed)
    by_room = {room: list(_all_in(room)) for room in rooms}
    chosen: dict[Mistake, None] = {}
    while len(chosen) < count:
        mistake = rng.choice(by_room[rooms[len(chosen) % len(rooms)]])
        if _means_another(mistake):
            chosen[mistake] = None
    return list(chosen)


def _all_in(room: str) -> Iterator[Mistake]:
    for path in sorted((ROOT / SOURCE / room).rglob("*.py")):
        name = path.relative_to(ROOT / SOURCE).as_posix()
        if _room_of(name) == room and not any(word in name for word in _NO_ROWS):
            yield from mistakes_in(path.relative_to(ROOT), path.read_text(encoding="utf-8"))


def _room_of(name: str) -> str | None:
    rooms = [room for room in ROOMS if name.startswith(f"{room}/")]
    found = max(rooms, key=len, default=None)
    return None if found == "kernels" and name.startswith(_COMPILED) else found


def _means_another(mistake: Mistake) -> bool:
    """Whether it makes another program of the file, in more than a figure of its status."""
    text = (ROOT / mistake.path).read_text(encoding="utf-8")
    if any(word in text[mistake.start : mistake.end] for word in _FIGURES):
        return False
    try:
        return ast.dump(ast.parse(text)) != ast.dump(ast.parse(mistake.planted(text)))
    except SyntaxError:
        return False


@dataclass(frozen=True)
class Round:
    """Tests that run together, and the seconds after which they do not end."""

    tests: Sequence[str]
    seconds: float


@dataclass
class Map:
    """Which tests reach the place of each mistake, and how many seconds a passing test takes."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[str, list[str]] = field(default_factory=dict)

    def rounds(self, mistake: Mistake, most: float) -> Iterator[Round]:
        """The tests to run: a few quick ones, then more; general ones if none comes by."""
        room = f"tests/{mistake.path.relative_to(SOURCE).parts[0]}/"
        reaching = {t for t in self.tests.get(mistake.key, ()) if t in self.seconds}
        found = self._of_many_files(reaching)
        near = [test for test in found if test.startswith(room)]
        if not found:
            found = self._of_many_files(t for t in self.seconds if t.startswith((*GENERAL, room)))
        quick = list(dict.fromkeys([*near[:15], *found[:15]]))
        spent = accumulate(self.seconds[test] for test in found)
        rest = [test for test, until in zip(found, spent, strict=True) if until < most]
        for tests in (quick, [test for test in rest if test not in quick]):
            if tests:
                yield Round(tests, 120 + 8 * sum(self.seconds[test] for test in tests))

    def _of_many_files(self, tests: Iterable[str]) -> list[str]:
        """The quickest of each file, then the second of each: tests of one file are alike."""
        by_file = defaultdict(list)
        for test in sorted(tests, key=self.seconds.__getitem__):
            by_file[test.partition("::")[0]].append(test)
        by_turn = zip_longest(*by_file.values())
        return [test for turn in by_turn for test in turn if test is not None]

    @staticmethod
    def read(path: Path) -> Map:
        """A map that was kept."""
        return Map(**json.loads(path.read_text(encoding="utf-8")))

    def keep(self, path: Path) -> None:
        """Write the map to a file."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def made_map(copy: Path, mistakes: Sequence[Mistake]) -> Map:
    """Run the tests once and note which of them reach which place."""
    shutil.copy(ROOT / "tools" / f"{HITS}.py", copy / "src" / f"{HITS}.py")
    paths = {mistake.path for mistake in mistakes}
    for path in paths:
        here = {n: m for n, m in enumerate(mistakes) if m.path == path}
        text = (ROOT / path).read_text(encoding="utf-8")
        _write(copy / path, _noting(text, here))
    notes = copy / "hits.txt"
    notes.touch()
    run_tests(copy, ["-p", HITS, *ASKED], 7200, MUTATE_HITS=str(notes))
    for path in paths:
        _write(copy / path, (ROOT / path).read_text(encoding="utf-8"))
    return _read_notes(notes.read_text(encoding="utf-8"), mistakes)


def _noting(text: str, mistakes: dict[int, Mistake]) -> str:
    """The source with a call of `hit` in each place."""
    starts = _line_starts(text)
    calls: dict[tuple[int, int], list[ast.expr]] = defaultdict(list)
    for number, m in mistakes.items():
        calls[m.start, m.end].append(ast.parse(f"mutate_hit({number})", mode="eval").body)

    class Noting(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if not isinstance(node, ast.expr | ast.stmt):
                return self.generic_visit(node)
            here = calls.pop(_span(node, text, starts), [])  # a statement before its expression
            self.generic_visit(node)
            if here and isinstance(node, ast.stmt):
                return ast.If(ast.BoolOp(ast.Or(), [*here, ast.Constant(True)]), [node], [])
            return ast.BoolOp(ast.Or(), [*here, node]) if here else node  # type: ignore[list-item]

    tree = ast.parse(text)
    Noting().generic_visit(tree)
    before = sum(isinstance(s, ast.Expr) or _is_future(s) for s in tree.body[:2])
    tree.body.insert(before, ast.Import([ast.alias(HITS)]))
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _read_notes(notes: str, mistakes: Sequence[Mistake]) -> Map:
    """What the plugin wrote; a test that fails without a mistake cannot notice one."""
    lines = [line.split("\t") for line in notes.splitlines()]
    failed = {test for kind, _, test in lines if kind == "failed"}
    found = Map({t: float(s) for kind, s, t in lines if kind == "passed" and t not in failed})
    for kind, number, test in lines:
        if kind == "hit":
            found.tests.setdefault(mistakes[int(number)].key, []).append(test)
    return found


def noticed_by(copy: Path, mistake: Mistake, rounds: Iterable[Round]) -> str | None:
    """The first test that fails with the mistake planted, None if all pass."""
    text = (ROOT / mistake.path).read_text(encoding="utf-8")
    _write(copy / mistake.path, mistake.planted(text))
    try:
        return next(filter(None, (_first_failure(copy, each) for each in rounds)), None)
    finally:
        _write(copy / mistake.path, text)


def _write(path: Path, text: str) -> None:
    """Change a module; what Python compiled before goes, as it tells by whole seconds only."""
    path.write_text(text, encoding="utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def _first_failure(copy: Path, given: Round) -> str | None:
    listed = copy / "tests.txt"
    listed.write_text("\n".join(given.tests), encoding="utf-8")
    code, out = run_tests(copy, ["-x", f"@{listed}"], given.seconds)
    if code is None:
        return "a test that does not end"
    if code in (0, 5):  # all passed, none found
        return None
    lines = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0][:150] if lines else f"the tests could not start: {out[-300:]}"


def run_tests(
    copy: Path, options: Sequence[str], seconds: float, **settings: str
) -> tuple[int | None, str]:
    """Exit code and output of pytest in the copy; no code if it takes longer."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "-m", "not slow and not spark", "-k", "not compiled or uncompiled", *options,
    ]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(copy / "src"), "VIEWMILL_COMPILER": "off",
        "HYPOTHESIS_PROFILE": "ci", **settings,
    }  # fmt: skip
    running = subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True, preexec_fn=_limit_memory,
    )  # fmt: skip
    try:
        out, _ = running.communicate(timeout=seconds)
        return running.returncode, out
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 if at least 95 of 100 mistakes were noticed."""
    given = _options().parse_args(arguments)
    mistakes = [m for seed in given.seed for m in drawn(given.count, seed, given.rooms)]
    chosen = {n: m for n, m in enumerate(mistakes, 1) if not given.only or n in given.only}
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(given.jobs):
            copies.put(_copied(Path(folder) / str(job)))
        rounds = _how_to_test(given, copies, list(chosen.values()))

        def judged(number: int) -> str | None:
            copy = copies.get()
            by = noticed_by(copy, chosen[number], rounds(chosen[number]))
            copies.put(copy)
            print(f"{number} {'noticed by ' + by if by else 'NOT NOTICED'}", flush=True)
            print(f"  {chosen[number].describe()}", flush=True)
            return by

        with ThreadPoolExecutor(given.jobs) as pool:
            unnoticed = [
                m for m, by in zip(chosen.values(), pool.map(judged, chosen), strict=True) if not by
            ]
    share = 1 - len(unnoticed) / len(chosen)
    print(f"\n{len(chosen) - len(unnoticed)} of {len(chosen)} noticed ({share:.0%})")
    for mistake in unnoticed:
        print(f"  {mistake.describe()}")
    return 0 if share >= 0.95 else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mutate", description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, nargs="*", default=[1], help="so many for each seed")
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600, help="of tests for each mistake")
    parser.add_argument("--only", type=int, nargs="*", help="the mistakes with these numbers only")
    parser.add_argument("--tests", nargs="*", help="these tests only, without a map")
    parser.add_argument("--map", type=Path, help="a file to keep the map in, or to take it from")
    return parser


def _how_to_test(
    given: argparse.Namespace, copies: SimpleQueue[Path], mistakes: Sequence[Mistake]
) -> Callable[[Mistake], Iterable[Round]]:
    if given.tests:
        return lambda mistake: [Round(given.tests, 1200)]
    if given.map and given.map.exists():
        kept = Map.read(given.map)
        return lambda mistake: kept.rounds(mistake, given.seconds)
    copy = copies.get()
    found = made_map(copy, mistakes)
    copies.put(copy)
    if given.map:
        found.keep(given.map)
    print(f"{len(found.seconds)} tests of {sum(found.seconds.values()):.0f} s", flush=True)
    return lambda mistake: found.rounds(mistake, given.seconds)


def _copied(target: Path) -> Path:
    shutil.copytree(
        ROOT, target, ignore=shutil.ignore_patterns(".git", ".venv", "*cache*", "*.mill")
    )
    return target


if __name__ == "__main__":
    raise SystemExit(main())
