"""`viewmill demo`: an order book whose views are refreshed live in the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

import viewmill as vm
from viewmill.bench.order_book import COLUMNS, MULTIPLICITY, OrderBook
from viewmill.cli.demo_spark import demo_spark
from viewmill.cli.terminal import grid, own_name, print_text, remark, results, show_bytes

if TYPE_CHECKING:
    from viewmill.mill.mill import Mill

VIEWS = {
    "brokers": """AS
        SELECT broker, COUNT(*) AS orders, SUM(volume) AS volume, AVG(price) AS average_price
        FROM bids GROUP BY broker""",
    "deep_levels": """AS
        SELECT price, COUNT(*) AS orders, SUM(volume) AS volume
        FROM bids GROUP BY price HAVING SUM(volume) >= 20000""",
    "spread": """REFRESH EVERY INTERVAL '1' SECOND AS
        SELECT b.best_bid, a.best_ask, a.best_ask - b.best_bid AS spread
        FROM (SELECT MAX(price) AS best_bid FROM bids) b
        CROSS JOIN (SELECT MIN(price) AS best_ask FROM asks) a""",
}
FRAMES_PER_SECOND = 8
SHOWN_ROWS = 8


@dataclass
class Tally:
    """What has happened so far."""

    rows: int = 0
    refreshes: int = 0
    busy_s: float = 0.0

    @property
    def refreshes_per_s(self) -> float:
        """Atomic refreshes of all views in a second of work."""
        return self.refreshes / self.busy_s if self.busy_s else 0.0


def demo(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to stream.")] = 10.0,
    batch: Annotated[int, typer.Option(min=2, help="Changed rows in one refresh.")] = 500,
    depth: Annotated[int, typer.Option(min=10, help="Open orders on each side.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The seed of the market.")] = 1,
    spark: Annotated[
        bool, typer.Option("--spark", help="The same through files and a Spark pipeline.")
    ] = False,
) -> None:
    """Stream an order book through three views and watch them stay fresh."""
    if spark:
        demo_spark(seconds, batch, depth, seed)
        return
    remark("An order book streams in: new orders are inserted, filled ones are deleted.")
    remark("Two views follow every batch, at the cost of the change. The third, which joins the")
    remark("best prices of both sides, is asked to refresh once a second only.")
    with vm.connect() as mill:
        remark("creating tables and views; the first time, kernels are compiled ...")
        for side in ("bids", "asks"):
            mill.sql(f"CREATE TABLE {side} ({COLUMNS})")
        for name, definition in VIEWS.items():
            mill.sql(f"CREATE MATERIALIZED VIEW {name} {definition}")
        books = {"bids": OrderBook("bids", depth, seed), "asks": OrderBook("asks", depth, seed)}
        for side, book in books.items():
            _change(mill, {side: book.batch(depth)})
        mill["spread"].refresh()
        tally = Tally()
        _stream(mill, books, tally, seconds, batch)
        _summarize(mill, tally)


def _change(mill: Mill, tables: dict[str, pa.Table]) -> None:
    with mill.batch():
        for side, table in tables.items():
            mill.apply(side, table, multiplicity=MULTIPLICITY)


def _stream(
    mill: Mill, books: dict[str, OrderBook], tally: Tally, seconds: float, batch: int
) -> None:
    end = time.monotonic() + seconds
    frame_at = 0.0
    with _screen(seconds) as draw:
        while (now := time.monotonic()) < end:
            tables = {side: book.batch(batch // 2) for side, book in books.items()}
            start = time.perf_counter()
            _change(mill, tables)
            tally.busy_s += time.perf_counter() - start
            tally.refreshes += 1
            tally.rows += sum(table.num_rows for table in tables.values())
            if now >= frame_at:
                draw(mill, tally, seconds - (end - now))
                frame_at = now + 1 / FRAMES_PER_SECOND


@contextmanager
def _screen(seconds: float) -> Iterator[Any]:
    """A function that draws the views; without a terminal it prints a line now and then."""
    console = results()
    if not console.is_terminal:
        yield _plain_drawer(seconds)
        return
    bar = Progress(
        TextColumn("streaming"), BarColumn(bar_width=40), TextColumn("{task.fields[note]}")
    )
    task = bar.add_task("", total=seconds, note="")
    with Live(console=console, refresh_per_second=FRAMES_PER_SECOND, transient=True) as live:

        def draw(mill: Mill, tally: Tally, elapsed: float) -> None:
            note = f"{tally.rows:,} rows, {tally.refreshes_per_s:,.0f} refreshes/s"
            bar.update(task, completed=elapsed, note=note)
            live.update(
                Group(Text("viewmill demo: an order book", style="bold"), _tables(mill), bar)
            )

        yield draw


def _plain_drawer(seconds: float) -> Any:
    said_at = -1.0

    def draw(mill: Mill, tally: Tally, elapsed: float) -> None:
        nonlocal said_at
        if said_at < 0 or elapsed - said_at >= max(seconds / 5, 1.0):
            said_at = elapsed
            bid, ask, spread = mill["spread"].rows()[0]
            print_text(
                f"{elapsed:5.1f} s  {tally.rows:>10,} rows  {tally.refreshes:>6,} refreshes  "
                f"best bid {bid}  best ask {ask}  spread {spread}"
            )

    return draw


def _tables(mill: Mill) -> Table:
    outer = Table.grid(padding=(0, 4))
    cells = []
    for name in VIEWS:
        table = mill[name].to_arrow()
        rows = sorted(zip(*table.to_pydict().values(), strict=True), reverse=name == "deep_levels")
        shown = [[_shown(value) for value in row] for row in rows[:SHOWN_ROWS]]
        more = f" ({len(rows)} rows)" if len(rows) > SHOWN_ROWS else ""
        cells.append(grid(table.column_names, shown, title=f"{name}{more}"))
    outer.add_row(*cells)
    return outer


def _shown(value: Any) -> Any:
    return value if isinstance(value, int) or value is None else f"{value:.2f}"


def _summarize(mill: Mill, tally: Tally) -> None:
    print_text(
        f"\n{tally.rows:,} changed rows in {tally.refreshes:,} atomic refreshes: "
        f"{tally.refreshes_per_s:,.0f} refreshes/s, {tally.rows / tally.busy_s:,.0f} rows/s"
    )
    remark("comparing every view with recompute ...")
    lines = []
    is_right = True
    for name in VIEWS:
        facts = mill[name].status()
        differences = len(mill[name].verify())
        equal = "equal" if differences == 0 else f"{differences} DIFFERENCES"
        is_right = is_right and differences == 0
        lines.append(
            [
                name,
                facts["rows"],
                facts["strategy"],
                facts["refreshes"],
                facts["engine_calls"],
                show_bytes(facts["state_bytes"]),
                equal,
            ]
        )
    columns = ["view", "rows", "strategy", "refreshes", "bulk queries", "state", "recompute says"]
    results().print(grid(columns, lines))
    if not is_right:
        raise typer.Exit(3)
    own = own_name()
    print_text(f"\ntry next: {own} init mybook && {own} run --spec mybook/viewmill.yml")
