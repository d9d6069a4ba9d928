"""Blocks in this process, one after another in dependency order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewmill.deltas.delta import Delta
from viewmill.runtime.runtime import Block


class InProcessRuntime:
    """Applies deltas to maintainers. Blocks are kept in the order in which they were added."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._touched: list[Block] = []
        self._outputs: dict[str, Delta] = {}

    def add(self, block: Block) -> None:
        """A block whose sources are tables or blocks added before."""
        self._blocks[block.name] = block

    def remove(self, name: str) -> None:
        """Forget a block that no other block reads."""
        del self._blocks[name]

    def arrange(self, names: Iterable[str]) -> None:
        """Put the blocks in this order."""
        self._blocks = {name: self._blocks[name] for name in names}

    def pending(self, name: str) -> Delta | None:
        """The output change of a block that was refreshed but not committed."""
        return self._outputs.get(name)

    def refresh(self, deltas: Mapping[str, Delta], among: set[str]) -> dict[str, Delta]:
        """Apply changes to the blocks in `among`; each block's output change feeds the next."""
        changed = dict(deltas)
        outputs: dict[str, Delta] = {}
        for block in self._blocks.values():
            if block.name not in among:
                continue
            arrived = [each for each in block.program.inputs if each.source in changed]
            if not arrived:
                continue
            self._touched.append(block)
            for input_ in arrived:
                block.maintainer.apply(input_.name, changed[input_.source])
            output = block.maintainer.flush()
            outputs[block.name] = self._outputs[block.name] = output
            if output.size:
                changed[block.name] = output
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
