"""Blocks in this process, one after another in dependency order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewmill.deltas.delta import Delta
from viewmill.deltas.product import Changed, parts_of
from viewmill.program.parts import Moving
from viewmill.runtime.runtime import Block


class InProcessRuntime:
    """Applies deltas to maintainers. Blocks are kept in the order in which they were added."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._moving: set[str] = set()  # the blocks that may move on without a changed row
        self._touched: list[Block] = []
        self._outputs: dict[str, Delta] = {}

    def add(self, block: Block) -> None:
        """A block whose sources are tables or blocks added before."""
        self._blocks[block.name] = block
        self._moving.discard(block.name)
        if isinstance(block.maintainer, Moving):
            self._moving.add(block.name)

    def remove(self, view: str) -> None:
        """Forget the blocks that work for no other view than this one."""
        for block in self._blocks.values():
            block.views.discard(view)
        self._blocks = {name: block for name, block in self._blocks.items() if block.views}

    def arrange(self, views: Iterable[str]) -> None:
        """Put the blocks in this order of their views; those of one view keep theirs."""
        place = {view: i for i, view in enumerate(views)}
        blocks = self._blocks.values()
        first = sorted(blocks, key=lambda block: min(place[view] for view in block.views))
        self._blocks = {block.name: block for block in first}

    def pending(self, name: str) -> Delta | None:
        """The output change of a block that was refreshed but not committed."""
        return self._outputs.get(name)

    def refresh(self, deltas: Mapping[str, Changed], among: set[str]) -> dict[str, Delta]:
        """Apply changes to the blocks of `among`; each block's output change feeds the next."""
        changed: dict[str, Changed] = dict(deltas)
        outputs: dict[str, Delta] = {}
        inner: list[str] = []
        for block in self._blocks.values():
            if block.views.isdisjoint(among):
                continue
            arrived = [each for each in block.program.inputs if each.source in changed]
            if not arrived:
                continue
            self._touched.append(block)
            for input_ in arrived:
                for part in parts_of(changed[input_.source]):
                    block.maintainer.apply(input_.name, part)
            output = block.maintainer.flush()
            if block.name in block.views:
                outputs[block.name] = self._outputs[block.name] = output
            else:
                inner += block.views & among
            if output.size or (block.name in self._moving and _has_moved(block)):
                changed[block.name] = output
        for view in inner:  # it was brought up to date, even if nothing came of it
            if view not in outputs:
                outputs[view] = Delta.empty(self._blocks[view].program.output)
        return outputs

    def commit(self) -> None:
        """Keep what was applied."""
        for block in self._touched:
            block.maintainer.commit()
        self._touched.clear()
        self._outputs.clear()

    def rollback(self) -> None:
        """Forget what was applied."""
        for block in self._touched:
            block.maintainer.rollback()
        self._touched.clear()
        self._outputs.clear()


def _has_moved(block: Block) -> bool:
    """Whether a temporal view has a new part, even one that shows nothing."""
    return isinstance(block.maintainer, Moving) and block.maintainer.has_moved()
