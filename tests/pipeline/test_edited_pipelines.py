"""A program that is edited between two runs neither loses rows nor takes them twice."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.frames import Frame
from tests.pipeline.harness import net_of_changes, shown_table

import viewmill as vm
from viewmill.errors import ForbiddenChange, InvalidArgument, WrongFormat
from viewmill.mill.storage import crash_points
from viewmill.pipeline.pipeline import Pipeline
from viewmill.pipeline.sinks.delta_lake import DeltaLake

SCHEMA = pa.schema({"k": pa.int64(), "x": pa.int64()})
SPENT = "SELECT k, sum(x) AS s FROM t GROUP BY k"


def rows(*pairs: tuple[int, int]) -> Any:
    return pa.table({"k": [k for k, _ in pairs], "x": [x for _, x in pairs]}, schema=SCHEMA)


def opened(root: Path | str, frame: Frame, views: dict[str, str] | None = None) -> Pipeline:
    storage = f"{root}/storage" if isinstance(root, str) else root / "storage"
    pipe: Pipeline = vm.Pipeline(None, storage=storage)
    pipe.source("t", frame, schema="k BIGINT, x BIGINT")
    for name, sql in (views or {"spent": SPENT}).items():
        pipe.view(name, sql)
    return pipe


def test_batch_source_with_other_rows_is_taken_again(tmp_path):
    frame = Frame(rows((1, 10), (1, 5), (2, 7)))
    with opened(tmp_path, frame) as pipe:
        pipe.run_once()
        assert sorted(pipe["spent"].rows()) == [(1, 15), (2, 7)]
        frame.table = rows((1, 10), (3, 1), (3, 1))
        pipe.run_once()
        assert sorted(pipe["spent"].rows()) == [(1, 10), (3, 2)]
        version = pipe.mill.version
        pipe.run_once()
        assert pipe.mill.version == version
    with opened(tmp_path, Frame(rows())) as pipe:
        pipe.run_once()
        assert pipe["spent"].rows() == []


def test_batch_source_that_cannot_be_taken_again_is_not_fresh(tmp_path):
    changes = pa.table({"k": [1], "x": [5], "op": ["insert"]})
    frame = Frame(changes)
    with vm.Pipeline(None, storage=tmp_path / "storage") as pipe:
        pipe.source("t", frame, change="op", schema="k BIGINT, x BIGINT")
        pipe.view("spent", SPENT)
        pipe.view("above", "SELECT count(*) AS n FROM spent")
        pipe.run_once()
        assert pipe.status()["views"]["above"]["freshness"] == "fresh"
        frame.table = pa.concat_tables([changes, changes])
        pipe.run_once()
        status = pipe.status()["views"]["above"]
        assert status["freshness"] == "stale"
        assert "other rows than were taken: t" in status["error"]
        assert pipe["above"].status()["freshness"] == "stale"  # whoever is asked


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_changes_that_a_sink_was_left_out_of_come_as_the_difference(tmp_path, format):
    frame, out = Frame(rows((1, 10))), tmp_path / "changes"
    for table, has_sink in (
        (rows((1, 10)), True),
        (rows((1, 10), (2, 1)), False),  # a run without the sink
        (rows((1, 11), (2, 1)), True),
        (rows((3, 3)), True),
    ):
        frame.table = table
        with opened(tmp_path, frame) as pipe:
            if has_sink:
                pipe.sink("spent", path=out, format=format, mode="changes")
            pipe.run_once()
            if has_sink:
                assert net(out, format) == Counter(pipe["spent"].rows())


def net(folder: Path, format: str) -> Counter[tuple[Any, ...]]:
    if format == "parquet":
        return net_of_changes(folder)
    deltalake = pytest.importorskip("deltalake")
    bag: Counter[tuple[Any, ...]] = Counter()
    for row in pa.table(deltalake.DeltaTable(folder).to_pyarrow_table()).to_pylist():
        word, _ = row.pop("_change_type"), row.pop("_commit_version")
        bag[tuple(row.values())] += 1 if word == "insert" else -1
    assert min(bag.values(), default=0) >= 0
    return +bag


def test_view_that_leaves_and_returns_sends_the_difference(tmp_path):
    frame, out = Frame(rows((1, 10))), tmp_path / "changes"
    other = {"other": "SELECT count(*) AS n FROM t"}
    for table, views in (
        (rows((1, 10)), {"spent": SPENT}),
        (rows((2, 1)), other),
        (rows((2, 5)), {"spent": SPENT, **other}),
    ):
        frame.table = table
        with opened(tmp_path, frame, views) as pipe:
            if "spent" in views:
                pipe.sink("spent", path=out, mode="changes")
            pipe.run_once()
    assert net_of_changes(out) == {(2, 5): 1}


def test_lower_view_defined_otherwise_reaches_the_changes_of_the_upper_one(tmp_path):
    upper = "SELECT count(*) AS n, sum(s) AS s FROM lower"
    frame, out = Frame(rows((1, 10), (2, 3))), tmp_path / "changes"
    for lower in (SPENT, SPENT.replace("GROUP", "WHERE x > 5 GROUP")):
        with opened(tmp_path, frame, {"lower": lower, "upper": upper}) as pipe:
            pipe.sink("upper", path=out, mode="changes")
            pipe.run_once()
            assert net_of_changes(out) == Counter(pipe["upper"].rows())
    assert net_of_changes(out) == {(1, 10): 1}


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_table_shows_a_new_definition_without_new_rows(tmp_path, format):
    frame, out = Frame(rows((1, 10), (2, 3))), tmp_path / "table"
    for sql in (SPENT, SPENT.replace("sum", "count"), SPENT.replace("GROUP", "WHERE x > 5 GROUP")):
        with opened(tmp_path, frame, {"spent": sql}) as pipe:
            pipe.sink("spent", path=out, format=format)
            pipe.run_once()
            shown = shown_table(out) if format == "parquet" else delta_rows(out)
            assert sorted(shown) == sorted(pipe["spent"].rows())


def delta_rows(folder: Path) -> list[tuple[Any, ...]]:
    deltalake = pytest.importorskip("deltalake")
    table = pa.table(deltalake.DeltaTable(folder).to_pyarrow_table())
    return [tuple(row.values()) for row in table.to_pylist()]


def test_function_that_missed_changes_is_refused_before_anything_is_written(tmp_path):
    frame = Frame(rows((1, 10)))
    seen: list[Any] = []
    with opened(tmp_path, frame, {"spent": SPENT, "other": SPENT}) as pipe:
        pipe.sink("spent", lambda change: seen.extend(change))
        pipe.run_once()
    assert seen == [((1, 10), 1)]
    frame.table = rows((2, 2))
    with opened(tmp_path, frame, {"spent": SPENT, "other": SPENT}) as pipe:
        pipe.run_once()
    frame.table = rows((3, 3))
    with opened(tmp_path, frame) as pipe:
        pipe.sink("spent", lambda change: seen.extend(change))
        with pytest.raises(ForbiddenChange, match="has missed changes"):
            pipe.run_once()
        assert sorted(pipe.mill.views()) == ["other", "spent"]  # nothing was dropped
        assert pipe["spent"].rows() == [(2, 2)]  # and no row taken
    assert seen == [((1, 10), 1)]


def test_refused_definition_leaves_the_old_program_as_it_was(tmp_path):
    """A start with another definition is refused; the one before has missed nothing."""
    frame = Frame(rows((1, 10)))
    seen: list[Any] = []
    for sql, is_refused in ((SPENT, False), (SPENT.replace("sum", "max"), True), (SPENT, False)):
        with opened(tmp_path, frame, {"spent": sql}) as pipe:
            pipe.sink("spent", lambda change: seen.extend(change))
            if is_refused:
                with pytest.raises(ForbiddenChange, match="has missed changes"):
                    pipe.run_once()
            else:
                pipe.run_once()
        frame.table = rows((1, 10), (2, 2))
    assert seen == [((1, 10), 1), ((2, 2), 1)]


def test_function_that_was_always_there_goes_on(tmp_path):
    frame = Frame(rows((1, 10)))
    seen: list[Any] = []
    for table in (rows((1, 10)), rows((2, 2)), rows((3, 3))):
        frame.table = table
        with opened(tmp_path, frame) as pipe:
            pipe.sink("spent", lambda change: seen.extend(change))
            pipe.sink("spent", path=tmp_path / "table")  # sinks beside it do not matter
            pipe.run_once()
    net: Counter[Any] = Counter()
    for row, times in seen:
        net[row] += times
    assert +net == {(3, 3): 1}
    assert not -net


def test_function_is_the_same_whatever_memory_sinks_are_beside_it(tmp_path):
    frame = Frame(rows((1, 10)))
    seen: list[Any] = []
    for count in (2, 0, 1):
        with opened(tmp_path, frame) as pipe:
            pipe._spark = Session()
            for _ in range(count):
                pipe.sink("spent", format="memory", mode="changes")
            pipe.sink("spent", lambda change: seen.extend(change))
            pipe.run_once()
    assert seen == [((1, 10), 1)]


class Session:
    """What a sink in memory asks of Spark."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}

    def createDataFrame(self, table: Any) -> SimpleNamespace:  # noqa: N802 (Spark's name)
        def show(name: str) -> None:
            self.shown[name.strip("`")] = table

        return SimpleNamespace(createOrReplaceTempView=show)


def test_change_that_a_function_refused_is_told_when_the_pipeline_goes_on(tmp_path):
    """All sinks behind it get the change, too, in the same process."""
    frame, session = Frame(rows((1, 10))), Session()
    seen: list[Any] = []
    refuses = [False]

    def fn(change: Any) -> None:
        if refuses.pop():
            raise RuntimeError("not now")
        refuses.append(False)
        seen.extend(change)

    with opened(tmp_path, frame) as pipe:
        pipe._spark = session
        pipe.sink("spent", fn)
        pipe.sink("spent", path=tmp_path / "changes", mode="changes")
        pipe.sink("spent", format="memory", mode="changes")
        pipe.run_once()
        refuses[0] = True
        frame.table = rows((1, 10), (2, 2))
        with pytest.raises(RuntimeError, match="not now"):
            pipe.run_once()
        refuses.append(False)
        frame.table = rows((1, 10), (2, 2), (3, 3))
        pipe.run_once()
        wanted = [(1, 10), (2, 2), (3, 3)]
        assert seen == [(row, 1) for row in wanted]
        assert net_of_changes(tmp_path / "changes") == Counter(wanted)
        assert session.shown["spent_changes"].column("k").to_pylist() == [1, 2, 3]


class Crashed(Exception):
    """Stands for the end of the process."""


def crash_at(point: str) -> Callable[[str], None]:
    def visit(reached: str) -> None:
        if reached == point:
            raise Crashed(point)

    return visit


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_change_that_was_never_committed_is_not_shown_after_an_edit(tmp_path, monkeypatch, format):
    """A view that is created after a crash takes the version that the change would have had."""
    frame, out = Frame(rows((1, 10))), tmp_path / "changes"

    def program() -> Pipeline:
        pipe = opened(tmp_path, frame)
        pipe.sink("spent", path=out, format=format, mode="changes")
        return pipe

    with program() as pipe:
        pipe.run_once()
        frame.table = rows((1, 10), (2, 2))
        monkeypatch.setattr(crash_points, "visit", crash_at("change prepared"))
        with pytest.raises(Crashed):
            pipe.run_once()
        monkeypatch.setattr(crash_points, "visit", None)
    for _ in range(2):
        with opened(tmp_path, frame, {"spent": SPENT, "other": SPENT}):
            pass  # an edited program that does not come as far as its start
    frame.table = rows((1, 10))
    with program() as pipe:
        pipe.run_once()
        assert net(out, format) == {(1, 10): 1}


def test_function_that_crashed_at_its_first_rows_gets_them_once(tmp_path, monkeypatch):
    seen: list[Any] = []
    for point in ("caught up", "change to deliver", ""):
        monkeypatch.setattr(crash_points, "visit", crash_at(point))
        with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
            pipe.sink("spent", path=tmp_path / f"table {point}")  # the next version is another
            if point:
                pipe.run_once()  # so that the function begins with a row
            pipe.sink("spent", lambda change: seen.extend(change))
            with pytest.raises(Crashed) if point else nullcontext():
                pipe.run_once()
    assert seen == [((1, 10), 1)]


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_changes_whose_place_was_removed_start_with_all_rows(tmp_path, format):
    frame, out = Frame(rows((1, 10), (2, 2))), tmp_path / "changes"
    for table in (frame.table, rows((1, 11), (2, 2))):
        frame.table = table
        with opened(tmp_path, frame) as pipe:
            pipe.sink("spent", path=out, format=format, mode="changes")
            pipe.run_once()
            assert net(out, format) == Counter(pipe["spent"].rows())
        shutil.rmtree(out)


def test_delta_table_shows_a_view_that_was_refreshed_later(tmp_path):
    frame, out = Frame(rows((1, 10))), tmp_path / "table"
    later = f"CREATE MATERIALIZED VIEW spent REFRESH ON DEMAND AS {SPENT}"
    with opened(tmp_path, frame, {"spent": later}) as pipe:
        pipe.sink("spent", path=out, format="delta")
        for _ in range(2):
            pipe.run_once()
        assert delta_rows(out) == []
        pipe["spent"].refresh()
        pipe.run_once()  # no new version, but the view has reached it
        assert delta_rows(out) == [(1, 10)]


def test_changes_with_other_columns_are_refused_before_anything_is_written(tmp_path):
    frame = Frame(rows((1, 10)))
    with opened(tmp_path, frame) as pipe:
        pipe.sink("spent", path=tmp_path / "changes", mode="changes")
        pipe.run_once()
    with opened(tmp_path, frame, {"spent": "SELECT k AS key, x FROM t"}) as pipe:
        pipe.sink("spent", path=tmp_path / "changes", mode="changes")
        with pytest.raises(ForbiddenChange, match="other columns"):
            pipe.run_once()
    assert net_of_changes(tmp_path / "changes") == {(1, 10): 1}


def test_view_computed_again_tells_its_sinks(tmp_path):
    with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
        pipe.sink("spent", path=tmp_path / "changes", mode="changes")
        pipe.run_once()
        pipe.recompute("spent")
        assert net_of_changes(tmp_path / "changes") == {(1, 10): 1}


# Sinks write only where nothing is, or where they wrote before.


def test_foreign_tables_are_left_alone(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    foreign = pa.table({"precious": [1, 2]})
    deltalake.write_deltalake(str(tmp_path / "lake"), foreign)
    (tmp_path / "table").mkdir()
    pq.write_table(foreign, tmp_path / "table" / "table.parquet")
    (tmp_path / "file").write_text("dear ann")
    deltalake.DeltaTable.create(str(tmp_path / "empty"), foreign.schema)
    with opened(tmp_path, Frame(rows((1, 10)))) as pipe:
        kinds: tuple[tuple[str, dict[str, Any]], ...] = (
            ("lake", {"format": "delta"}),
            ("lake", {"format": "delta", "mode": "changes"}),
            ("lake", {}),
            ("empty", {}),
            ("empty", {"mode": "changes"}),
            ("empty", {"format": "delta"}),
            ("table", {}),
            ("table", {"mode": "changes"}),
            ("table", {"format": "delta"}),
            ("file", {}),
            ("file", {"format": "delta"}),
        )
        for path, more in kinds:
            with pytest.raises(WrongFormat):
                pipe.sink("spent", path=tmp_path / path, **more)
        pipe.run_once()
    assert pq.read_table(tmp_path / "table" / "table.parquet").equals(foreign)
    assert pa.table(deltalake.DeltaTable(tmp_path / "lake").to_pyarrow_table()).equals(foreign)


def test_two_views_do_not_share_a_place(tmp_path):
    views = {"spent": SPENT, "other": SPENT}
    with opened(tmp_path, Frame(rows((1, 10))), views) as pipe:
        pipe.sink("spent", path=tmp_path / "out")
        for path in ("out", "out/inside", "out/../out", "storage/out"):
            with pytest.raises(InvalidArgument, match="in the place of"):
                pipe.sink("other", path=tmp_path / path)
        pipe.run_once()
    with opened(tmp_path, Frame(rows((1, 10))), views) as pipe:
        with pytest.raises(WrongFormat, match="another pipeline or view"):
            pipe.sink("other", path=tmp_path / "out")
        with pytest.raises(WrongFormat, match="another pipeline or view"):
            pipe.sink("other", path=tmp_path / "out", mode="changes")


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("modes", [("table", "changes"), ("changes", "table")])
def test_rows_and_changes_do_not_share_a_place(tmp_path, modes, format):
    frame = Frame(rows((1, 10)))
    with opened(tmp_path, frame) as pipe:
        pipe.sink("spent", path=tmp_path / "out", mode=modes[0], format=format)
        pipe.run_once()
    with opened(tmp_path, frame) as pipe, pytest.raises(WrongFormat):
        pipe.sink("spent", path=tmp_path / "out", mode=modes[1], format=format)


def test_file_that_came_into_the_changes_is_refused(tmp_path):
    frame, out = Frame(rows((1, 10))), tmp_path / "out"
    with opened(tmp_path, frame) as pipe:
        pipe.sink("spent", path=out, mode="changes")
        pipe.run_once()
        pq.write_table(pa.table({"foreign": [1]}), out / "other.parquet")
        with pytest.raises(WrongFormat, match="holds files of others"):
            pipe.run_once()


@pytest.mark.parametrize("path", ["s3://bucket/spent", "file://host/spent", "hdfs:/spent"])
def test_address_on_another_machine_is_refused(tmp_path, path):
    with (
        opened(tmp_path, Frame(rows((1, 10)))) as pipe,
        pytest.raises(InvalidArgument, match="not on this machine"),
    ):
        pipe.sink("spent", path=path, format="delta")
    with pytest.raises(InvalidArgument, match="not on this machine"):
        vm.Pipeline(None, storage=path)


def test_file_url_is_the_path_that_it_names(tmp_path):
    place = tmp_path / "a b"
    with opened((place / "in").as_uri(), Frame(rows((1, 10)))) as pipe:
        pipe.sink("spent", path=(place / "table").as_uri())
        pipe.sink("spent", path=(place / "lake").as_uri(), format="delta")
        pipe.run_once()
        assert shown_table(place / "table") == delta_rows(place / "lake") == [(1, 10)]
        with pytest.raises(InvalidArgument, match="a query or a fragment"):
            pipe.sink("spent", path=f"file://{place}/x#y")
    assert sorted(each.name for each in place.iterdir()) == ["in", "lake", "table"]


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("mode", ["table", "changes"])
def test_pipeline_that_began_meanwhile_is_left_alone(tmp_path, mode, format):
    """Both declare a sink in one empty place; who starts first has it."""
    with (
        opened(tmp_path / "one", Frame(rows((1, 10)))) as one,
        opened(tmp_path / "two", Frame(rows((2, 20)))) as two,
    ):
        for pipe in (one, two):
            pipe.sink("spent", path=tmp_path / "out", mode=mode, format=format)
        one.run_once()
        with pytest.raises(WrongFormat, match="another pipeline or view"):
            two.run_once()
    files = [*(tmp_path / "out").glob("*.parquet")]
    assert [pq.read_table(file).column("k").to_pylist() for file in files] == [[1]]


@pytest.mark.parametrize("mode", ["table", "changes"])
def test_moments_say_that_they_are_utc(tmp_path, mode):
    with vm.Pipeline(None, storage=tmp_path / "storage") as pipe:
        table = pa.table({"t": [dt.datetime(2024, 1, 1)]})
        pipe.source("t", Frame(table), schema="t TIMESTAMP")
        pipe.view(
            "newest",
            "SELECT max(t) AS t, collect_list(t) AS l, named_struct('t', max(t)) AS s FROM t",
        )
        pipe.sink("newest", path=tmp_path / "out", mode=mode)
        pipe.run_once()
    for file in (tmp_path / "out").glob("*.parquet"):
        schema, utc = pq.read_schema(file), pa.timestamp("us", "UTC")
        assert schema.field("t").type == utc
        assert schema.field("l").type.value_type == utc
        assert schema.field("s").type.field("t").type == utc


# Declaring.


def test_decorator_goes_without_parentheses(tmp_path):
    with vm.Pipeline(None, storage=tmp_path / "storage") as pipe:
        pipe.source("t", Frame(rows((1, 10))), schema="k BIGINT, x BIGINT")

        @pipe.materialized_view
        def bare():
            return SPENT

        @pipe.materialized_view()
        def called():
            return SPENT

        @pipe.materialized_view("positional")
        def third():
            return SPENT

        assert bare() == called() == third() == SPENT
        pipe.run_once()
        for name in ("bare", "called", "positional"):
            assert pipe[name].rows() == [(1, 10)]
        with pytest.raises(InvalidArgument, match="not the SQL of a view"):
            pipe.materialized_view(lambda: None)  # type: ignore[type-var]


@pytest.mark.parametrize("format", ["parquet", "delta"])
@pytest.mark.parametrize("mode", ["table", "changes"])
def test_view_renamed_only_in_case_keeps_its_sinks(tmp_path, format, mode):
    frame, out = Frame(rows((1, 10))), tmp_path / "out"
    for name, table in (("spent", rows((1, 10))), ("Spent", rows((1, 11), (2, 1)))):
        frame.table = table
        with opened(tmp_path, frame, {name: SPENT}) as pipe:
            pipe.sink(name, path=out, format=format, mode=mode)
            pipe.run_once()
    if mode == "changes":
        assert net(out, format) == Counter({(1, 11): 1, (2, 1): 1})
    else:
        shown = shown_table(out) if format == "parquet" else delta_rows(out)
        assert sorted(shown) == [(1, 11), (2, 1)]


def test_two_sinks_in_memory_under_one_name_are_refused(tmp_path):
    with opened(tmp_path, Frame(rows()), {"a": SPENT, "A_changes": SPENT}) as pipe:
        pipe.sink("a", format="memory", mode="changes")
        with pytest.raises(InvalidArgument, match='"A_changes" is in the place of the sink of "a"'):
            pipe.sink("A_changes", format="memory")
        pipe.sink("a", format="memory")


def test_a_delta_table_signed_by_an_earlier_version_is_still_ours(tmp_path, monkeypatch):
    """Earlier versions signed with the name of the view as it was spelt."""
    frame, out = Frame(rows((1, 10))), tmp_path / "out"

    def as_it_was_spelt(lake, view, pipeline):
        lake.owner = f"viewmill {pipeline} {view.name}"

    with monkeypatch.context() as earlier:
        earlier.setattr(DeltaLake, "sign", as_it_was_spelt)
        with opened(tmp_path, frame, {"Spent": SPENT}) as pipe:
            pipe.sink("Spent", path=out, format="delta")
            pipe.run_once()
    frame.table = rows((1, 11))
    with opened(tmp_path, frame, {"Spent": SPENT}) as pipe:
        pipe.sink("Spent", path=out, format="delta")
        pipe.run_once()
    assert sorted(delta_rows(out)) == [(1, 11)]
