"""Placement shards, seen from the driver.

takes  sources and views
does   sends rows to slots in Spark's workers, where the programs are; what they give is gathered in
       tables of the driver's mill, which finishes the views

Slots are fixed when the storage is made; shards are Spark's partitions, over which slots are
spread, and may be another number at each start.
"""

from __future__ import annotations

import json
import pkgutil
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewmill.algebra.names import quoted
from viewmill.algebra.relations import Relation, Scan, Values
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.blobs import read_table
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import (
    DamagedFile,
    ForbiddenChange,
    InvalidArgument,
    UnsupportedQuery,
    ViewmillError,
)
from viewmill.kernels.compiler import is_on
from viewmill.mill.create import as_materialized, describe
from viewmill.mill.mill import Mill
from viewmill.mill.patterns import is_pattern, plan_pattern
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.verify import Difference
from viewmill.mill.view import View
from viewmill.pipeline.definitions import define_view, drop_view, statement_of
from viewmill.pipeline.placement import Arrived, Sources
from viewmill.pipeline.settings import settings
from viewmill.pipeline.shards.archive import Archive, Piece
from viewmill.pipeline.shards.distributed import distributed_rows
from viewmill.pipeline.shards.failures import heard
from viewmill.pipeline.shards.filling import Filled, Past, fill_view
from viewmill.pipeline.shards.fills import forget_fills
from viewmill.pipeline.shards.gathered import gathered_rows
from viewmill.pipeline.shards.layout import (
    GIVEN,
    MULTIPLICITY,
    PACKED,
    Layout,
    PackedSource,
    coordinate,
    plain_column,
    slot_keys,
)
from viewmill.pipeline.shards.pack import Pack
from viewmill.pipeline.shards.verify import compare_gathered, verify_shards
from viewmill.pipeline.shards.views import (
    NotSharded,
    ShardedView,
    gathering_table,
    shard_pattern,
    shard_view,
)
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage, read_json, write_file
from viewmill.pipeline.take_batch import last_taken, take_rows
from viewmill.planner.blocks import inline_blocks
from viewmill.planner.sharding.hypercube import hash_type
from viewmill.planner.sharding.moments import gathered_schema
from viewmill.program.patterns import PatternQueries
from viewmill.rewrite.rules import rewrite
from viewmill.runtime.spark.programs import ShardProgram
from viewmill.runtime.spark.shard import Shard
from viewmill.sql.lower import lower
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView, CreateView

_STATES = "viewmill.pipeline.shards.slot_states:SlotStates"  # a subclass of Spark's
_STREAM_WEIGHT = 10.0  # a stream is expected to bring so many times the rows of a batch source
_SLOTS = 4
_STATE_STORE = "spark.sql.streaming.stateStore"
_PROVIDER = f"{_STATE_STORE}.providerClass"
_SETTINGS = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Counting keys costs a look before every write, and nobody asks for the count.
    f"{_STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    # Rows are only read and hashed: see `_READING_SETTINGS` of the placement in the driver.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    # Batches of 10,000 rows, the default, are handed over one by one.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}


Contents = tuple[Delta, Dictionary]


class InShards:
    """Views are maintained by programs in Spark's workers."""

    def __init__(
        self,
        spark: Any,
        storage: Storage,
        shards: int,
        memory: int | None = None,
        archive: bool | None = None,
    ) -> None:
        self._spark, self._storage, self._shards = spark, storage, shards
        self._compiled = is_on(None)  # workers do as the driver does
        self._saved = _Saved(storage, archive)
        self._archive = Archive(storage.root / "archive")
        self._fills = storage.root / "fills"
        self._archived: set[str] = set()  # sources whose rows are written down as they come
        self._brought: set[str] = set()  # sources whose rows the driver has been given
        self._sources: Sources = {}
        self._empty: dict[str, Contents] = {}  # what a slot shows of a view without rows
        self._joining: dict[str, str] = {}  # the fills of views that come later
        self.slots = self._saved.slots or max(_SLOTS, shards)
        self._views: dict[str, ShardedView | NotSharded] = {}
        self._layout: Layout | None = None
        self._signature: dict[str, Any] = {}
        self._figures: Counter[str] = Counter()
        self._kernel_ms: Counter[int] = Counter()
        self._state_bytes: dict[int, int] = {}
        self._released: dict[int, int] = {}
        self._share = None if memory is None else memory // self.slots

    # Views.

    def define(self, mill: Mill, name: str, sql: str, clauses: str, sources: Sources) -> None:
        """Create a view: the driver's part in the mill, the shards' part in the layout."""
        made = self._shard(mill, name, sql, clauses, sources)
        if made is None:  # a plain view is only a name
            define_view(mill, name, sql, clauses)
            return
        if isinstance(made, NotSharded):
            self._leave_shards(mill, name)
        else:
            made = self._define_shards(mill, name, made, statement_of(name, sql, clauses), sources)
        self._views[name] = made
        define_view(mill, name, sql, clauses)
        if self._saved.archive and self._began(mill):
            self._bring_rows(mill, mill.core.catalog.view(name).reads, sources)
        mill.core.catalog.view(name).sharding = made.words

    def _define_shards(
        self, mill: Mill, name: str, made: ShardedView, statement: str, sources: Sources
    ) -> ShardedView:
        """Make the table that gathers what shards give, with what they show already."""
        empty: Contents | None = None
        if isinstance(made.program, ShardProgram):
            shard = fill_without_rows(made.program, mill, compiled=self._compiled)
            made = replace(made, program=replace(made.program, empty=shard.snapshot()))
            empty = self._empty[name] = shard.contents()[name], shard.dictionary
        self._sources = sources
        if not self._began(mill):
            if mill.definition(name) != statement:
                _forget(mill, name)
                _gather(mill, name, made, empty)
        elif self._saved.holds(name, made) and gathering_table(name) in mill:
            made = replace(made, program=replace(made.program, fill=self._saved.fill_of(name)))
        else:
            made = self._join(mill, name, made, empty, sources)
        return made

    def _leave_shards(self, mill: Mill, name: str) -> None:
        """A view that the driver keeps: shards forget the one that had its name, if they may."""
        if not self._began(mill) or self._saved.holds(name, None):
            return
        if not self._saved.archive:
            raise self._saved.refusal(f"views changed: {name}")
        self._saved.forget(name)
        _forget(mill, name)

    def _join(
        self,
        mill: Mill,
        name: str,
        made: ShardedView,
        empty: Contents | None,
        sources: Sources,
    ) -> ShardedView:
        """Fill a view that comes after batches were taken; the storage knows it from then on."""
        if not self._saved.archive:
            raise self._saved.refusal(f"views changed: {name}")
        if not _can_be_filled(made):
            raise self._saved.refusal(
                f"views changed: {name}", "What it shows depends on the order in which rows came."
            )
        filled = self._filled(mill, made, sources)
        reach("view filled")
        self._saved.forget(name)  # whatever happens from here on, it is filled again
        reach("view forgotten")
        _forget(mill, name)
        _gather(mill, name, made, empty, filled.pieces)
        reach("view gathered")
        self._joining[name.lower()] = filled.fill
        return replace(made, program=replace(made.program, fill=filled.fill))

    def _filled(self, mill: Mill, made: ShardedView, sources: Sources) -> Filled:
        """The view made from the rows that its sources have brought."""
        assert isinstance(made.program, ShardProgram)
        done, taken = self._last(mill)
        read = [each for each in sources.values() if _reads(made, each.name.lower())]
        packed = [replace(self._packed(mill, each, [made], set()), archive=None) for each in read]
        layout = Layout(
            id=self._storage.id,
            keys=slot_keys(self.slots),
            sources=tuple(packed),
            programs=(made.program,),
            compiled=self._compiled,
            fills=str(self._fills),
        )
        past = [
            Past(
                to,
                tuple(each.selected().columns),
                self._past(mill, each, to, -1, done),
                self._past(mill, each, to, done, taken),
            )
            for each, to in zip(read, packed, strict=True)
        ]
        return fill_view(self._spark, layout, made.program, past)

    def _bring_rows(self, mill: Mill, reads: Container[str], sources: Sources) -> None:
        """Give the driver the rows of sources that it has not kept, for a view of its own.

        They replace what is there: nobody has read the table since it was last kept.
        """
        _, taken = self._last(mill)
        ordered = _kept(mill, sources) | _timed(mill, sources)
        for source in sources.values():
            name = source.name.lower()
            if name not in reads or name in ordered or name in self._brought:
                continue
            if self._saved.is_in_driver(name):
                continue
            past = self._past_rows(mill, source, -1, taken)
            if past is not None:
                with mill.batch():
                    take_rows(mill, source, past.selected().toArrow(), {source.name})
            self._brought.add(name)

    def _past(self, mill: Mill, source: Source, packed: PackedSource, after: int, upto: int) -> Any:
        """The rows of the batches after one, up to another, as they are packed; None if none."""
        past = self._past_rows(mill, source, after, upto)
        return None if past is None else _with_coordinates(past, packed)

    def _past_rows(self, mill: Mill, source: Source, after: int, upto: int) -> Source | None:
        """A source of the rows of the batches after one, up to another; None if there are none."""
        if not source.is_streaming:  # all came in the first batch
            if not after < 0 <= upto:
                return None
            rows = source.selected()
            frame = self._spark.read.schema(rows.schema).parquet(self._batch_folder(source))
            return replace(source, frame=frame)
        files = self._archive.files(mill, source.name, after, upto)
        if not files:
            return None
        rows = source.selected()
        plain = [f"{quoted(name)} AS {plain_column(i)}" for i, name in enumerate(rows.columns)]
        reader = self._spark.read.schema(rows.selectExpr(*plain).schema)
        frame = reader.parquet(*files).toDF(*rows.columns)
        return replace(source, frame=frame)

    def _began(self, mill: Mill) -> bool:
        """Whether slots or the driver have taken a batch."""
        return max(self._last(mill)) >= 0

    def _last(self, mill: Mill) -> tuple[int, int]:
        """The last batch that Spark noted as done, and the last one that the driver committed."""
        return self._storage.last_batch(), last_taken(mill, self._storage)

    def _shard(
        self, mill: Mill, name: str, sql: str, clauses: str, sources: Sources
    ) -> ShardedView | NotSharded | None:
        text = statement_of(name, sql, clauses)
        (statement,) = parse(text)
        if isinstance(statement, CreateView) and is_pattern(statement.query):
            statement = as_materialized(statement)
        if not isinstance(statement, CreateMaterializedView):
            return None
        if is_pattern(statement.query) and not statement.policies:
            return self._shard_pattern(mill, statement, text, sources)
        try:
            query = lower(statement.query, text, mill.core.catalog, describe(mill.core))
        except ViewmillError:
            # INITIALIZE ... UPDATE and the like; or an error, which define_view tells.
            return NotSharded("it works on the time parts of a table, which only the driver keeps")
        own = (statement.policies, statement.strategy, statement.memory_bytes is not None)
        if any(own) or statement.refresh_policy == "full":
            return NotSharded("its clauses are carried out by the driver's mill")
        weights = {
            each.name: _STREAM_WEIGHT if each.is_streaming else 1.0 for each in sources.values()
        }
        kept = _kept(mill, sources) | _timed(mill, sources)
        return shard_view(name, rewrite(query), self.slots, weights, kept)

    def _shard_pattern(
        self, mill: Mill, statement: CreateMaterializedView, text: str, sources: Sources
    ) -> ShardedView | NotSharded:
        try:
            program = plan_pattern(mill.core, statement, text).program
        except UnsupportedQuery:  # a subquery, or an error, which define_view tells
            return NotSharded("it matches the rows of a query, which only the driver keeps")
        assert isinstance(program.body, PatternQueries)
        if program.body.own_parts:
            return NotSharded("it matches the rows of a view, which only the driver keeps")
        table = mill.core.catalog.table(program.inputs[0].source)
        return shard_pattern(statement.name, program, table, self.slots, _kept(mill, sources))

    # Starting.

    def streaming(self, sources: Sequence[Source]) -> list[Source]:
        """All sources; a batch source is written to files once and read as a stream."""
        streams = {each.name for each in sources if each.is_streaming}
        self._archived = streams if self._saved.archive else set()
        return [each if each.is_streaming else self._written(each) for each in sources]

    def reads_as_stream(self, source: Source) -> bool:
        """Always: batch sources are read as streams, too."""
        return True

    def _written(self, source: Source) -> Source:
        folder = self._batch_folder(source)
        rows = source.selected()
        if not self._storage.checkpoint.exists():
            rows.write.mode("overwrite").parquet(folder)
        elif not Path(folder).is_dir():
            raise DamagedFile(
                f'the rows of the batch source "{source.name}" are gone',
                detail=f"They were written to {folder} at the first start.",
                hint="Bring the storage back from a copy, or give an empty storage directory.",
            )
        # By the names of files: in the copy of a storage they are not new.
        reader = self._spark.readStream.schema(rows.schema).option("fileNameOnly", "true")
        frame = reader.parquet(folder)
        return replace(source, frame=frame)

    def _batch_folder(self, source: Source) -> str:
        return str(self._storage.root / "batches" / source.name.lower())

    def check(self, mill: Mill, streams: Sequence[Source]) -> None:
        """Lay out the slots; raises if the storage was made for another layout."""
        sharded = [each for each in self._views.values() if isinstance(each, ShardedView)]
        driver = self._driver_sources(mill)
        layout = Layout(
            id=self._storage.id,
            keys=slot_keys(self.slots),
            sources=tuple(self._packed(mill, each, sharded, driver) for each in streams),
            programs=tuple(each.program for each in sharded),
            compiled=self._compiled,
            share=self._share,
            fills=str(self._fills),
        )
        self._signature = _signature(layout, sharded)
        self._saved.check(self._signature, self._joining, self._brought, began=self._began(mill))
        self._layout = layout

    def prepare(self) -> None:
        """Move slots if the number of shards changed, and store the layout's signature."""
        self._repartition()
        sharded = [each for each in self._views.values() if isinstance(each, ShardedView)]
        fills = {
            each.program.view.lower(): each.program.fill for each in sharded if each.program.fill
        }
        self._saved.write(self._signature, self.slots, self._shards, fills)
        self._joining.clear()
        self._brought.clear()
        forget_fills(self._fills, fills.values())

    def forget_others(self, mill: Mill) -> None:
        """Drop what was gathered for views that are no longer declared."""
        if self._saved.archive:
            self._archive.open(mill)
            self._archive.forget_strangers(mill)
            for source in sorted(self._archived):
                self._archive.compact(self._spark, mill, source, self._storage.last_batch())
        wanted = {gathering_table(name) for name in self._views}
        for table in [each.name for each in mill.core.catalog.tables() if each.is_gathered]:
            if table not in wanted:
                mill.sql(f"DROP TABLE {quoted(table)}")

    def _driver_sources(self, mill: Mill) -> set[str]:
        views = [mill.core.catalog.view(name) for name in self._views]
        return {read for view in views for read in view.reads}

    def _packed(
        self, mill: Mill, source: Source, sharded: list[ShardedView], driver: set[str]
    ) -> PackedSource:
        name = source.name.lower()
        routes = dict.fromkeys(
            route for view in sharded for route in view.routes if route.source.lower() == name
        )
        table = mill.core.catalog.table(source.name).table
        signs = {} if source.sign is None else {source.sign_kind: source.sign}
        clocks = [view.clock for view in sharded if _reads(view, name) and view.clock is not None]
        clock = clocks[0] if clocks else None
        return PackedSource(
            source.name, table.schema, signs, tuple(routes), name in driver, clock,
            table.options.parts,
            str(self._archive.folder(name)) if source.name in self._archived else None,
        )  # fmt: skip

    def _repartition(self) -> None:
        before = self._saved.shards
        if before in (None, self._shards) or not self._storage.has_batches():
            return
        try:
            manager = self._spark._streamingCheckpointManager
            manager.repartition(str(self._storage.checkpoint), self._shards)
        except Exception as why:
            raise ForbiddenChange(
                f"the state of {before} shards could not be moved to {self._shards}",
                detail=str(why).splitlines()[0],
                hint=f"Start once with shards={before}, so that the last batch is done.",
            ) from why

    def frame(self, streams: Sequence[Source]) -> Any:
        """The query: compute coordinates, pack rows, exchange them, apply them in slots."""
        assert self._layout is not None
        packed = [
            _with_coordinates(each, to).mapInArrow(
                Pack(to, self._layout.keys, each.selected().columns), PACKED
            )
            for each, to in zip(streams, self._layout.sources, strict=True)
        ]
        states = pkgutil.resolve_name(_STATES)(self._layout)
        together = reduce(lambda one, other: one.union(other), packed)
        return together.groupBy("slot").transformWithState(
            states, outputStructType=GIVEN, outputMode="Update", timeMode="None"
        )

    def settings(self) -> AbstractContextManager[object]:
        """The settings for starting the query, which fix its number of partitions."""
        wanted = {"spark.sql.shuffle.partitions": str(self._shards), **_SETTINGS}
        if "RocksDB" in (self._spark.conf.get(_PROVIDER, "") or ""):
            del wanted[_PROVIDER]
        return settings(self._spark, wanted)

    # Taking.

    def arrived(self, batch: pa.Table, streams: Sequence[Source]) -> Arrived:
        """Decode a batch: deltas of shards, rows for the driver, refused rows, metrics."""
        found = Arrived()
        rows: dict[str, list[pa.Table]] = {}
        counts: Counter[str] = Counter()
        for given in sorted(batch.to_pylist(), key=lambda each: each["place"]):
            content, name = given["content"], given["name"]
            match given["kind"]:
                case "delta":
                    table = gathering_table(name)
                    found.changes.setdefault(table, []).append(read_table(content))
                case "rows":
                    rows.setdefault(name, []).append(read_table(content))
                case "refused":
                    found.refused += [tuple(each) for each in json.loads(content)]
                case "failure":
                    raise heard(content)
                case "archived":
                    found.archived.append(Piece(*json.loads(content)))
                case "figures":
                    figures = json.loads(content)
                    counts.update(figures.pop("counts"))
                    self._note(given["place"], figures)
        found.rows = {name: pa.concat_tables(tables) for name, tables in rows.items()}
        counts.update({name: each.num_rows for name, each in found.rows.items()})
        found.counts = dict(counts)
        return found

    def _note(self, slot: int, figures: dict[str, Any]) -> None:
        self._kernel_ms[slot] += figures.pop("kernel_ms")
        self._state_bytes[slot] = figures.pop("state_bytes")
        self._released[slot] = figures.pop("released")
        self._figures.update(figures)

    def verify(self, mill: Mill, view: str) -> list[Difference]:
        """Compare the driver's gathering table with the states of the shards."""
        made = next(each for name, each in self._views.items() if name.lower() == view.lower())
        if isinstance(made, NotSharded) or not self._storage.has_batches():
            return []
        if self._layout is None:
            raise InvalidArgument(
                f'view "{view}" is in shards that were not started',
                hint="Call run_once() or start() first.",
            )
        found = verify_shards(mill, self._spark, self._storage.checkpoint, self._layout, made)
        if not self._saved.archive or not _can_be_filled(made):
            return found
        filled = self._filled(mill, made, self._sources)
        used = [each.program.fill for each in self._views.values() if isinstance(each, ShardedView)]
        forget_fills(self._fills, used)
        expected = _shown(made, self._empty.get(made.program.view), filled.pieces)
        return found + compare_gathered(mill, made, expected)

    def distributed(self, view: View) -> Any:
        """A DataFrame of the rows in the slots, as of the last batch that Spark noted as done."""
        views = {name.lower(): each for name, each in self._views.items()}
        made = views.get(view.name.lower())
        batch = self._storage.last_batch()
        if not isinstance(made, ShardedView) or self._layout is None or batch < 0:
            return None
        return distributed_rows(
            self._spark, self._storage.checkpoint, batch, self._layout, made, view.query
        )

    def status(self, mill: Mill) -> dict[str, Any]:
        """The metrics of the slots since the pipeline was created."""
        shown: dict[str, Any] = {
            name: self._figures[name]
            for name in ("rows", "hits", "caught_up", "rebuilt", "rebuilt_views", "snapshots")
        }
        if self._share is not None:
            shown |= {"share_bytes": self._share, "released": sum(self._released.values())}
        if self._saved.archive:
            shown["archive"] = self._archive.status(mill)
        return {
            "shards": {
                "count": self._shards,
                "slots": self.slots,
                "state_bytes": sum(self._state_bytes.values()),
                "kernel_ms": [self._kernel_ms[slot] for slot in range(self.slots)],
                **shown,
            }
        }


def fill_without_rows(program: ShardProgram, mill: Mill, *, compiled: bool) -> Shard:
    """A shard without rows; this compiles the kernels once for all workers."""
    shard = Shard([program], compiled=compiled)
    queries = {name: each.query for name, each in program.blocks[:-1]}

    def rows(definition: Relation) -> list[Any]:
        definition = inline_blocks(definition, queries)
        if isinstance(definition, Values) and not definition.rows:
            return []
        tables = {scan.source: _no_rows(scan) for scan in scans(definition)}
        found: list[Any] = mill.core.engine.run(definition, tables).to_batches()
        return found

    shard.fill(rows)
    return shard


def _no_rows(scan: Scan) -> pa.Table:
    fields = [replace(each, name=each.name.removeprefix(f"{scan.alias}.")) for each in scan.schema]
    return arrow_schema(Schema(tuple(fields))).empty_table()


def _reads(view: ShardedView, source: str) -> bool:
    return any(route.source.lower() == source for route in view.routes)


def _is_saved(found: object) -> bool:
    """Whether it is what `_Saved.write` wrote, or nothing."""
    if not isinstance(found, dict) or not found:
        return found == {}
    counts = [found.get("slots"), found.get("shards")]
    signature = found.get("signature")
    return (
        all(isinstance(each, int) and each > 0 for each in counts)
        and isinstance(signature, dict)
        and isinstance(signature.get("views"), dict)
        and isinstance(signature.get("driver"), list)
        and isinstance(found.get("fills", {}), dict)
    )


def _can_be_filled(view: ShardedView) -> bool:
    """Whether the order in which rows came does not matter to it."""
    return isinstance(view.program, ShardProgram) and "LATENESS" not in view.options


def _shown(
    made: ShardedView, empty: Contents | None, pieces: Sequence[tuple[int, pa.Table]]
) -> list[pa.Table]:
    """What all slots show; those that no row has reached show what they do without rows."""
    shown = [rows for _, rows in pieces if rows.num_rows]
    if empty is not None and empty[0].size:
        shown += [gathered_rows(*empty)] * (made.cells - len({slot for slot, _ in pieces}))
    return shown


def _forget(mill: Mill, name: str) -> None:
    """Drop a view that was another one, with what was gathered for it."""
    drop_view(mill, name)
    if gathering_table(name) in mill:
        mill.sql(f"DROP TABLE {quoted(gathering_table(name))}")


def _gather(
    mill: Mill,
    name: str,
    made: ShardedView,
    empty: Contents | None,
    pieces: Sequence[tuple[int, pa.Table]] = (),
) -> None:
    """The table for what shards give, with what they show: before any row came, or by slot."""
    table = gathering_table(name)
    schema = gathered_schema(made.program.output)
    columns = ", ".join(f"{quoted(each.name)} {each.type}" for each in schema)
    mill.sql(f"CREATE TABLE {quoted(table)} ({columns}) UNCHECKED{made.options}")
    if shown := _shown(made, empty, pieces):
        with mill.batch():
            for rows in shown:
                mill.apply(table, rows, multiplicity=MULTIPLICITY)


def _kept(mill: Mill, sources: Sources) -> dict[str, str]:
    """What only the driver has, in lower case, and why."""
    kept = {name.lower(): f"it reads the view {name}" for name in mill.views()}
    for each in sources.values():
        if each.key:
            kept[each.name.lower()] = f"{each.name} replaces rows by key, so its rows are kept"
        elif each.checked:
            kept[each.name.lower()] = f"{each.name} is checked, so its rows are kept"
    return kept


def _timed(mill: Mill, sources: Sources) -> dict[str, str]:
    """Tables that refuse rows or let them go by the time of all: patterns on shards know it."""
    found = {}
    for each in sources.values():
        parts = mill.core.catalog.table(each.name).table.options.parts
        if parts is not None and not (parts.lateness is None and parts.retention is None):
            found[each.name.lower()] = f"{each.name} takes and keeps rows by their time"
    return found


def _with_coordinates(source: Source, packed: PackedSource) -> Any:
    """The source's rows, by plain names, with a column for each coordinate."""
    types = {each.name.lower(): each.type for each in packed.schema}
    rows = source.selected()
    shown = [f"{quoted(name)} AS {plain_column(i)}" for i, name in enumerate(rows.columns)]
    for i, (columns, share) in enumerate(packed.coordinates()):
        hashed = ", ".join(
            f"try_cast({quoted(name)} AS {hash_type(types[name.lower()])})" for name in columns
        )
        shown.append(f"CAST(pmod(xxhash64({hashed}), {share}) AS INT) AS {coordinate(i)}")
    return rows.selectExpr(*shown)


def _signature(layout: Layout, sharded: Sequence[ShardedView]) -> dict[str, Any]:
    """What must not change while the state lives."""
    programs = {each.program.view.lower(): _signed(each) for each in sharded}
    driver = sorted(each.name.lower() for each in layout.sources if each.to_driver)
    return {"views": programs, "driver": driver}


def _signed(view: ShardedView) -> list[str]:
    """What slots hold for a view."""
    return [*view.program.fingerprints, *sorted(route.stream for route in view.routes)]


class _Saved:
    """What the storage was made for, in a file beside the checkpoint."""

    def __init__(self, storage: Storage, archive: bool | None = None) -> None:
        self._root = storage.root
        self._file = storage.root / "shards.json"
        if not self._file.exists() and storage.has_batches():
            raise DamagedFile(
                f"{self._file} is missing",
                detail="It says over how many slots the states of the views are spread.",
                hint="Bring it back from a copy, or give an empty storage directory.",
            )
        saved = read_json(self._file) if self._file.exists() else {}
        if not _is_saved(saved):
            raise DamagedFile(f"{self._file} is not what was written")
        self.slots: int | None = saved.get("slots")
        self.shards: int | None = saved.get("shards")
        self._signature: dict[str, Any] | None = saved.get("signature")
        self._fills: dict[str, str] = saved.get("fills", {})
        self.archive = bool(saved.get("archive", False) if saved else archive)
        if archive is not None and archive != self.archive:
            raise ForbiddenChange(
                f"the shards in {self._root} were made with archive={self.archive}",
                detail="An archive has all rows from the first on, or is of no use.",
                hint=f"Say archive={self.archive}, or give another storage directory.",
            )

    def check(
        self,
        signature: dict[str, Any],
        joining: Container[str],
        brought: Container[str],
        *,
        began: bool,
    ) -> None:
        """Refuse what the state in the checkpoint was not made for."""
        before = self._signature
        if before is None or not began:
            return
        there, wanted = before["views"], signature["views"]
        changed = [name for name in wanted if there.get(name) != wanted[name]]
        changed = sorted(name for name in changed if name not in joining)
        if changed:
            raise self.refusal(f"views changed: {', '.join(changed)}")
        if any(name not in brought for name in set(signature["driver"]) - set(before["driver"])):
            raise self.refusal("the driver's views changed")

    def holds(self, name: str, view: ShardedView | None) -> bool:
        """Whether shards hold the states of just this view; of none, if the driver has it."""
        there = {} if self._signature is None else self._signature["views"]
        return bool(there.get(name.lower()) == (None if view is None else _signed(view)))

    def is_in_driver(self, source: str) -> bool:
        """Whether the driver has been given the rows of a source, by its name in lower case."""
        return self._signature is not None and source in self._signature["driver"]

    def fill_of(self, name: str) -> str:
        """The fill with which a view began, if it came later."""
        return self._fills.get(name.lower(), "")

    def refusal(self, what: str, why: str = "") -> ForbiddenChange:
        """What is said about views that the storage has no rows for."""
        why = why or (
            "The order in which their rows came matters to sources that the driver is to keep."
            if self.archive
            else "Shards keep no rows from which a view could be filled; views can only be left"
            " out."
        )
        other = "Give the pipeline another storage directory to take its sources anew"
        return ForbiddenChange(
            f"the shards in {self._root} hold the state of other views",
            detail=f"{what}. {why}",
            hint=f"{other}{'' if self.archive else '; with archive=True, views can come later'}.",
        )

    def forget(self, name: str) -> None:
        """Note that shards do not hold the states of a view, or not those that are wanted."""
        assert self._signature is not None
        assert self.slots is not None
        assert self.shards is not None
        views = {key: each for key, each in self._signature["views"].items() if key != name.lower()}
        signature = {**self._signature, "views": views}
        fills = {key: each for key, each in self._fills.items() if key != name.lower()}
        self.write(signature, self.slots, self.shards, fills)

    def write(
        self, signature: dict[str, Any], slots: int, shards: int, fills: Mapping[str, str]
    ) -> None:
        """Note what the storage is made for."""
        self._signature, self._fills = signature, dict(fills)
        self.slots, self.shards = slots, shards
        saved = {"slots": slots, "shards": shards, "signature": signature}
        saved |= {"archive": self.archive, "fills": self._fills}
        write_file(self._file, json.dumps(saved).encode())
