"""Print a program: its inputs, its states with their definitions, its triggers."""

from __future__ import annotations

from viewmill.algebra.display import display, tree
from viewmill.program.parts import PartQueries
from viewmill.program.program import Program, Queries, Triggers
from viewmill.program.states import State


def display_program(program: Program) -> str:
    """The program as a tree, its source below."""
    inputs = [f"{each.name} reads {each.source}" for each in program.inputs]
    children = [tree("inputs", inputs), tree("states", [display_state(s) for s in program.states])]
    children.append(f"output: {program.output}")
    head = tree(f"program {program.fingerprint}   {program.strategy}", children)
    match program.body:
        case Triggers(source=source):
            return f"{head}\n\n{source}"
        case Queries(query=query):
            return f"{head}\n\n{display(query)}"
        case PartQueries(initialize=first, update=following, length=length):
            return (
                f"{head}\n\ninitialize\n{display(first.query)}\n\n"
                f"update, every {length} s\n{display(following.query)}"
            )


def display_state(state: State) -> str:
    """A state and its definition."""
    return tree(state_label(state), [display(state.definition)])


def state_label(state: State) -> str:
    """What a state maps to what."""
    key = ", ".join(field.name for field in state.kind.key)
    payload = ", ".join(slot.name for slot in state.kind.payload)
    return f"{state.name}[{key}] → {payload}"
