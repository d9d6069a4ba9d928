"""Play a session on a pipeline in shards: on Spark, or with slots over stores in memory.

A batch after which a view has no answer (a sum that fits no BIGINT) is not sent: a pipeline would
try it again for ever. The oracle says so before.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

import viewmill as vm
from viewmill.errors import Overflow
from viewmill.pipeline.shards import slot as slots
from viewmill.testing.local_shards import LocalShards
from viewmill.testing.oracle import Refused, Row, differences
from viewmill.testing.sessions.check import Different
from viewmill.testing.sessions.definitions import Evaluator
from viewmill.testing.sessions.names import quoted
from viewmill.testing.sessions.steps import Step
from viewmill.testing.sessions.world import Column, Stream, Table, View, World, arrow_table

_TIMES = "times"  # the column that says how often a row is added

Tables = Mapping[str, pa.Table]


class Shards(Protocol):
    """A pipeline whose views are in shards."""

    def take(self, rows: Tables) -> None: ...
    def rows(self, view: str) -> list[Row]: ...
    def verify(self, view: str) -> list[Any]: ...
    def said(self, view: str) -> str: ...
    def restart(self, shards: int) -> None: ...
    def lose(self) -> None: ...
    def move(self) -> None: ...
    def rerun(self, rows: Tables) -> None: ...
    def close(self) -> None: ...


class ShardPlayer:
    """A pipeline and a world, kept side by side; the pipeline is made when the first rows come."""

    def __init__(self, *, on_spark: bool) -> None:
        self.world = World()
        self.evaluator = Evaluator(self.world)
        self._on_spark, self._shards = on_spark, None
        self._again = False
        self._folder = Path(tempfile.mkdtemp(prefix="session"))

    _shards: Shards | None

    def close(self) -> None:
        """Stop the pipeline and remove its files."""
        if self._shards is not None:
            self._shards.close()
        self.evaluator.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def play(self, step: Step) -> None:
        """Perform one step and compare."""
        verb, *arguments = step
        getattr(self, f"_do_{verb}")(*arguments)
        self.world.made += 1

    # Before the first rows.

    def _do_create_table(
        self, name: str, alias: str, columns: Sequence[Sequence[str]], options: dict[str, Any]
    ) -> None:
        if self._shards is not None or name in self.world.tables:
            return
        stream = options.get("stream")
        at = None if stream is None else Stream(stream["role"], stream["lateness"])
        made = tuple(Column(*column) for column in columns)
        self.world.tables[name] = Table(name, alias, made, is_unchecked=True, stream=at)

    def _do_create_view(self, name: str, query: str, definition: dict[str, Any]) -> None:
        known = {**self.world.tables, **self.world.views}
        if self._shards is None and all(read in known for read in definition["reads"]):
            self.world.views[name] = View(name, query, definition)

    # Rows.

    def _do_rows(self, parts: Sequence[tuple[str, Sequence[tuple[Row, int]]]]) -> None:
        parts = [(name, changes) for name, changes in parts if name in self.world.tables]
        before = dict(self.world.tables)
        for name, changes in parts:
            table = self.world.tables[name].copy()
            table.change((tuple(row), times) for row, times in changes)
            self.world.tables[name] = table
        if not self._have_answers():
            self.world.tables = before
            return
        rows = {name: self._arrow(name, changes) for name, changes in parts if changes}
        if self._shards is None:
            self._shards = (SparkShards if self._on_spark else SlotShards)(self._folder, self.world)
            self.world.has_begun = True
        try:
            if self._again:
                self._shards.rerun(rows)
            self._shards.take(rows)
        except Overflow as why:
            raise PartTooLarge from why
        self._again = False
        self._compare()

    def _have_answers(self) -> bool:
        try:
            for view in self.world.views.values():
                self.evaluator.rows(view, self.world.tables)
        except Refused:
            return False
        return True

    def _arrow(self, name: str, changes: Sequence[tuple[Row, int]]) -> pa.Table:
        rows = [tuple(row) for row, _ in changes]
        made = arrow_table(self.world.tables[name].columns, rows, named=True)
        times = pa.array([times for _, times in changes], pa.int64())
        return made.append_column(_TIMES, times)

    def _compare(self) -> None:
        assert self._shards is not None
        settled = all(table.is_settled for table in self.world.tables.values())
        for view in self.world.views.values() if settled else ():
            expected = self.evaluator.rows(view, self.world.tables)
            found = differences(expected, self._shards.rows(view.name))
            if found:
                said = self._shards.said(view.name)
                raise Different("rows", f"{view.name}: {found[:4]}\n#   {view.sql}\n#   {said}")

    # Faults.

    def _do_restart(self, shards: int) -> None:
        if self._shards is not None:
            self._shards.restart(shards)
            self._compare()
            for view in self.world.views:
                if found := self._shards.verify(view):
                    raise Different("verify", f"{view}: {found[:4]}")

    def _do_lose(self) -> None:
        """The workers' memory is gone."""
        if self._shards is not None:
            self._shards.lose()

    def _do_move(self) -> None:
        """Other workers go on; they may have had the slots before."""
        if self._shards is not None:
            self._shards.move()

    def _do_rerun(self) -> None:
        """The next batch is tried twice: Spark did not commit the first time."""
        self._again = True


class PartTooLarge(Exception):
    """A shard's part of a sum fits no BIGINT, though the sum of all may: the session ends here."""


class SlotShards:
    """Slots over stores in memory: what Spark does is played by `LocalShards`."""

    def __init__(self, folder: Path, world: World) -> None:
        tables = {table.name: _columns(table) for table in world.tables.values()}
        options = {table.name: f"UNCHECKED{_time(table)}" for table in world.tables.values()}
        views = {view.name: view.sql for view in world.views.values()}
        self._made = LocalShards(folder, tables, views, options, multiplicity=_TIMES)

    def take(self, rows: Tables) -> None:
        """One batch."""
        self._made.take(rows)

    def rows(self, view: str) -> list[Row]:
        """What a view shows."""
        return list(self._made.mill[view].rows())

    def verify(self, view: str) -> list[Any]:
        """Where a view differs from what was gathered."""
        return list(self._made.mill[view].verify())

    def said(self, view: str) -> str:
        """How it is spread."""
        return " ".join(self._made.mill.core.catalog.view(view).sharding)

    def restart(self, shards: int) -> None:
        """Every slot is made again from its store."""
        self.lose()

    def lose(self) -> None:
        """Forget what is in memory."""
        slots._MEMORY.clear()

    def move(self) -> None:
        """Another worker takes the slots."""
        self._made.move()

    def rerun(self, rows: Tables) -> None:
        """Take a batch that is not committed."""
        before = {key: store.copy() for key, store in self._made.stores.items()}
        self._made.give(rows)
        self._made.stores = before

    def close(self) -> None:
        """Forget everything."""
        self.lose()
        self._made.mill.close()


class SparkShards:
    """A pipeline on Spark over directories that grow."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder, self._world, self._batch = folder, world, 0
        self._spark = vm.spark.session()
        self._pipe = self._made(2)

    def _made(self, shards: int) -> Any:
        pipe = vm.Pipeline(self._spark, self._folder / "storage", placement="shards", shards=shards)
        for table in self._world.tables.values():
            (self._folder / table.alias).mkdir(exist_ok=True)
            columns = f"{_columns(table)}, {_TIMES} BIGINT"
            reader = self._spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
            time = None if table.stream is None else table.column("t").name
            late = _time(table).partition("LATENESS")[2]
            pipe.source(
                table.name, reader.parquet(str(self._folder / table.alias)), multiplicity=_TIMES,
                options=f"LATENESS{late}" if late else "", timestamp=time,
            )  # fmt: skip
        for view in self._world.views.values():
            pipe.view(view.name, view.sql)
        return pipe

    def take(self, rows: Tables) -> None:
        """One file of each source, one micro-batch."""
        self._batch += 1
        for name, table in rows.items():
            folder = self._folder / self._world.tables[name].alias
            file = folder / f"{self._batch:06}.parquet"
            pq.write_table(_in_utc(table), file.with_name(f".{file.name}"))
            file.with_name(f".{file.name}").rename(file)
        self._pipe.run_once()

    def rows(self, view: str) -> list[Row]:
        """What a view shows."""
        return list(self._pipe[view].rows())

    def verify(self, view: str) -> list[Any]:
        """Where a view differs from what the shards hold."""
        return list(self._pipe.verify(view))

    def said(self, view: str) -> str:
        """How it is spread."""
        return " ".join(self._pipe.mill.core.catalog.view(view).sharding)

    def restart(self, shards: int) -> None:
        """Another pipeline over the same storage, with another number of shards."""
        self._pipe.close()
        self._pipe = self._made(shards)
        self._pipe.run_once()

    def lose(self) -> None:
        """Spark's workers are their own; a restart is the nearest."""

    def move(self) -> None:
        """Spark decides that."""

    def rerun(self, rows: Tables) -> None:
        """Spark decides that."""

    def close(self) -> None:
        """Stop the pipeline; the session is for the next one."""
        self._pipe.close()


def _columns(table: Table) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in table.columns)


def _time(table: Table) -> str:
    if table.stream is None:
        return ""
    late = table.stream.lateness
    text = f" TIMESTAMP BY {quoted(table.column(table.stream.role).name)}"
    return text + (f" LATENESS INTERVAL '{late}' SECONDS" if late else "")


def _in_utc(rows: pa.Table) -> pa.Table:
    """Times with a zone: Spark reads those without one as another type."""
    fields = [
        field.with_type(pa.timestamp("us", tz="UTC"))
        if pa.types.is_timestamp(field.type)
        else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
