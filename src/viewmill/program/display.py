"""Print a program: its inputs, its states with their definitions, its triggers."""

from __future__ import annotations

from viewmill.algebra.display import display, tree
from viewmill.program.arrays import Arrays
from viewmill.program.parts import PartQueries
from viewmill.program.patterns import PatternQueries
from viewmill.program.program import (
    ByRow,
    Exploded,
    MomentParts,
    Program,
    Queries,
    Recursive,
    Timed,
    Triggers,
)
from viewmill.program.states import Replay, State
from viewmill.program.window_parts import WindowParts
from viewmill.program.windows import Windowed


def display_program(program: Program) -> str:
    """The program as a tree, its source below."""
    inputs = [f"{each.name} reads {each.source}" for each in program.inputs]
    children = [tree("inputs", inputs), tree("states", [display_state(s) for s in program.states])]
    children.append(f"output: {program.output}")
    head = tree(f"program {program.fingerprint}   {program.strategy}", children)
    match program.body:
        case Triggers(source=source):
            return f"{head}\n\n{source}"
        case Arrays(chain=chain):
            return f"{head}\n\narrays, multiplied as {chain}"
        case Timed():
            return f"{head}\n\nwhile time says so\n{display(program.query)}"
        case Exploded():
            return f"{head}\n\nelement by element\n{display(program.query)}"
        case ByRow():
            return f"{head}\n\ncomputed row by row\n{display(program.query)}"
        case Queries(query=query):
            return f"{head}\n\n{display(query)}"
        case PartQueries(initialize=first, update=following, length=length):
            return (
                f"{head}\n\ninitialize\n{display(first.query)}\n\n"
                f"update, every {length} s\n{display(following.query)}"
            )
        case Recursive(step=step):
            return f"{head}\n\nthe step\n{display_program(step)}"
        case MomentParts():
            return f"{head}\n\nput together by group\n{display(program.query)}"
        case PatternQueries() as body:
            return f"{head}\n\n{display_automaton(body)}"

        case Windowed(window=window, prepare=prepare, finish=finish):
            parts = {"prepare": prepare, "finish": finish}
            shown = [f"\n\n{n}\n{display(p.query)}" for n, p in parts.items() if p is not None]
            return f"{head}\n\n{window}{''.join(shown)}"
        case WindowParts(window=window, prepare=prepare, finish=finish) as body:
            return (
                f"{head}\n\n{window}, {display_helpers(body)}\n\n"
                f"prepare\n{display(prepare.query)}\n\nfinish\n{display(finish.query)}"
            )


def display_helpers(body: WindowParts) -> str:
    """How a window follows from helper parts, as the paper writes it."""
    first, last = f"j-{body.width - 1}" if body.width > 1 else "j", "j"
    if body.helpers == "cumulative":
        return f"helper[j] = helper[j-1] + m[j], view[j] = helper[j] - helper[j-{body.width}]"
    return f"helper[j] = aggregates of m[j], view[j] = helper[{first}..{last}] put together"


def display_state(state: State) -> str:
    """A state and its definition."""
    return tree(state_label(state), [definition_text(state)])


def definition_text(state: State) -> str:
    """The definition of a state as text."""
    if isinstance(state.definition, Replay):
        return "the inputs, fed again"
    return display(state.definition)


def state_label(state: State) -> str:
    """What a state maps to what."""
    key = ", ".join(field.name for field in state.kind.key)
    payload = ", ".join(slot.name for slot in state.kind.payload)
    return f"{state.name}[{key}] → {payload}"


def display_automaton(body: PatternQueries) -> str:
    """The phases with the edges of their steps, and the query that computes the edges."""
    phases = []
    for i, phase in enumerate(body.phases):
        stays = "" if phase.stay is None else f", stays by edge {phase.stay.bit}"
        phases.append(f"phase {i + 1} {phase.variable}: enters by edge {phase.enter.bit}{stays}")
    return "\n".join([tree("automaton", phases), display(body.steps), display(body.show)])
