"""A window on a stream: which of its rows a query sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from viewmill.algebra.units import interval_sql


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

    def last_end(self, reached: int) -> int:
        """Where the last window ends, if time (or the number of rows) has come this far.

        >>> SlidingWindow("rows", 100, 10).last_end(57)
        50
        """
        return reached // self.slide * self.slide

    def __str__(self) -> str:
        if self.unit == "rows":
            return f"[WINDOW {self.size} ROWS SLIDE {self.slide} ROWS]"
        size, slide = interval_sql(self.size), interval_sql(self.slide)
        words = f"[WINDOW {size} SLIDE {slide}]"
        return words.replace("INTERVAL ", "").replace("'", "")
