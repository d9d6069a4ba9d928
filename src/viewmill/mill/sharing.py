"""Share equal blocks between views.

takes  a planned view that is not built yet
does   replaces its blocks by existing ones with the same query and strategy; only immediate views
       share blocks

A shared block lives as long as one of its views. A view that must diverge (another refresh policy,
a full refresh) gets blocks of its own first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b

from viewmill.algebra.relations import Project, Relation, Scan
from viewmill.algebra.walk import transform
from viewmill.mill.catalog import ViewEntry
from viewmill.mill.core import Core
from viewmill.mill.fill import build, fill_blocks, is_replayed, negative_rows, unbuilt_blocks
from viewmill.planner.plan import Plan
from viewmill.program.program import Triggers
from viewmill.runtime.runtime import Block, join


def share_blocks(core: Core, entry: ViewEntry) -> None:
    """Let a view that is not built yet use equal blocks of other views.

    Blocks of the view that it replaces are not used: if building it fails, that view stays.
    """
    if not _may_share(core, entry):
        return
    signatures = _signatures(entry.plan)
    there = _blocks_there(core, entry.adapts)
    known = {what: block for what, block in there if block.views - {entry.name}}
    taken = {block.name for _, block in _blocks_there(core)}
    renamed: dict[str, str] = {}
    for planned, block in zip(entry.plan.blocks, entry.blocks, strict=True):
        is_last = planned is entry.plan.blocks[-1]
        found = known.get(signatures[planned.name])
        if found is None or (is_last and not found.shows):
            found = replace(block, name=_free_name(block.name, taken), renamed=dict(renamed))
            known[signatures[planned.name]] = found
        if found.name != planned.name:
            renamed[planned.name] = found.name
        entry.placed[planned.name] = found
    entry.blocks = list({id(each): each for each in entry.placed.values()}.values())


def own_blocks(entry: ViewEntry) -> list[Block]:
    """The blocks that no other view uses."""
    return [block for block in entry.blocks if block.views <= {entry.name}]


def shared_with(entry: ViewEntry) -> dict[str, list[str]]:
    """For each shared block of the plan, the other views that use it."""
    found = {
        name: sorted(block.views - {entry.name})
        for name, block in entry.placed.items()
        if block.views - {entry.name}
    }
    return {**found, **_windows_shared(entry)}


def _windows_shared(entry: ViewEntry) -> dict[str, list[str]]:
    """For each window of a view, the other views that read its tree."""
    found = {}
    for block in entry.blocks:
        family = block.maintainer.family
        others = [] if family is None else family.sharing(block.maintainer)
        if others:
            found[block.name] = others
    return found


def unshare(core: Core, entry: ViewEntry) -> None:
    """Give a view blocks of its own, filled from the tables as they are."""
    if any(block.views - {entry.name} for block in entry.placed.values()):
        build_again(core, entry)


def build_again(core: Core, entry: ViewEntry) -> None:
    """Rebuild the blocks of a view's plan and fill them from the tables as they are."""
    taken = {block.name for _, block in _blocks_there(core)}
    renamed: dict[str, str] = {}
    blocks = []
    for block in unbuilt_blocks(entry.plan):
        name = _free_name(block.name, taken)
        blocks.append(replace(block, name=name, renamed=dict(renamed)))
        if name != block.name:
            renamed[block.name] = name
    for block in blocks:
        block.maintainer = build(core, block.program, entry)
    fill_blocks(core, entry, blocks)
    core.runtime.remove(entry.name)
    entry.blocks = blocks
    entry.placed = {p.name: b for p, b in zip(entry.plan.blocks, blocks, strict=True)}
    join(blocks, entry.name)
    for block in blocks:
        core.runtime.add(block)
    core.runtime.arrange([each.name for each in core.catalog.in_order()])


def _may_share(core: Core, entry: ViewEntry) -> bool:
    """Whether a view may share blocks: it is immediate, has no budget, and all its blocks are
    triggers over sources without negative rows."""
    programs = [block.program for block in entry.blocks]
    return (
        entry.is_immediate
        and entry.budgeted is None
        and all(isinstance(each.body, Triggers) and not is_replayed(each) for each in programs)
        and not any(
            negative_rows(core, each).size for program in programs for each in program.inputs
        )
    )


def _blocks_there(core: Core, adapts: bool | None = None) -> Iterator[tuple[str, Block]]:
    """The existing blocks, each with its signature, or "" if it may not be shared."""
    for entry in core.catalog.views():
        if entry.budgeted is not None:
            yield from (("", block) for block in entry.blocks)
            continue
        yield from (("", block) for block in entry.blocks)
        if entry.is_immediate and entry.adapts == adapts:
            signatures = _signatures(entry.plan)
            yield from ((signatures[name], block) for name, block in entry.placed.items())


def _signatures(plan: Plan) -> dict[str, str]:
    """A hash of each block's query and strategy, independent of the names of inner blocks."""
    found: dict[str, str] = {}
    for block in plan.blocks:
        query: object = _over_signatures(block.query, found)
        if isinstance(query, Project) and block is not plan.blocks[-1]:
            query = query.input, [expression for _, expression in query.outputs]
        text = repr((block.chosen.strategy, query, block.chosen.notes))
        found[block.name] = blake2b(text.encode(), digest_size=8).hexdigest()
    return found


def _over_signatures(query: Relation, signatures: Mapping[str, str]) -> Relation:
    def change(each: Relation) -> Relation:
        if isinstance(each, Scan) and each.source in signatures:
            return replace(each, source=signatures[each.source])
        return each

    return transform(query, change)


def _free_name(wanted: str, taken: set[str]) -> str:
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted}~{count}", count + 1
    taken.add(name)
    return name
