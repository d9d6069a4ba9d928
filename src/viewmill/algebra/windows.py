"""A window on a stream: which of its rows a query sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.units import interval_sql

LONGEST = 2**62  # microseconds or rows: so moments and lengths add up within 64 bits


@dataclass(frozen=True)
class SlidingWindow:
    """[WINDOW size SLIDE slide]: every `slide` the rows of the last `size`.

    time   microseconds of `column`; the window ends at the last multiple of `slide` that the
           watermark has reached, and holds [end - size, end)
    rows   rows in the order of `column`, if there is one, and then of arrival; it ends at the last
           multiple of `slide` rows
    """

    unit: OneOf["time", "rows"]
    size: int
    slide: int
    column: str = ""  # of the source
    lateness: int = 0  # the watermark stays this far behind the largest time
    offset: int = 0  # windows end this far after the multiples of `slide`

    def last_end(self, reached: int) -> int:
        """Where the last window ends, if time (or the number of rows) has come this far.

        >>> SlidingWindow("rows", 100, 10).last_end(57)
        50
        """
        return reached - (reached - self.offset) % self.slide

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Where windows end and where they begin: step and offset of each progression.

        >>> SlidingWindow("time", 7, 3).edges, SlidingWindow("time", 6, 3).edges
        (((3, 0), (3, 2)), ((3, 0),))
        """
        end, start = self.offset % self.slide, (self.offset - self.size) % self.slide
        return tuple((self.slide, each) for each in dict.fromkeys((end, start)))

    def __str__(self) -> str:
        if self.unit == "rows":
            return f"[WINDOW {self.size} ROWS SLIDE {self.slide} ROWS]"
        size, slide = interval_sql(self.size), interval_sql(self.slide)
        words = f"[WINDOW {size} SLIDE {slide}]"
        return words.replace("INTERVAL ", "").replace("'", "")
