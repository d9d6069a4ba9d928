"""Write the program of a plan: states with definitions, one trigger for each table that changes.

takes  `TreePlan`
gives  `Program` whose source reads like the tree
next   kernels.build
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from viewmill.algebra.display import display
from viewmill.algebra.relations import Relation
from viewmill.algebra.walk import walk_relations
from viewmill.program.display import state_label
from viewmill.program.program import Program, Trigger, Triggers
from viewmill.program.states import Indexed, Replay, State
from viewmill.strategies.dataflow.source import Source
from viewmill.strategies.inputs import input_of
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
    if layout.is_of_numbers:
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
        return (*changing, *fed)

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
    for each in block.occurrences:
        source.know(each.scan, input_of(each.scan))
    for name in (*RESERVED, *names):
        source.name(name)
    triggers = write(writer, names)
    enumeration = None
    if plan is None or plan.result is None:
        result.write_flush(source)
        result.write_contents(source)
    else:
        enumeration = write_enumeration(source, plan, names)
    rebuild = block.is_global and not writer.layout.is_of_numbers
    if rebuild:
        result.write_rebuild(source)
    for prefix in writer.layout.user_rings:
        write_times(source, prefix)
    lines = _header(block.query, head, states)
    return Program(
        strategy=strategy,
        query=block.query,
        inputs=tuple(input_of(each.scan) for each in block.occurrences),
        output=block.query.schema,
        states=tuple(states),
        body=Triggers(
            source="\n".join(f"# {line}".rstrip() for line in lines) + "\n\n" + str(source),
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


def _header(query: Relation, head: list[str], states: list[State]) -> list[str]:
    lines = [*_sql_of(query).splitlines(), "", *display(query).splitlines(), "", *head]
    return [*lines, *(f"state   {state_label(state)}" for state in states)]


def _sql_of(query: Relation) -> str:
    """The text that the query was read from."""
    spans = (getattr(each, "span", None) for each in walk_relations(query))
    return next((span.sql for span in spans if span is not None), "")
