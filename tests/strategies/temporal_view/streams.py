"""Random streams for temporal views: rows in order, gaps, late rows, deletes."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import Any

EPOCH = datetime.datetime(1970, 1, 1)
START = 1_420_106_400  # 2015-01-01 10:00

Row = tuple[Any, ...]


def moment(second: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=second)


def stamped(rows: list[Row]) -> list[Row]:
    """(second, ...) as (timestamp, ...)."""
    return [(moment(row[0]), *row[1:]) for row in rows]


class Stream:
    """Rows (second, group, x), and what a mill was told about them."""

    def __init__(self, seed: int, groups: str = "ab") -> None:
        self.random = random.Random(seed)
        self.groups, self.rows, self.now = groups, list[Row](), START

    def changes(self, count: int) -> Iterator[tuple[str, list[Row]]]:
        """("insert" or "delete", rows), already noted in `rows`."""
        for _ in range(count):
            choice = self.random.random()
            if choice < 0.2 and self.rows:
                row = self.random.choice(self.rows)
                self.rows.remove(row)
                yield "delete", [row]
                continue
            late = choice < 0.45
            if not late:
                self.now += self.random.choice([7, 30, 60, 60, 60, 240])
            new = [self._row(late) for _ in range(self.random.randrange(1, 5))]
            self.rows += new
            yield "insert", new

    def _row(self, late: bool) -> Row:
        back = self.random.randrange(900) if late else -self.random.randrange(50)
        group = self.random.choice(self.groups)
        return (self.now - back, group, self.random.randrange(-2, 4))
