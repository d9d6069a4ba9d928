"""Someone else who writes a Delta table: random commits of every kind.

`python delta_writer.py TABLE` writes one that exists until it is killed.
"""

from __future__ import annotations

import os
import random
import string
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FEED = {"delta.enableChangeDataFeed": "true"}


def make_rows(chance: random.Random, count: int, width: int) -> pa.Table:
    """Rows with a few keys, so that many are equal; with more columns later."""
    columns: dict[str, pa.Array] = {
        "id": pa.array([chance.randrange(12) for _ in range(count)], pa.int64()),
        "k": pa.array([chance.choice(["a", "b", "c", None]) for _ in range(count)], pa.string()),
        "x": pa.array([chance.choice([1.5, -2.0, None]) for _ in range(count)], pa.float64()),
    }
    for i in range(width):
        name = f"added_{string.ascii_lowercase[i]}"
        columns[name] = pa.array([chance.randrange(3) for _ in range(count)], pa.int32())
    return pa.table(columns)


class Writer:
    """One who writes a table."""

    def __init__(self, path: Path, chance: random.Random, *, feed: bool) -> None:
        self.path, self._chance, self._width = path, chance, 0
        if DeltaTable.is_deltatable(str(path)):
            newest = DeltaTable(path).version()
            self._width = sum(name.startswith("added_") for name in _names(path, newest))
        else:
            write_deltalake(path, make_rows(chance, 5, 0), configuration=FEED if feed else None)

    def commit(self) -> str:
        """Make one commit of a random kind; says which."""
        kinds = [
            self.append, self.append, self.update, self.delete, self.merge, self.overwrite,
            self.overwrite_some, self.compact, self.add_column, self.delete_all, self.restore,
        ]  # fmt: skip
        weights = [4, 4, 4, 4, 4, 1, 2, 2, 0.5, 0.3, 0.3]
        (kind,) = self._chance.choices(kinds, weights)
        kind()
        return kind.__name__

    def _rows(self) -> pa.Table:
        return make_rows(self._chance, self._chance.randrange(1, 6), self._width)

    def _where(self) -> str:
        return f"id % {self._chance.randrange(2, 5)} = {self._chance.randrange(2)}"

    def append(self) -> None:
        write_deltalake(self.path, self._rows(), mode="append")

    def update(self) -> None:
        letter = self._chance.choice("abcd")
        DeltaTable(self.path).update(
            predicate=self._where(), updates={"k": f"'{letter}'", "id": "id + 1"}
        )

    def delete(self) -> None:
        DeltaTable(self.path).delete(self._where())

    def delete_all(self) -> None:
        DeltaTable(self.path).delete()

    def merge(self) -> None:
        source = self._rows()
        source = source.take(
            [source["id"].to_pylist().index(i) for i in {*source["id"].to_pylist()}]
        )
        merging = DeltaTable(self.path).merge(
            source, "s.id = t.id", source_alias="s", target_alias="t"
        )
        merging = merging.when_matched_delete("s.k = 'c'").when_matched_update_all()
        merging.when_not_matched_insert_all().execute()

    def overwrite(self) -> None:
        write_deltalake(self.path, self._rows(), mode="overwrite")

    def overwrite_some(self) -> None:
        number = self._chance.randrange(12)
        rows = self._rows()
        ids = pa.array([number] * rows.num_rows, pa.int64())
        rows = rows.set_column(0, "id", ids)
        write_deltalake(self.path, rows, mode="overwrite", predicate=f"id = {number}")

    def compact(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def add_column(self) -> None:
        if self._width < 3:
            self._width += 1
            write_deltalake(self.path, self._rows(), mode="append", schema_mode="merge")

    def restore(self) -> None:
        table = DeltaTable(self.path)
        now = _names(self.path, table.version())
        last = range(max(0, table.version() - 3), table.version())
        alike = [version for version in last if _names(self.path, version) == now]
        if alike:
            table.restore(self._chance.choice(alike))


def _names(path: Path, version: int) -> list[str]:
    return [each.name for each in DeltaTable(path, version).schema().fields]


if __name__ == "__main__":
    writer = Writer(Path(sys.argv[1]), random.Random(), feed=False)
    os.write(1, b"ready\n")
    while True:
        writer.commit()
