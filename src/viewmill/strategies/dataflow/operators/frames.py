"""Frames of OVER windows as positions: where they begin and end, which rows a change touches."""

from __future__ import annotations

from dataclasses import dataclass

from viewmill.algebra.expressions import Frame, Over
from viewmill.codegen.shape import NotTaken
from viewmill.codegen.source import Source
from viewmill.strategies.dataflow.operators.sequence import RowOrder

_WIDE = 16  # rows of a frame

# A number moved by a distance, without leaving 64 bits.
SHIFTED = """
def shifted(w, d):
    if d > 0 and w > 9223372036854775807 - d:
        return 9223372036854775807
    if d < 0 and w < -9223372036854775808 - d:
        return -9223372036854775808
    return w + d
"""


@dataclass(frozen=True)
class Bounds:
    """The frame of a call in a sequence of rows; `partition` and `peers` count columns."""

    order: RowOrder
    state: str
    frame: Frame
    partition: int
    peers: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.frame.start is None and self.frame.end is None

    @property
    def is_running(self) -> bool:
        """Whether it begins where the partition does and goes on from row to row."""
        return self.frame.start is None and self.frame.end is not None

    @property
    def is_sliding(self) -> bool:
        """Whether it leaves rows behind, and is so wide that they are not looked at again."""
        start, end = self.frame.start, self.frame.end
        if start is None:
            return False
        return self.frame.unit != "rows" or end is None or end - start >= _WIDE

    def write_start(self, source: Source, name: str, position: str) -> None:
        """Write where the frame of the row at a position begins."""
        if self.frame.start is None:
            source.line(f"{name} = begin")
        elif self.frame.unit == "rows":
            source.line(f"{name} = {self._step(position, self.frame.start)}")
        else:
            self._range(source, name, "sorted_from", self.state, position, self.frame.start)

    def write_end(self, source: Source, name: str, position: str) -> None:
        """Write where it ends."""
        if self.frame.end is None:
            source.line(f"{name} = end")
        elif self.frame.unit == "rows":
            source.line(f"{name} = {self._step(position, self.frame.end + 1)}")
        else:
            self._range(source, name, "sorted_after", self.state, position, self.frame.end)

    def write_reach(self, source: Source, touched: str) -> None:
        """Write how far a row that came or went, which is or was at p, is felt: low and stop."""
        frame = self.frame
        if frame.end is None:
            source.line("low = begin")
        elif frame.unit == "rows":
            source.line(f"low = min(low, {self._step('p', -max(frame.end, 0) - 1)})")
        else:
            near = source.name("near")
            self._range(source, near, "sorted_from", touched, "t", -frame.end)
            source.line(f"low = min(low, {near})")
        if self.is_whole:
            source.line("stop = end")
        elif frame.unit == "rows":
            far = max(abs(frame.start or 0), abs(frame.end or 0)) + 2
            source.line(f"stop = max(stop, {self._step('p', far)})")
        else:
            near = source.name("near")
            start = frame.start if frame.start is not None else min(frame.end or 0, 0)
            self._range(source, near, "sorted_after", touched, "t", -start)
            source.line(f"stop = max(stop, {near})")

    def _step(self, position: str, k: int) -> str:
        return position if k == 0 else f"sorted_step({self.state}, {position}, {k}, begin, end)"

    def _range(
        self, source: Source, name: str, search: str, state: str, position: str, distance: int
    ) -> None:
        """Write the first position at a distance in the order, seen from a row of `state`."""
        peers = self.order.key_at(state, position, self.order.words(self.peers))
        among = f"{name} = {search}({self.state}, {peers})"
        if distance == 0:
            source.line(among)
            return
        column = self.order.columns[self.peers - 1]
        last = self.order.words(self.peers) - 1
        before = self.order.key_at(state, position, last)[1:-1]
        moved = f"({before} shifted(sorted_key({state}, {position}, {last}), {distance}),)"
        away = f"{name} = {search}({self.state}, {moved})"
        if not column.field.nullable:
            source.line(away)
            return
        null = 0 if column.nulls_first else 1
        with source.block(f"if sorted_key({state}, {position}, {last - 1}) == {null}:"):
            source.line(among)  # NULL is near to NULL alone
        with source.block("else:"):
            source.line(away)


def frame_of(call: Over) -> Frame:
    """The frame of a call, SQL's own where none is given."""
    if call.frame is not None:
        return call.frame
    return Frame("range", None, 0 if call.order else None)


def frame_among_equals(frame: Frame, call: Over) -> Frame:
    """The frame where the order is that of a partition's own columns: all of its rows are equal."""
    if frame.unit == "rows":
        return frame
    if (frame.start or 0) > 0 or (frame.end or 0) < 0:
        raise NotTaken("a RANGE frame without its own row, in a partition of equal rows", call.span)
    return Frame("range", None, None)
