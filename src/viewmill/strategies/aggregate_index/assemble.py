"""The program of any plan of this strategy, once its functions are written.

takes  inputs, triggers, states, and the source with `settle`
gives  `Program`: show, flush and contents are written, and a replay for each trigger
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viewmill.algebra.relations import Relation
from viewmill.codegen.source import Source
from viewmill.program.program import Input, Program, Trigger, Triggers
from viewmill.program.states import State
from viewmill.strategies.aggregate_index.shown import Shown

RESERVED = (
    "start", "size", "multiplicity", "texts", "errors", "m", "i", "e", "t", "p", "q", "out", "bits",
    "result", "settle", "is_unknown", "is_moved", "r", "u", "judge", "rebuild", "qualifies",
)  # fmt: skip


def new_source(more: Sequence[str] = ()) -> Source:
    """A source in which the names that functions use are taken."""
    source = Source()
    for word in (*RESERVED, *more):
        source.name(word)
    return source


def assemble(
    relation: Relation,
    strategy: str,
    shown: Shown,
    inputs: Sequence[Input],
    triggers: tuple[Trigger, ...],
    columns: Mapping[str, Sequence[str]],
    states: Sequence[State],
    *,
    rebuild: bool,
) -> Program:
    """The program; `columns` are the arguments of each input's trigger."""
    source = shown.source
    shown.write()
    replays = tuple(
        shown.replay(each, columns[each.input]) for each in triggers if shown.can_replay
    )
    return Program(
        strategy=strategy,
        query=relation,
        inputs=tuple(inputs),
        output=relation.schema,
        states=(*states, State("result", shown.result, relation, derived=True)),
        body=Triggers(
            source=source.under(relation),
            triggers=triggers,
            texts=tuple(source.texts),
            messages=tuple(source.messages),
            lookups=tuple(source.lookups),
            replays=replays,
            rebuild=rebuild,
        ),
    )
