"""The runtime that runs all blocks in this process, in dependency order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter_ns, process_time_ns

from viewmill.deltas.consolidate import consolidate
from viewmill.deltas.delta import Delta, concat
from viewmill.deltas.product import Changed, parts_of
from viewmill.errors import ViewmillError
from viewmill.program.program import Maintainer, Triggers
from viewmill.runtime.runtime import Block, Family

Rebuild = Callable[[], list[Maintainer]]
_SingleInputRoute = list[tuple[Block, str, str]]  # blocks, each with its changed input and source

_TIMED_ROWS = 1000  # the time of smaller batches is mostly call overhead
_TIMED_ALWAYS = 10_000  # rows
_TIMED_FIRST = 8  # so many batches of medium size are timed
_TIMED_EVERY = 32  # then one in so many
_MAX_CACHED_ROUTES = 1000
_WEIGHT = 0.3  # of the last refresh in the moving average of a view's pace


class InProcessRuntime:
    """Applies deltas to the maintainers of blocks, in dependency order."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._moving: set[str] = set()  # blocks of temporal views: new parts without changed rows
        self._touched: list[Block] = []
        self._touched_families: list[Family] = []
        self._outputs: dict[str, Delta] = {}
        self._paces: dict[str, float] = {}
        self._watched: dict[str, float] = {}  # CPU microseconds of the last refresh, by view
        self._replacing: dict[str, list[tuple[Block, Maintainer]]] = {}
        self._reads: dict[str, list[tuple[str, str]]] = {}  # input and source, by block
        self._showing: dict[str, Block] = {}  # by view
        self._members: dict[str, Block] = {}  # blocks that are members of a family, by name
        self._joined: dict[str, list[tuple[Block, Family]]] = {}  # such blocks by view
        self._families: dict[int, Family] = {}
        # A cache: the blocks that a change of these sources may reach, with their inputs.
        self._routes: dict[tuple[str, ...], list[tuple[Block, list[tuple[str, str]]]]] = {}
        self._single_input_routes: dict[str, _SingleInputRoute | None] = {}  # by table
        self._rows_only: dict[str, bool] = {}  # by table: see `reads_rows_only`
        self._empty_deltas: dict[str, Delta] = {}  # by view
        self._timed = 0  # refreshes so far that were large enough to be timed

    def add(self, block: Block) -> None:
        """Add a block whose sources are tables or blocks added before."""
        self._forget_routes()
        family: Family | None = block.maintainer.family
        if family is not None:
            family.join(block.maintainer)
            self._families[id(family)] = family
            self._members[block.name] = block
            for view in block.views:
                self._joined.setdefault(view, []).append((block, family))
            self._showing.update(dict.fromkeys(block.shows, block))
            return
        self._blocks[block.name] = block
        self._showing.update(dict.fromkeys(block.shows, block))
        self._reads[block.name] = [
            (each.name, block.renamed.get(each.source, each.source))
            for each in block.program.inputs
        ]
        self._moving.discard(block.name)
        if block.maintainer.kept_parts is not None:
            self._moving.add(block.name)

    def remove(self, view: str) -> None:
        """Remove a view, and the blocks that no other view uses."""
        self._leave_families(view)
        self._forget_routes()
        for block in self._blocks.values():
            block.views.discard(view)
            block.shows.discard(view)
        self._blocks = {name: block for name, block in self._blocks.items() if block.views}
        self._showing.pop(view, None)
        self._paces.pop(view, None)
        self._empty_deltas.pop(view, None)
        self._watched.pop(view, None)
        if view in self._blocks:
            self._rename(view)

    def _leave_families(self, view: str) -> None:
        for block, family in self._joined.pop(view, ()):
            del self._members[block.name]
            family.leave(block.maintainer)
            if not family.names:
                self._families.pop(id(family), None)

    def find_families(self) -> None:
        """Find the families again after windows got new maintainers."""
        self._families, self._joined = {}, {}
        for block in self._members.values():
            family: Family = block.maintainer.family
            self._families[id(family)] = family
            for view in block.views:
                self._joined.setdefault(view, []).append((block, family))

    @property
    def has_families(self) -> bool:
        """Whether there are families of windows."""
        return bool(self._families)

    def families(self, source: str) -> list[Family]:
        """The families of windows over a table."""
        return [each for each in self._families.values() if each.source == source]

    def _rename(self, old: str) -> None:
        """Rename a shared block that outlives the view it is named after, to free the name."""
        new, count = f"{old}~", 2
        while new in self._blocks:
            new, count = f"{old}~{count}", count + 1
        self._blocks = {new if name == old else name: b for name, b in self._blocks.items()}
        self._blocks[new].name = new
        self._reads[new] = self._reads.pop(old)
        if old in self._moving:
            self._moving.remove(old)
            self._moving.add(new)
        for name, block in self._blocks.items():
            reads = zip(block.program.inputs, self._reads[name], strict=True)
            # A block whose program names the source itself reads the view, not this block.
            moved = {i.source: new for i, (_, source) in reads if source == old != i.source}
            block.renamed |= moved
            self._reads[name] = [
                (each.name, moved.get(each.source, source))
                for each, (_, source) in zip(block.program.inputs, self._reads[name], strict=True)
            ]

    def arrange(self, views: Iterable[str]) -> None:
        """Sort the blocks by this order of their views; blocks of one view keep their order."""
        place = {view: i for i, view in enumerate(views)}
        blocks = self._blocks.values()
        first = sorted(blocks, key=lambda block: min(place[view] for view in block.views))
        self._blocks = {block.name: block for block in first}
        self._forget_routes()

    def applied_last(self) -> set[str]:
        """The views of the block that the current refresh touched last."""
        return self._touched[-1].views if self._touched else set()

    def pending(self, name: str) -> Delta | None:
        """The uncommitted output delta of a block, if it was refreshed."""
        return self._outputs.get(name)

    def pace(self, view: str) -> float | None:
        """The recent cost of a changed row in the blocks of a view, in microseconds, if known."""
        return self._paces.get(view)

    def watch(self, view: str) -> None:
        """Measure the CPU time of a view at every refresh, for `spent`."""
        self._watched[view] = 0.0

    def spent(self, view: str) -> float:
        """CPU microseconds in the blocks of a watched view since the last call."""
        found = self._watched.get(view, 0.0)
        if found:
            self._watched[view] = 0.0
        return found

    def rebuilt(self) -> Iterable[str]:
        """The views with new maintainers since the last commit."""
        return self._replacing.keys()

    def refresh(
        self,
        deltas: Mapping[str, Changed],
        among: set[str],
        rebuilds: Mapping[str, Rebuild] | None = None,
    ) -> dict[str, Delta]:
        """Apply deltas to the blocks of `among`; the output delta of a block feeds the next."""
        if len(deltas) == 1 and not rebuilds:
            for source, change in deltas.items():
                if isinstance(change, Delta):
                    return self.refresh_rows(source, change, among)
        refresh = _Refresh(dict(deltas), dict(rebuilds or {}))
        refresh.is_timed = self._is_timed(sum(each.size for each in deltas.values()))
        return self._refresh(refresh, among)

    def _refresh(self, refresh: _Refresh, among: set[str]) -> dict[str, Delta]:
        changed, sources = refresh.changed, tuple(refresh.changed)
        for family in self._families.values():
            if family.source in changed and not family.names.isdisjoint(among):
                self._apply_family(family, refresh)
        for block, reads in self._route(sources):
            if block.views.isdisjoint(among):
                continue
            if refresh.rebuilds and self._is_rebuilt(block, refresh):
                continue
            arrived = [each for each in reads if each[1] in changed]
            if arrived:
                self._apply(block, arrived, refresh, among)
        if refresh.is_timed:
            self._note_paces(refresh)
        return self._with_unchanged_views(refresh.outputs, refresh.inner, among)

    def refresh_rows(self, table: str, delta: Delta, among: set[str]) -> dict[str, Delta]:
        """`refresh` with the delta of one table.

        The fast path requires that nothing is timed, no block is in parts or in a family, and every
        block on the route reads only one changed source.
        """
        try:
            route = self._single_input_routes[table]
        except KeyError:
            route = self._single_input_routes[table] = self._single_input_route(table)
        is_timed = delta.size >= _TIMED_ROWS and self._is_timed(delta.size)
        if is_timed or route is None or self._families or self._watched or self._moving:
            refresh = _Refresh({table: delta}, {})
            refresh.is_timed = is_timed
            return self._refresh(refresh, among)
        changed, outputs, inner = {table: delta}, {}, None
        for block, input_, source in route:
            if source not in changed or block.views.isdisjoint(among):
                continue
            self._touched.append(block)
            shows = block.shows
            output = block.maintainer.apply_and_flush(input_, changed[source], not shows)
            if output.size:
                changed[block.name] = output
            for view in shows:
                if view in among:
                    outputs[view] = self._outputs[view] = output
                if output.size:
                    changed[view] = output
            if len(shows) < len(block.views):
                inner = block.views if inner is None else inner | block.views
        if inner is None:
            return outputs
        return self._with_unchanged_views(outputs, inner, among)

    def _with_unchanged_views(
        self, outputs: dict[str, Delta], views: set[str], among: set[str]
    ) -> dict[str, Delta]:
        """Add an empty delta for each refreshed view whose rows did not change."""
        for view in views:
            if view not in outputs and view in among:
                outputs[view] = self._empty_delta_of(view)
        return outputs

    def _empty_delta_of(self, view: str) -> Delta:
        """The empty delta of a view, cached."""
        schema = self._showing[view].program.output
        found = self._empty_deltas.get(view)
        if found is None or found.schema is not schema:
            found = self._empty_deltas[view] = Delta.empty(schema)
        return found

    def _is_timed(self, size: int) -> bool:
        """Whether to time a refresh; the pace is an average, so a sample of batches will do."""
        if size < _TIMED_ROWS:
            return False
        self._timed = timed = self._timed + 1
        return timed < _TIMED_FIRST or timed % _TIMED_EVERY == 0 or size >= _TIMED_ALWAYS

    def reads_rows_only(self, table: str) -> bool:
        """Whether all blocks above a table are triggers, so that none runs a query."""
        found = self._rows_only.get(table)
        if found is None:
            blocks = [block for block, _ in self._route((table,))]
            found = all(isinstance(each.program.body, Triggers) for each in blocks)
            self._rows_only[table] = found
        return found

    def _single_input_route(self, table: str) -> _SingleInputRoute | None:
        """The route of one table if every block on it reads one changed source, else None."""
        route = self._route((table,))
        if any(len(reads) > 1 for _, reads in route):
            return None
        return [(block, *reads[0]) for block, reads in route]

    def _route(self, sources: tuple[str, ...]) -> list[tuple[Block, list[tuple[str, str]]]]:
        """The blocks that a change of the sources may reach, in order, with their inputs."""
        found = self._routes.get(sources)
        if found is not None:
            return found
        if len(self._routes) >= _MAX_CACHED_ROUTES:
            self._forget_routes()
        reached, route = {*sources, *self._members}, []
        for block in self._blocks.values():
            reads = [each for each in self._reads[block.name] if each[1] in reached]
            if reads:
                route.append((block, reads))
                reached |= {block.name, *block.shows}
        self._routes[sources] = route
        return route

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._single_input_routes.clear()
        self._rows_only.clear()

    def _apply_family(self, family: Family, refresh: _Refresh) -> None:
        """Apply a delta to the windows of a family, which read tables and so precede all blocks."""
        self._touched_families.append(family)
        for part in parts_of(refresh.changed[family.source]):
            family.apply(family.source, part)
        for name, output in family.flush().items():
            for view in self._members[name].shows:
                refresh.outputs[view] = self._outputs[view] = output
            if output.size:
                refresh.changed[name] = output

    def _apply(
        self, block: Block, arrived: list[tuple[str, str]], refresh: _Refresh, among: set[str]
    ) -> None:
        start = perf_counter_ns() if refresh.is_timed else 0
        watched = block.views & self._watched.keys() & among if self._watched else ()
        cpu = process_time_ns() if watched else 0
        changed, maintainer = refresh.changed, block.maintainer
        self._touched.append(block)
        for input_, source in arrived:
            change = changed[source]
            if isinstance(change, Delta):
                maintainer.apply(input_, change)
                continue
            for part in change.parts:
                maintainer.apply(input_, part)
        output, shows = maintainer.flush(), block.shows
        if refresh.is_timed:
            rows = sum(changed[source].size for _, source in arrived if "#" not in source)
            refresh.note(block.views & among, perf_counter_ns() - start, rows)
        for view in watched:
            self._watched[view] += (process_time_ns() - cpu) / 1e3
        if len(shows) < len(block.views):
            refresh.inner |= block.views
        for view in shows:
            if view in among:
                refresh.outputs[view] = self._outputs[view] = output
        if output.size or (
            self._moving and block.name in self._moving and block.maintainer.has_moved()
        ):
            changed[block.name] = output
            for view in shows:
                changed[view] = output

    def _is_rebuilt(self, block: Block, refresh: _Refresh) -> bool:
        """Whether the block's view is rebuilt; the first of its blocks on the route does it."""
        view = next(iter(block.views))
        if view not in refresh.rebuilds:
            return False
        if view not in self._replacing:
            try:
                self._rebuild(view, refresh.rebuilds[view](), refresh)
            except ViewmillError:
                del refresh.rebuilds[view]  # the triggers report the error with its row
                return False
        return True

    def _rebuild(self, view: str, made: list[Maintainer], refresh: _Refresh) -> None:
        """Take new maintainers; the output delta is their rows minus the old rows."""
        own = [each for each in self._blocks.values() if view in each.views]
        self._replacing[view] = list(zip(own, made, strict=True))
        schema = self._showing[view].program.output
        old = self._showing[view].maintainer.contents()
        output = consolidate(concat(schema, [made[-1].contents(), old.negated()]))
        refresh.outputs[view] = self._outputs[view] = output
        if output.size:
            refresh.changed[view] = output

    def _note_paces(self, refresh: _Refresh) -> None:
        for view, (spent, rows) in refresh.spent.items():
            if rows >= _TIMED_ROWS:
                pace = spent / rows / 1e3
                before = self._paces.get(view, pace)
                self._paces[view] = before + (pace - before) * _WEIGHT

    def commit(self) -> None:
        """Commit the applied deltas and swap in rebuilt maintainers."""
        for block in self._touched:
            block.maintainer.commit()
        for family in self._touched_families:
            family.commit()
        if self._replacing:
            for pairs in self._replacing.values():
                for block, maintainer in pairs:
                    block.maintainer = maintainer
        self._forget()

    def rollback(self) -> None:
        """Undo the applied deltas."""
        for block in self._touched:
            block.maintainer.rollback()
        for family in self._touched_families:
            family.rollback()
        self._forget()

    def _forget(self) -> None:
        self._touched.clear()
        self._outputs.clear()
        if self._touched_families:
            self._touched_families.clear()
        if self._replacing:
            self._replacing.clear()


class _Refresh:
    """A refresh in progress: the deltas so far, the outputs of views, and the time they took."""

    __slots__ = ("changed", "inner", "is_timed", "outputs", "rebuilds", "spent")

    def __init__(self, changed: dict[str, Changed], rebuilds: dict[str, Rebuild]) -> None:
        self.changed, self.rebuilds = changed, rebuilds
        self.outputs: dict[str, Delta] = {}
        self.inner: set[str] = set()  # views that use a refreshed block as an inner block
        self.spent: dict[str, tuple[int, int]] = {}  # nanoseconds and rows, by view
        self.is_timed = False

    def note(self, views: set[str], nanoseconds: int, rows: int) -> None:
        """Record the time of a block of these views, and the changed rows of tables it read."""
        for view in views:
            spent, seen = self.spent.get(view, (0, 0))
            self.spent[view] = (spent + nanoseconds, seen + rows)
