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
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from viewmill import errors
from viewmill.algebra.names import quoted
from viewmill.algebra.relations import Relation, Scan, Values
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import scans
from viewmill.deltas.arrow import arrow_schema
from viewmill.deltas.blobs import read_table
from viewmill.deltas.delta import Delta
from viewmill.deltas.dictionary import Dictionary
from viewmill.errors import DamagedFile, ForbiddenChange, UnsupportedQuery, ViewmillError
from viewmill.kernels.compiler import is_on
from viewmill.mill.create import as_materialized, describe
from viewmill.mill.mill import Mill
from viewmill.mill.patterns import is_pattern, plan_pattern
from viewmill.mill.verify import Difference
from viewmill.mill.view import View
from viewmill.pipeline.definitions import define_view, statement_of
from viewmill.pipeline.placement import Arrived, Sources
from viewmill.pipeline.settings import settings
from viewmill.pipeline.shards.distributed import distributed_rows
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
from viewmill.pipeline.shards.verify import verify_shards
from viewmill.pipeline.shards.views import (
    NotSharded,
    ShardedView,
    gathering_table,
    shard_pattern,
    shard_view,
)
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage, read_json, write_file
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
        self, spark: Any, storage: Storage, shards: int, memory: int | None = None
    ) -> None:
        self._spark, self._storage, self._shards = spark, storage, shards
        self._compiled = is_on(None)  # workers do as the driver does
        self._saved = _Saved(storage)
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
        self._saved.require_view(name, made if isinstance(made, ShardedView) else None)
        if isinstance(made, ShardedView):
            contents: Contents | None = None
            if isinstance(made.program, ShardProgram):
                shard = fill_without_rows(made.program, mill, compiled=self._compiled)
                made = replace(made, program=replace(made.program, empty=shard.snapshot()))
                contents = shard.contents()[name], shard.dictionary
            if mill.definition(name) is None:
                _gather(mill, name, made, contents)
        self._views[name] = made
        define_view(mill, name, sql, clauses)
        mill.core.catalog.view(name).sharding = made.words

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
        return [each if each.is_streaming else self._written(each) for each in sources]

    def reads_as_stream(self, source: Source) -> bool:
        """Always: batch sources are read as streams, too."""
        return True

    def _written(self, source: Source) -> Source:
        folder = str(self._storage.root / "batches" / source.name.lower())
        rows = source.selected()
        if not self._storage.checkpoint.exists():
            rows.write.mode("overwrite").parquet(folder)
        frame = self._spark.readStream.schema(rows.schema).parquet(folder)
        return replace(source, frame=frame)

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
        )
        self._signature = _signature(layout, sharded)
        self._saved.check(self._signature, self.slots)
        self._layout = layout

    def prepare(self) -> None:
        """Move slots if the number of shards changed, and store the layout's signature."""
        self._repartition()
        self._saved.write(self._signature, self.slots, self._shards)

    def forget_others(self, mill: Mill) -> None:
        """Drop what was gathered for views that are no longer declared."""
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
                    raise _failure(name, json.loads(content))
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
        assert self._layout is not None
        return verify_shards(mill, self._spark, self._storage.checkpoint, self._layout, made)

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

    def status(self) -> dict[str, Any]:
        """The metrics of the slots since the pipeline was created."""
        shown = {
            name: self._figures[name]
            for name in ("rows", "hits", "caught_up", "rebuilt", "rebuilt_views", "snapshots")
        }
        if self._share is not None:
            shown |= {"share_bytes": self._share, "released": sum(self._released.values())}
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


def _gather(mill: Mill, name: str, made: ShardedView, contents: Contents | None) -> None:
    """The table for what shards give, with what they show before any row came."""
    table = gathering_table(name)
    if table in mill:
        mill.sql(f"DROP TABLE {quoted(table)}")
    schema = gathered_schema(made.program.output)
    columns = ", ".join(f"{quoted(each.name)} {each.type}" for each in schema)
    mill.sql(f"CREATE TABLE {quoted(table)} ({columns}) UNCHECKED{made.options}")
    if contents is not None and contents[0].size:
        rows = gathered_rows(*contents)
        with mill.batch():
            for _ in range(made.cells):
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

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._file = storage.root / "shards.json"
        saved = read_json(self._file) if self._file.exists() else {}
        if not isinstance(saved, dict):
            raise DamagedFile(f"{self._file} is not what was written")
        self.slots: int | None = saved.get("slots")
        self.shards: int | None = saved.get("shards")
        self._signature: dict[str, Any] | None = saved.get("signature")

    def check(self, signature: dict[str, Any], slots: int) -> None:
        """Refuse what the state in the checkpoint was not made for."""
        before = self._signature
        if before is None or not self._storage.checkpoint.exists():
            return
        there, wanted = before["views"], signature["views"]
        changed = sorted(name for name in wanted if there.get(name) != wanted[name])
        if changed:
            raise self._refusal(f"views changed: {', '.join(changed)}")
        if not set(signature["driver"]) <= set(before["driver"]):
            raise self._refusal("the driver's views changed")

    def require_view(self, name: str, view: ShardedView | None) -> None:
        """Refuse a view that shards hold otherwise, before it is defined; None is the driver's."""
        if self._signature is None or not self._storage.checkpoint.exists():
            return
        if self._signature["views"].get(name.lower()) != (None if view is None else _signed(view)):
            raise self._refusal(f"views changed: {name}")

    def _refusal(self, what: str) -> ForbiddenChange:
        return ForbiddenChange(
            f"the shards in {self._storage.root} hold the state of other views",
            detail=f"{what}. Shards keep no rows from which a view could be filled; views can only"
            " be left out.",
            hint="Give the pipeline another storage directory to take its sources anew.",
        )

    def write(self, signature: dict[str, Any], slots: int, shards: int) -> None:
        """Note what the storage is made for."""
        self._signature, self.slots, self.shards = signature, slots, shards
        saved = {"slots": slots, "shards": shards, "signature": signature}
        write_file(self._file, json.dumps(saved).encode())


def _failure(name: str, said: Mapping[str, str]) -> ViewmillError:
    kind = getattr(errors, name, errors.EvaluationFailed)
    made: ViewmillError = kind(said["message"], detail=said["detail"], hint=said["hint"])
    return made
