"""The pipeline: Spark reads the sources, a mill in this process keeps the views, sinks show them.

takes  Spark DataFrames, SQL, and where views should go
does   one streaming query over all sources; each batch is one commit of the mill, taken once
"""

from __future__ import annotations

import os
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

import pyarrow as pa

from viewmill.algebra.names import folder_name
from viewmill.errors import (
    DamagedFile,
    ForbiddenChange,
    InvalidArgument,
    SourceBroken,
    UnsupportedQuery,
    ViewmillError,
    nearest,
)
from viewmill.mill.changes import Change
from viewmill.mill.expect import memory_bytes
from viewmill.mill.mill import Mill
from viewmill.mill.readers import Result
from viewmill.mill.servers import PIPELINE_CONSOLE, server
from viewmill.mill.storage.crash_points import reach
from viewmill.mill.verify import Difference
from viewmill.pipeline.dead_letters import Letter
from viewmill.pipeline.definitions import definition_number, drop_others, names_below
from viewmill.pipeline.followed import Followed, flush_quietly
from viewmill.pipeline.lost_files import lost_files
from viewmill.pipeline.placement import Arrived, InDriver, Placement
from viewmill.pipeline.progress import Progress, prometheus_text
from viewmill.pipeline.query import PipelineQuery
from viewmill.pipeline.replay_letters import Replayed, letter_id, replay, waiting_letters
from viewmill.pipeline.root_cause import root_cause
from viewmill.pipeline.shards.views import reshape
from viewmill.pipeline.sinks.catalog_table import CatalogTable
from viewmill.pipeline.sinks.make import Format, Mode, make_sink
from viewmill.pipeline.sinks.memory import changes_of
from viewmill.pipeline.sinks.sink import Sink
from viewmill.pipeline.sinks.up_to_date import UpToDateSinks
from viewmill.pipeline.source import Source
from viewmill.pipeline.storage import Storage, is_remote, local_path
from viewmill.pipeline.take_batch import Ledger, take_batch
from viewmill.pipeline.tombstones import create_tombstones
from viewmill.pipeline.view import PipelineView
from viewmill.sinks.sink import Sink as Target
from viewmill.sources.source import Source as Feed

_LISTENER = "viewmill.pipeline.listener:PipelineListener"  # a subclass of Spark's, so by name
_SHARDS = "viewmill.pipeline.shards.placement:InShards"  # which knows kernels

Definition = TypeVar("Definition", bound=Callable[[], str])

PLACEMENTS = ("driver", "shards")
ENGINES = ("duckdb", "spark")
_MOST_SHARDS = 512
# How Spark's sources say that something is gone: files, offsets of Kafka, versions of a table.
_LOST = re.compile(
    r"FILE_NOT_EXIST|FileNotFoundException|Path does not exist|failOnDataLoss|OffsetOutOfRange"
    r"|data may have been lost|no longer available"
)

# How Spark says that its own files in the checkpoint are gone or cut off.
_DAMAGED = re.compile(
    r"Failed to read log file|Incomplete log file|MISSING_STATE_DIRECTORY|CANNOT_LOAD_STATE_STORE"
)


class Pipeline:
    """Sources, views and sinks over a storage directory, which remembers everything in between."""

    def __init__(
        self,
        spark: Any,
        storage: str | os.PathLike[str],
        *,
        placement: str = "driver",
        shards: int | None = None,
        engine: str = "duckdb",
        memory: str | int | None = None,
        archive: bool | None = None,
    ) -> None:
        if placement not in PLACEMENTS or engine not in ENGINES:
            known = f"placement: {', '.join(PLACEMENTS)}; engine: {', '.join(ENGINES)}"
            raise InvalidArgument(f"no placement {placement!r} with engine {engine!r}", hint=known)
        _check_shards(placement, shards)
        if archive and placement != "shards":
            raise InvalidArgument(
                "archive=True is for placement='shards'",
                hint="In the driver, the mill keeps the rows of all sources anyway.",
            )
        if placement == "shards":
            _refuse_connect(spark)
        budget = None if memory is None else memory_bytes(memory)
        if budget is not None and placement == "shards":
            budget //= 2  # half is for what shards keep, half for what the driver makes of it
        self._spark = spark
        self._storage = Storage.open(storage, placement)
        self._mill = Mill(
            self._storage.mill,
            spark=spark if engine == "spark" else None,
            reshape=reshape if placement == "shards" else None,
            memory=budget,
        )
        self._placement: Placement = InDriver(spark)
        if placement == "shards":
            count = shards or int(spark.sparkContext.defaultParallelism)
            made = pkgutil.resolve_name(_SHARDS)
            try:
                self._placement = made(spark, self._storage, count, budget, archive)
            except ViewmillError:
                self._mill.close()
                raise
        self._committed = self._storage.committed(self._mill.version)  # what sinks have prepared
        self._ledger = Ledger(self._mill)
        self._sources: dict[str, Source] = {}
        self._streams: list[Source] = []
        self._views: list[str] = []
        self._sinks: list[tuple[str, Sink]] = []
        self._shown_sinks: list[dict[str, Any]] = []
        self._outgrown: set[str] = set()  # batch sources that have other rows than were taken
        self._paths: dict[Path, str] = {}  # of sinks, with their views
        self._in_memory: dict[str, str] = {}  # temporary views of sinks, with their views
        self._outboxes: list[Path] = []  # of functions
        self._recomputed: dict[str, Change] = {}  # changes that came without a batch, by view
        self._query: PipelineQuery | None = None
        self._progress = Progress()
        self._followed = Followed(self._mill, self._publish)
        self._targets: list[tuple[str, Target]] = []  # of vm.sinks, with their views
        self._mill.before_commit(self._prepare)
        self._mill.core.catalog.bring_in = self._bring_in

    # Declaring.

    def source(
        self,
        name: str,
        frame: Any,
        *,
        change: str | None = None,
        multiplicity: str | None = None,
        timestamp: str | None = None,
        key: str | Sequence[str] = (),
        order: str | None = None,
        checked: bool = False,
        schema: str | None = None,
        options: str = "",
    ) -> Pipeline:
        """Rows of a streaming or batch DataFrame change the table `name`; see `Source`.

        Or the table follows one of `vm.sources`, which this process reads: as `mill.follow` does.
        """
        self._require_idle()
        keys = (key,) if isinstance(key, str) else tuple(key)
        if isinstance(frame, Feed):
            if change or multiplicity or timestamp or order or checked or schema:
                raise InvalidArgument(
                    f'source "{name}" is {frame.title}, which takes key= and options= only',
                    hint='options="TIMESTAMP BY ts" and others of CREATE TABLE.',
                )
            return self._follow(name, frame, keys, options)
        made = Source(
            name, frame, change, multiplicity, timestamp, keys, order, checked, schema, options
        )
        self._require_new(name)
        if made.is_streaming and _is_connect(self._spark):
            raise UnsupportedQuery(
                f'source "{name}" is a stream of Spark Connect, whose batches come to the server',
                detail="The pipeline takes batches by foreachBatch, in the process of the mill.",
                hint="Use vm.spark.session(master=...); over Spark Connect, batch DataFrames are"
                " sources.",
            )
        if self._placement.reads_as_stream(made):
            self._storage.require_stream(name)
        self._storage.note_committed(self._committed)
        statement, before = made.create_statement(), self._mill.definition(name)
        if before is None:
            self._mill.sql(statement)
        elif before != statement:
            raise ForbiddenChange(
                f'source "{name}" is declared otherwise than when the storage was made',
                detail=f"It was: {before}\n  It is:  {statement}",
                hint="Give the pipeline another storage directory to take the source anew.",
            )
        create_tombstones(self._mill, made)
        self._sources[name] = made
        return self

    def _require_new(self, name: str) -> None:
        if name.lower() in {each.lower() for each in self._sources} or self._followed.has(name):
            raise InvalidArgument(f'there is a source "{name}" already')

    def _follow(self, name: str, feed: Feed, key: tuple[str, ...], options: str) -> Pipeline:
        if not isinstance(self._placement, InDriver):
            raise UnsupportedQuery(
                f"{feed.title} is read by the driver, and this pipeline has its tables in shards",
                hint='placement="driver", or a DataFrame of Spark\'s connector.',
            )
        self._require_new(name)
        self._storage.note_committed(self._committed)
        self._followed.add(name, feed, key, options)
        return self

    def view(self, name: str, sql: str, *, clauses: str = "") -> Pipeline:
        """A view over sources and earlier views: a SELECT, or a whole CREATE MATERIALIZED VIEW.

        `clauses` come before AS, for example REFRESH POLICY INCREMENTAL STRICT. A view that is
        defined otherwise than before is built anew, with those that read it.
        """
        self._require_idle()
        if name.lower() in {each.lower() for each in self._views}:
            raise InvalidArgument(f'there is a view "{name}" already')
        self._storage.note_committed(self._committed)
        self._placement.define(self._mill, name, sql, clauses, self._sources)
        if name.lower() in {each.lower() for each in self._mill.views()}:
            self._views.append(name)  # else it is a plain view, which is only a name
        return self

    @overload
    def materialized_view(self, name: Definition, /) -> Definition: ...

    @overload
    def materialized_view(
        self, name: str | None = None, *, clauses: str = ""
    ) -> Callable[[Definition], Definition]: ...

    def materialized_view(
        self, name: Definition | str | None = None, *, clauses: str = ""
    ) -> Definition | Callable[[Definition], Definition]:
        """Decorate a function that gives the SQL of a view; its name is the view's, or `name`."""
        if callable(name):  # without parentheses
            return self.materialized_view()(name)
        if name is not None and not isinstance(name, str):
            raise InvalidArgument(f"a view is called by a name, not by {name!r}")
        called: str | None = name

        def declare(fn: Definition) -> Definition:
            sql = fn()
            if not isinstance(sql, str):
                raise InvalidArgument(
                    f"{fn.__name__} gives {type(sql).__name__}, not the SQL of a view"
                )
            self.view(called or fn.__name__, sql, clauses=clauses)
            return fn

        return declare

    def sink(
        self,
        view: str,
        target: Callable[[Change], object] | Target | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        format: Format = "parquet",
        mode: Mode = "table",
        keep_hours: int | None = 168,
        table: str | None = None,
    ) -> Pipeline:
        """Where a view goes: a directory (`mode` table or changes), or a function of a change.

        A Delta table keeps older versions for `keep_hours`, a week; None keeps them for ever.
        Or `table`, a name in Spark's catalog ("catalog.schema.v"), which is written with `format`.
        With format="memory", a temporary view of the session: of the view's name, or NAME_changes.
        Or one of `vm.sinks`, which a thread of this process writes from the next start on.
        """
        self._require_idle()
        if view.lower() not in {name.lower() for name in self._views}:
            raise InvalidArgument(f'no view "{view}"', hint=nearest(view, self._views))
        form = self._mill[view].status()["result"]
        if form != "listed":
            raise InvalidArgument(
                f'view "{view}" is {form} and does not list its changes, so it has no sink',
                hint="Keep it with RESULT LISTED.",
            )
        name = self._mill[view].name
        if isinstance(target, Target):
            if path is not None or table is not None or (format, mode) != ("parquet", "table"):
                raise InvalidArgument("a sink of vm.sinks has no path=, table=, format= and mode=")
            self._targets.append((name, target))
            return self
        if path is not None and not (format == "parquet" and is_remote(path)):
            path = local_path(path)
        place = None if path is None else Path(os.fspath(path))
        outbox = self._outbox(name, place)
        made: Sink
        if table is not None:
            if target is not None or path is not None or mode != "table":
                raise InvalidArgument(
                    f'the sink of "{view}" is the table {table}, so it has no path, no function and'
                    " no other mode"
                )
            made = CatalogTable(self._spark, table, format)
        else:
            made = make_sink(self._spark, name, target, path, format, mode, keep_hours, outbox)
        shown_as = name if mode == "table" else changes_of(name)
        if place is not None:
            self._require_apart(name, place.resolve())
        elif target is None:
            shown_as = shown_as if table is None else f"table {table}"
            self._require_free(name, shown_as)
        made.open(self._mill[view], self._storage.id)
        self._sinks.append((name, made))
        shown = _shown_sink(path, table, target, shown_as, format)
        self._shown_sinks.append({"view": name, "sink": shown})
        if place is not None:
            self._paths[place.resolve()] = name
        elif target is None:
            self._in_memory[shown_as.lower()] = name
        else:
            self._outboxes.append(outbox)
        return self

    def _outbox(self, view: str, path: Path | None) -> Path:
        """Where changes wait; the same at each start, whatever other sinks the view has."""
        root, stem = self._storage.outbox, folder_name(view.lower())
        if path is not None:
            digest = blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()
            return root / f"{stem}-{digest}"
        numbered = (root / f"{stem}-{number}" for number in count())
        return next(each for each in numbered if each not in self._outboxes)

    def _require_apart(self, view: str, path: Path) -> None:
        """Two sinks in one place would replace each other's rows, or show them as their own."""
        taken = {**self._paths, self._storage.root.resolve(): None}
        for other, whose in taken.items():
            if path == other or path in other.parents or other in path.parents:
                what = "the pipeline's storage" if whose is None else f'the sink of "{whose}"'
                raise InvalidArgument(
                    f'the sink of "{view}" is in the place of {what}',
                    detail=f"{path} and {other} are the same directory, or one is in the other.",
                    hint="Give every sink a directory of its own.",
                )

    def _require_free(self, view: str, shown_as: str) -> None:
        """Two views under one temporary name would replace each other's rows."""
        whose = self._in_memory.get(shown_as.lower(), view)
        if whose != view:
            raise InvalidArgument(
                f'the sink of "{view}" is in the place of the sink of "{whose}"',
                detail=f'Both would be the temporary view "{shown_as}" of the session.',
                hint="Rename a view, or leave out one of the sinks.",
            )

    def _bring_in(self, name: str, own: str) -> str | None:
        try:
            is_known = self._spark.catalog.tableExists(name)
        except Exception:  # noqa: BLE001 (a name that no catalog could have)
            return None
        if not is_known:
            return None
        return f'It is in Spark\'s catalog: pipe.source("{own}", spark.table("{name}")).'

    # Running.

    def run_once(self) -> PipelineQuery:
        """Take everything that is there now, then return."""
        query = self._start({"availableNow": True})
        query.await_termination()
        self._mill.flush()
        return query

    def start(self, trigger: str | None = None) -> PipelineQuery:
        """Take rows as they come: every `trigger` ("10 seconds"), or as fast as can be."""
        if trigger is not None:
            _check_trigger(self._spark, trigger)
        return self._start({} if trigger is None else {"processingTime": trigger})

    def _start(self, trigger: dict[str, Any]) -> PipelineQuery:
        self._require_idle()
        self._ledger = Ledger(self._mill)  # what is durable counts, not what the last run believed
        up_to_date = UpToDateSinks(self._mill)
        # First everything that may refuse the start, then everything that changes something.
        self._check_checkpoint()
        streams = {each.name: each for each in self._placement.streaming([*self._sources.values()])}
        self._streams = [streams[name] for name in self._storage.in_order([*streams])]
        self._placement.check(self._mill, self._streams)
        self._check_sinks(up_to_date)
        self._storage.keep_order([*streams])
        self._placement.prepare()
        drop_others(self._mill, self._views)
        self._placement.forget_others(self._mill)
        self._recover(up_to_date)
        self._progress.recoveries += self._storage.has_batches()
        self._load_batches()
        self._open_targets()
        query = PipelineQuery(self, self._followed)
        if self._followed:
            self._query = query
            query.follow(is_once="availableNow" in trigger)
        if self._streams:
            with self._placement.settings():
                writer = self._placement.frame(self._streams).writeStream.outputMode("update")
                writer = writer.option("checkpointLocation", str(self._storage.checkpoint))
                writer = writer.trigger(**trigger) if trigger else writer
                self._query = query
                query.begin(writer)
        return query

    def _open_targets(self) -> None:
        """Begin to write the sinks of `vm.sinks`; later starts find them open."""
        for number, (view, target) in enumerate(self._targets):
            called = f"{view} {number}"
            if called not in self._mill.status()["sinks"]:
                self._mill.sink(view, target, name=called)

    def _check_checkpoint(self) -> None:
        """The mill and Spark's checkpoint must be of one life."""
        query = self._storage.query_id()
        name = "" if query is None else f"query {query}"
        if self._ledger.others(name):
            raise SourceBroken(
                f"the checkpoint in {self._storage.root} is not the one that the mill was fed from",
                detail="Spark would read its sources from the start, and rows would come twice.",
                hint="Bring the checkpoint back, or give an empty storage directory.",
            )
        if query is not None and self._ledger.last(name) < 0 and self._storage.has_batches():
            raise SourceBroken(
                f"the mill in {self._storage.root} has not seen the batches that Spark has done",
                detail="It was removed or replaced; Spark would not send them again.",
                hint="Bring the mill back, or give an empty storage directory.",
            )
        if (batch := self._storage.batch_without_offsets()) is not None:
            raise _damaged_checkpoint(
                self._storage.checkpoint, f"Batch {batch} is noted as done, and has no offsets."
            )
        lost = lost_files(self._storage.checkpoint)
        if lost:
            raise _lost_data(f"{len(lost)} files of the next batch are gone: {', '.join(lost[:3])}")

    def _check_sinks(self, up_to_date: UpToDateSinks) -> None:
        for name, sink in self._sinks:
            sink.check(self._mill[name], has_all=self._has_all(up_to_date, name, sink))

    def _has_all(self, up_to_date: UpToDateSinks, view: str, sink: Sink) -> bool:
        if sink.name is None:
            return False
        if up_to_date.has_all(sink.name, self._created(view)):
            return True
        number = definition_number(self._mill, view)
        return not sink.can_catch_up and up_to_date.is_defined_as(sink.name, number)

    def _created(self, view: str) -> int:
        return self._mill.core.catalog.view(view).created

    def _recover(self, up_to_date: UpToDateSinks) -> None:
        """Sinks catch up; then all of them are noted, and the new ones begin."""
        for name, sink in self._sinks:
            has_all = self._has_all(up_to_date, name, sink)
            sink.recover(self._committed, self._mill[name], has_all=has_all)
        named = {sink.name: self._created(name) for name, sink in self._sinks if sink.name}
        numbers = {
            sink.name: definition_number(self._mill, name)
            for name, sink in self._sinks
            if sink.name
        }
        up_to_date.note(named, numbers)
        self._storage.forget_committed()
        self._committed = self._mill.version
        for name, sink in self._sinks:
            sink.begin(self._mill.version, self._mill[name])

    def _load_batches(self) -> None:
        """Batch sources are taken before the first streaming batch; the ledger says what of them.

        One that has other rows at a later start is taken again: what is new comes, what is gone
        goes. Where that cannot be done the views that read it are stale.
        """
        self._outgrown.clear()
        streams = {each.name for each in self._streams}
        for source in self._sources.values():
            if source.is_streaming:
                continue
            name, rows_noted = f"source {source.name}", f"rows of {source.name}"
            last, before, now = (
                self._ledger.last(name), self._ledger.last(rows_noted), source.fingerprint()
            )  # fmt: skip
            if source.name in streams:  # written down once, and read from there
                self._note_written(rows_noted, source, before, now)
            elif last < 0 or (before != now and source.sign is None and not source.key):
                rows = source.selected().toArrow()
                arrived = Arrived({source.name: rows}, counts={source.name: rows.num_rows})
                arrived.notes[rows_noted] = now
                arrived.whole = frozenset([source.name] if last >= 0 else [])
                self._take(name, last + 1, [source], arrived, time.perf_counter())
            elif before not in (-1, now):
                self._outgrown.add(source.name.lower())

        self._mark_outdated()

    def _mark_outdated(self) -> None:
        """A view that reads a batch source which has other rows by now is stale, and says so."""
        for name in self._views:
            missed = sorted(self._outgrown & names_below(self._mill, name))
            why = f"batch sources have other rows than were taken: {', '.join(missed)}"
            self._mill.core.catalog.view(name).outdated = why if missed else None

    def _note_written(self, name: str, source: Source, before: int, now: int) -> None:
        if before == -1:
            with self._mill.batch():
                self._ledger.note(name, now)
            self._ledger.keep(name, now)
        elif before != now:
            self._outgrown.add(source.name.lower())

    def take(self, frame: Any, batch: int) -> None:
        """Take a batch of the streaming query."""
        start = time.perf_counter()
        arrived = self._placement.arrived(frame.toArrow(), self._streams)
        reach("batch read")
        with self._followed.turn:
            self._take(f"query {self._storage.query_id()}", batch, self._streams, arrived, start)

    def _take(
        self, name: str, batch: int, sources: list[Source], arrived: Arrived, start: float
    ) -> None:
        taken = take_batch(self._mill, self._ledger, name, batch, sources, arrived)
        reach("batch taken")
        self._publish()
        counts = {} if taken.repeated else arrived.counts
        self._progress.note(batch, counts, taken.letters, time.perf_counter() - start)

    def _prepare(self, version: int, changes: Any) -> None:
        for name, sink in self._sinks:
            sink.prepare(version, changes.get(name, self._recomputed.get(name)))
            reach("change prepared")

    def _publish(self) -> None:
        self._committed = self._mill.version
        for name, sink in self._sinks:
            sink.publish(self._mill.version, self._mill[name])
            reach("sink published")

    def recompute(self, view: str) -> None:
        """Compute a view again from the tables that the driver keeps, and show it."""
        self._require_idle()
        up_to_date = UpToDateSinks(self._mill)
        self._check_sinks(up_to_date)
        self._recover(up_to_date)
        stops = [self._mill[name].subscribe(self._note_recomputed) for name, _ in self._sinks]
        try:
            self._mill[view].refresh(full=True)
            for stop in stops:
                stop()
            if self._recomputed:  # sinks are told of changes by versions
                with self._mill.batch():
                    self._ledger.note(f"recomputed {view}", self._mill.version)
        finally:
            self._recomputed.clear()
        self._publish()

    def _note_recomputed(self, change: Change) -> None:
        self._recomputed[change.view] = change

    def is_noted(self) -> bool:
        """Whether Spark's checkpoint says that the batch that was taken last is done."""
        taken = self._ledger.last(f"query {self._storage.query_id()}")
        return self._storage.last_batch() >= taken

    def ended(self, query: PipelineQuery) -> None:
        """The query takes no more batches."""
        if self._query is query:
            self._followed.stop()
            flush_quietly(self._mill)
            self._query, self._committed = None, self._mill.version

    def failure_of(self, why: BaseException) -> ViewmillError:
        """What Spark said when the stream failed for a reason of its own."""
        lost = next((line.strip() for line in str(why).splitlines() if _LOST.search(line)), None)
        if lost is None and _DAMAGED.search(str(why)):
            return _damaged_checkpoint(self._storage.checkpoint, root_cause(why))
        if lost is None:
            return SourceBroken(
                "the stream failed", detail=root_cause(why), hint="start() goes on from storage."
            )
        return _lost_data(lost)

    # Looking.

    def __getitem__(self, name: str) -> PipelineView:
        return PipelineView(self._mill[name], self._spark, self._placement.distributed)

    @property
    def mill(self) -> Mill:
        """The mill behind the pipeline; change its tables only through sources."""
        return self._mill

    def verify(self, view: str) -> list[Difference]:
        """Every difference between a view and recompute, and in shards between it and their states.

        While no query runs. In shards the driver's part is computed again from what they gave, and
        that is compared with what their states in Spark's state store say, and with an archive
        also with what the rows in it say.
        """
        self._require_idle()
        return self._mill[view].verify() + self._placement.verify(self._mill, view)

    def dead_letters(self) -> Result:
        """The rows that were refused and not replayed: source, batch, reason, row."""
        columns = [*zip(*waiting_letters(self._mill), strict=True)] or [()] * 4
        types = [pa.string(), pa.int64(), pa.string(), pa.string()]
        arrays = [pa.array(each, of) for each, of in zip(columns, types, strict=True)]
        return Result(pa.table(arrays, names=["source", "batch", "reason", "row"]))

    def replay_letters(
        self,
        repair: Callable[[Letter], Any] | None = None,
        *,
        rows: Iterable[tuple[str, Any]] | None = None,
    ) -> Replayed:
        """Take refused rows again; those that fit now are taken, the others wait on.

        `repair` gives the row (a dict, or JSON) for a letter, None to let it wait; without it they
        are taken as they came. Or `rows`: the ids of letters, and a row for each.
        """
        self._require_idle()
        if not isinstance(self._placement, InDriver):
            raise UnsupportedQuery("dead letters are replayed with placement driver only")
        if rows is None:
            mend = repair or (lambda letter: letter.row)
            found = [(letter_id(each), mend(each)) for each in waiting_letters(self._mill)]
            rows = [each for each in found if each[1] is not None]
        up_to_date = UpToDateSinks(self._mill)
        self._check_sinks(up_to_date)
        self._recover(up_to_date)
        self._open_targets()
        try:
            return replay(self._mill, self._sources, rows)
        finally:
            self._publish()
            self._mill.flush()

    def status(self) -> dict[str, Any]:
        """Batches, rows, dead letters, times, and the status of every view."""
        views = {name: self._mill[name].status() for name in self._views}
        told = {**self._progress.summary(), **self._placement.status(self._mill)}
        found = self._mill.status()
        told |= {each: found[each] for each in ("sources", "sinks")}
        return {**told, "version": self._mill.version, "views": views}

    def batches(self) -> list[dict[str, Any]]:
        """The last batches: number, when, rows in, rows refused, milliseconds."""
        return self._progress.latest()

    def sinks(self) -> list[dict[str, Any]]:
        """What is written: the view, where it goes, and how far that is."""
        is_running = self._query is not None and self._query.is_active
        facts = {"state": "writing" if is_running else "stopped", "version": self._committed}
        own = [{**facts, "error": None, **each} for each in self._shown_sinks]
        return [*own, *self._mill.sinks().values()]

    def console(self, *, port: int = 0) -> Any:
        """Show this pipeline in the browser: a server on loopback, in a thread of its own.

        It only reads. Open the `url` of what this gives; its `stop()`, or closing the pipeline,
        ends it. Needs the extra `console`.
        """
        return server(PIPELINE_CONSOLE, "console")(self, port=port)

    def listen(self, fn: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Call `fn` after each batch with Spark's progress and the status of every view.

        It runs in Spark's listener thread, some time after the batch; gives a function to stop.
        """
        made = pkgutil.resolve_name(_LISTENER)(self._storage.query_id, self.status, fn)
        self._spark.streams.addListener(made)
        return lambda: self._spark.streams.removeListener(made)

    def prometheus(self) -> str:
        """The status in Prometheus' text format."""
        return prometheus_text(self.status())

    # Living and dying.

    def _require_idle(self) -> None:
        if self._query is None:
            return
        if self._query.is_active:
            raise InvalidArgument("the pipeline is running", hint="Stop its query first.")
        self.ended(self._query)  # it failed, and nobody asked

    def close(self) -> None:
        """Stop what runs and leave the storage to others."""
        if self._query is not None:
            with suppress(ViewmillError):
                self._query.stop()
        self._mill.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _shown_sink(path: Any, table: str | None, target: Any, shown_as: str, format: str) -> str:
    """A sink in words."""
    if path is not None:
        return f"{format} in {os.fspath(path)}"
    if table is not None:
        return f"table {table}"
    return f"temporary view {shown_as}" if target is None else "a function"


def _lost_data(detail: str) -> SourceBroken:
    return SourceBroken(
        "a source lost data that it had announced",
        detail=detail,
        hint="Bring it back and start again; without it, another storage directory takes what"
        " the source still has.",
    )


def _check_trigger(spark: Any, trigger: str) -> None:
    """Ask Spark before anything is done, and also when no source is a stream."""
    try:
        spark.readStream.format("rate").load().writeStream.trigger(processingTime=trigger)
    except Exception as why:  # Spark's own, which is another class in every version
        raise InvalidArgument(
            f"trigger={trigger!r} is no interval",
            detail=str(why).splitlines()[0],
            hint='For example trigger="10 seconds".',
        ) from why


def _damaged_checkpoint(checkpoint: Path, why: str) -> DamagedFile:
    return DamagedFile(
        f"Spark's checkpoint in {checkpoint} is damaged",
        detail=why,
        hint="Bring the storage back from a copy, or give an empty storage directory.",
    )


def _check_shards(placement: str, shards: int | None) -> None:
    if shards is None:
        return
    if placement != "shards":
        raise InvalidArgument(
            f"shards={shards} with placement={placement!r}", hint='Say placement="shards".'
        )
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= _MOST_SHARDS:
        raise InvalidArgument(f"shards={shards!r}", hint=f"A number from 1 to {_MOST_SHARDS}.")


def _refuse_connect(spark: Any) -> None:
    """Shards keep state through Spark's own worker protocol, which a Connect client lacks."""
    if _is_connect(spark):
        raise UnsupportedQuery(
            "placement shards needs a classic Spark session, got one of Spark Connect",
            hint='Use vm.spark.session(master=...), or placement="driver".',
        )


def _is_connect(spark: Any) -> bool:
    return ".connect." in type(spark).__module__
