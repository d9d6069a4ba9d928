"""Random transactions on a table of PostgreSQL; as a process until it is killed."""

from __future__ import annotations

import os
import random
import sys

import psycopg

COLUMNS = "id bigint PRIMARY KEY, k text, x double precision, amount numeric(12, 2), note text"
LONG = 9000  # characters, so that a note is kept outside of its row


class Writer:
    """Writes to one table."""

    def __init__(self, dsn: str, table: str, chance: random.Random, *, full: bool = False) -> None:
        self.table, self._chance = table, chance
        self.connection = psycopg.connect(dsn, autocommit=True)
        self._do(f"CREATE TABLE IF NOT EXISTS {table} ({COLUMNS})")
        self._do(f"ALTER TABLE {table} ALTER note SET STORAGE EXTERNAL")
        if full:
            self._do(f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def _do(self, sql: str) -> None:
        self.connection.execute(sql)

    def commit(self) -> str:
        """One transaction of one to four statements, or one that is rolled back."""
        kinds = [self._insert, self._insert, self._update, self._delete, self._touch, self._move]
        done = []
        try:
            with self.connection.transaction():
                for _ in range(self._chance.randint(1, 4)):
                    kind = self._chance.choice(kinds)
                    if self._chance.random() < 0.03:
                        kind = self._truncate
                    kind()
                    done.append(kind.__name__)
                if self._chance.random() < 0.15:
                    raise psycopg.Rollback
        except psycopg.errors.UniqueViolation:
            done.append("refused")
        return " ".join(done)

    def _some(self) -> str:
        return f"id % {self._chance.randint(2, 9)} = 0"

    def _insert(self) -> None:
        n, base = self._chance.randint(1, 30), self._chance.randrange(100_000)
        long = f"repeat('x', {LONG + base % 100})" if self._chance.random() < 0.5 else "NULL"
        self._do(
            f"INSERT INTO {self.table} SELECT {base} + i, 'k' || i % 5, i / 8.0, i * 1.5, {long} "
            f"FROM generate_series(1, {n}) i ON CONFLICT DO NOTHING"
        )

    def _update(self) -> None:
        self._do(f"UPDATE {self.table} SET note = 'n', amount = amount + 1 WHERE {self._some()}")

    def _touch(self) -> None:
        """An update that leaves the long values alone."""
        self._do(f"UPDATE {self.table} SET x = coalesce(x, 0) + 1, k = NULL WHERE {self._some()}")

    def _move(self) -> None:
        """New keys; the long values stay."""
        self._do(f"UPDATE {self.table} SET id = id + 1000000 WHERE {self._some()}")

    def _delete(self) -> None:
        self._do(f"DELETE FROM {self.table} WHERE {self._some()}")

    def _truncate(self) -> None:
        self._do(f"TRUNCATE {self.table}")

    def rows(self) -> list[tuple[object, ...]]:
        """What the table has."""
        query = f"SELECT id, k, x, amount, note FROM {self.table}"
        return self.connection.execute(query).fetchall()


if __name__ == "__main__":
    writer = Writer(sys.argv[1], sys.argv[2], random.Random())
    os.write(1, b"ready\n")
    while True:
        writer.commit()
