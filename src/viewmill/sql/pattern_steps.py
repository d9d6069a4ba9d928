"""A row pattern as a program of steps.

takes  a tree of PatternNode, the numbers of its variables
gives  steps (program.row_patterns), in which SPLIT goes first where SQL prefers to go
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from viewmill.errors import UnsupportedQuery
from viewmill.program.row_patterns import CHAR, END, HIDE, JUMP, MATCH, SHOW, SPLIT, START
from viewmill.sql.parse_match import PatternNode
from viewmill.sql.spans import span_of

Step = tuple[int, int, int]
_MOST_STEPS = 20_000


def variables_of(pattern: PatternNode) -> list[str]:
    """The variables in the order in which they first stand in the pattern."""
    found: dict[str, str] = {}
    for node in pattern.find_all(PatternNode, bfs=False):
        if node.args["this"] == "variable":
            name = node.args["variable"].name
            found.setdefault(name.lower(), name)
    return list(found.values())


class PatternSteps:
    """Writes the steps of a pattern."""

    def __init__(self, numbers: Mapping[str, int], sql: str) -> None:
        self._numbers, self._sql = numbers, sql
        self.steps: list[Step] = []
        self.loops = False  # whether a loop can go round without a row

    def write(self, pattern: PatternNode) -> tuple[Step, ...]:
        """The steps of the whole pattern."""
        self._write(pattern)
        self._add(pattern, MATCH)
        return tuple(self.steps)

    def _add(self, node: PatternNode, operation: int, a: int = 0, b: int = 0) -> int:
        if len(self.steps) >= _MOST_STEPS:
            raise UnsupportedQuery(
                f"a pattern has at most {_MOST_STEPS:,} steps",
                detail="PERMUTE stands for all orders, and {n,m} for as many copies.",
                hint="Count in DEFINE instead: COUNT(b.*) <= 1000.",
                span=span_of(node, self._sql),
            )
        self.steps.append((operation, a, b))
        return len(self.steps) - 1

    def _split(self, at: int, inside: int, outside: int, node: PatternNode) -> None:
        first, second = (outside, inside) if node.args["reluctant"] else (inside, outside)
        self.steps[at] = (SPLIT, first, second)

    def _write(self, node: PatternNode) -> None:
        match node.args["this"]:
            case "variable":
                self._add(node, CHAR, self._numbers[node.args["variable"].name.lower()])
            case "sequence":
                for each in node.expressions:
                    self._write(each)
            case "choice":
                self._write_choice(node, [[each] for each in node.expressions])
            case "permute":
                self._write_choice(node, [list(each) for each in permutations(node.expressions)])
            case "exclude":
                self._add(node, HIDE)
                for each in node.expressions:
                    self._write(each)
                self._add(node, SHOW)
            case "start":
                self._add(node, START)
            case "end":
                self._add(node, END)
            case _:
                self._write_repeat(node)

    def _write_choice(self, node: PatternNode, alternatives: list[list[PatternNode]]) -> None:
        jumps = []
        for i, parts in enumerate(alternatives):
            is_last = i == len(alternatives) - 1
            split = -1 if is_last else self._add(node, SPLIT)
            for part in parts:
                self._write(part)
            if not is_last:
                jumps.append(self._add(node, JUMP))
                self.steps[split] = (SPLIT, split + 1, len(self.steps))
        for jump in jumps:
            self.steps[jump] = (JUMP, len(self.steps), 0)

    def _write_repeat(self, node: PatternNode) -> None:
        low, high = node.args["low"], node.args.get("high")
        (inner,) = node.expressions
        for _ in range(low):
            self._write(inner)
        if high is None:
            split = self._add(node, SPLIT)
            self._write(inner)
            self._add(node, JUMP, split)
            self._split(split, split + 1, len(self.steps), node)
            self.loops = self.loops or _may_be_empty(inner)
            return
        splits = []
        for _ in range(high - low):
            splits.append(self._add(node, SPLIT))
            self._write(inner)
        for split in splits:
            self._split(split, split + 1, len(self.steps), node)


def _may_be_empty(node: PatternNode) -> bool:
    """Whether a pattern matches no row at all."""
    match node.args["this"]:
        case "variable":
            return False
        case "start" | "end":
            return True
        case "choice":
            return any(map(_may_be_empty, node.expressions))
        case "repeat":
            return node.args["low"] == 0 or _may_be_empty(node.expressions[0])
        case _:
            return all(map(_may_be_empty, node.expressions))
