"""Which states a program must have for a change of its inputs: read from the triggers themselves.

takes  `Program`
gives  `Uses`: for each input the units (a state, or all of them) that its trigger reads
next   planner (which states pay), mill (which states a refresh cannot do without)

A trigger that only adds to a state does not need what is in it: such a state can be away. Anything
that is not known to be an addition counts as reading.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from viewmill.algebra.walk import scans
from viewmill.program.program import Program, Triggers
from viewmill.program.states import Passing, Replay, State
from viewmill.program.trigger_functions import ADDS

ALL = "*"  # all states of a program that come and go together


@dataclass(frozen=True)
class Uses:
    """What reads which states. `shown` are those that `contents` reads.

    `sources` are the inputs that each state is computed from.
    """

    by_input: dict[str, frozenset[str]] = field(default_factory=dict)
    flushed: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    sources: dict[str, frozenset[str]] = field(default_factory=dict)

    def needed(self, inputs: Iterable[str]) -> frozenset[str]:
        """The states that must be there when these inputs change."""
        found = [self.by_input.get(each, frozenset[str]()) for each in inputs]
        return self.flushed.union(*found) if found else frozenset()


def kept_states(program: Program) -> tuple[State, ...]:
    """The states that hold something between commits."""
    return tuple(each for each in program.states if not isinstance(each.kind, Passing))


def is_one_unit(program: Program) -> bool:
    """Whether states complete one another after a load, so that they come and go together."""
    body = program.body
    if not isinstance(body, Triggers):
        return True
    together = (each.derived or isinstance(each.definition, Replay) for each in program.states)
    return body.rebuild or any(together)


def units_of(program: Program) -> dict[str, tuple[State, ...]]:
    """What can be kept or released by itself: single states, or all of them."""
    if is_one_unit(program):
        return {ALL: kept_states(program)}
    return {each.name: (each,) for each in kept_states(program)}


def inputs_of(program: Program, state: State) -> frozenset[str]:
    """The inputs that a state is computed from."""
    if isinstance(state.definition, Replay):
        return frozenset(each.name for each in program.inputs)
    aliases = {(scan.source, scan.alias) for scan in scans(state.definition)}
    found = {each.name for each in program.inputs if (each.source, each.name) in aliases}
    if len(found) < len(aliases):  # an input under another name: by its source
        named = {source for source, _ in aliases}
        found = {each.name for each in program.inputs if each.source in named}
    return frozenset(found)


# By identity: to hash a program means to walk through all of its queries.
_KNOWN: dict[int, tuple[Program, Uses]] = {}
_MOST_KNOWN = 1000


def uses_of(program: Program) -> Uses:
    """Which units each trigger reads."""
    known = _KNOWN.get(id(program))
    if known is None or known[0] is not program:
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[id(program)] = program, _read_uses(program)
    return known[1]


def _read_uses(program: Program) -> Uses:
    sources = {each.name: inputs_of(program, each) for each in program.states}
    if is_one_unit(program):
        return Uses({}, frozenset([ALL]), frozenset([ALL]), sources)
    assert isinstance(program.body, Triggers)
    states = frozenset(each.name for each in program.states)
    functions = {
        each.name: each
        for each in ast.parse(program.body.source).body
        if isinstance(each, ast.FunctionDef)
    }
    reader = _Reader(functions)
    kept = frozenset(each.name for each in kept_states(program))
    by_input = {
        each.input: reader.reads(each.function, states) & kept for each in program.body.triggers
    }
    flushed = reader.reads("flush", states) & kept
    return Uses(by_input, flushed, reader.reads("contents", states) & kept, sources)


class _Reader:
    def __init__(self, functions: dict[str, ast.FunctionDef]) -> None:
        self._functions = functions

    def reads(self, name: str, states: frozenset[str]) -> frozenset[str]:
        """The arguments of a function, among `states`, whose contents it reads."""
        found: set[str] = set()
        for node in ast.walk(self._functions[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found |= self._reads_of_call(node, node.func.id, states)
        return frozenset(found)

    def _reads_of_call(self, call: ast.Call, called: str, states: frozenset[str]) -> set[str]:
        given = [arg.id if isinstance(arg, ast.Name) else None for arg in call.args]
        if called in ADDS:
            return set()
        if called not in self._functions:
            return {each for each in given if each in states}
        names = [each.arg for each in self._functions[called].args.args]
        passed = {
            inner: outer for inner, outer in zip(names, given, strict=False) if outer in states
        }
        inside = self.reads(called, frozenset(passed))
        return {outer for inner, outer in passed.items() if inner in inside and outer is not None}
