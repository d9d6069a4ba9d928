"""Write the program of a plan: states with definitions, one trigger for each table that changes.

takes  `TreePlan`
gives  `Program` whose source reads like the tree
next   kernels.build
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from viewmill.codegen.inputs import input_of
from viewmill.codegen.source import Source
from viewmill.program.display import state_label
from viewmill.program.program import Program, Trigger, Triggers
from viewmill.program.states import Indexed, Replay, State
from viewmill.strategies.view_tree.definitions import Definitions
from viewmill.strategies.view_tree.enumeration import write_enumeration
from viewmill.strategies.view_tree.plan import TreePlan
from viewmill.strategies.view_tree.products import batch_keys
from viewmill.strategies.view_tree.result import STATE, Result
from viewmill.strategies.view_tree.rings.user_ring import write_times
from viewmill.strategies.view_tree.trigger import RESERVED, TriggerWriter

Write = Callable[[TriggerWriter, list[str]], tuple[Trigger, ...]]  # given the names of the states


def emit_program(plan: TreePlan, strategy: str) -> Program:
    """The program of a plan."""
    block, layout, places = plan.block, plan.layout, plan.places
    definitions = Definitions(block, layout.numbers)
    result = Result(block, layout)
    if layout.is_stated:
        states = [State(p.state, p.kind, definitions.place(p)) for p in places.all]
        states.append(State(STATE, result.kind, definitions.result(result)))
    else:
        states = [
            State(p.state, p.kind, Replay(), passing=all(v.name not in plan.kept for v in p.views))
            for p in places.all
        ]
        states.append(State(STATE, result.kind, Replay()))

    def write(writer: TriggerWriter, names: list[str]) -> tuple[Trigger, ...]:
        changing = tuple(
            replace(
                writer.write([path], plan.reactions.get(path.leaf, ()), names),
                steps=plan.costs.get(path.leaf, 1.0),
                keys=batch_keys(plan, path),
            )
            for path in plan.paths
        )
        fed = (replace(writer.write([path], (), names), steps=math.inf) for path in plan.fed)
        beside = result.write_beside(writer.source, names)
        return (*changing, *fed, *beside)

    writer = TriggerWriter(Source(), block, layout, places, result)
    head = [f"variable order   {plan.order}"]
    return assemble(writer, states, write, strategy, head, plan)


def assemble(
    writer: TriggerWriter, states: list[State], write: Write, strategy: str, head: list[str],
    plan: TreePlan | None = None,
) -> Program:  # fmt: skip
    """The program of some states and of the triggers that `write` writes."""
    block, result, source = writer.block, writer.result, writer.source
    names = [state.name for state in states]
    result.functions_arguments = ", ".join(names)
    scans = [each.scan for each in block.occurrences]
    scans += [each.scan for each in block.beside]
    for scan in scans:
        source.know(scan, input_of(scan))
    source.reserve(*RESERVED, *names)
    triggers = write(writer, names)
    enumeration = None
    if plan is None or plan.result is None:
        result.write_flush(source)
        result.write_contents(source)
    else:
        enumeration = write_enumeration(source, plan, names)
    rebuild = block.is_global and not writer.layout.is_stated
    if rebuild:
        result.write_rebuild(source)
    for prefix in writer.layout.user_rings:
        write_times(source, prefix)
    said = ["", *head, *(f"state   {state_label(state)}" for state in states)]
    return Program(
        strategy=strategy,
        query=block.query,
        inputs=tuple(map(input_of, scans)),
        output=block.query.schema,
        states=tuple(states),
        body=Triggers(
            source=source.under(block.query, said),
            triggers=triggers,
            texts=tuple(source.texts),
            lookups=tuple(source.lookups),
            messages=tuple(source.messages),
            rebuild=rebuild,
            rings=tuple(
                (prefix, each.made.ring) for prefix, each in writer.layout.user_rings.items()
            ),
            enumeration=enumeration,
            result=STATE if isinstance(result.kind, Indexed) and result.kind.journal else "",
        ),
    )
