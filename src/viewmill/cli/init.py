"""`viewmill init`: a project that runs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow.csv
import typer

from viewmill.bench.order_book import COLUMNS, MULTIPLICITY, OrderBook, Side
from viewmill.cli.terminal import print_text
from viewmill.errors import InvalidArgument

SPEC = """\
name: {name}
storage: storage/               # the mill: logs and snapshots
sources:                        # files whose rows change a table; new files are taken once
  bids: {{path: data/bids/*.csv, schema: "{columns}", multiplicity: {multiplicity}}}
  asks: {{path: data/asks/*.csv, schema: "{columns}", multiplicity: {multiplicity}}}
libraries:                      # SQL files with CREATE statements
  - glob: {{include: "views/**/*.sql"}}
sinks:                          # where others read the views
  broker_volume: {{path: out/broker_volume.csv}}
  bid_levels: {{path: out/bid_levels, format: parquet, mode: changes}}
"""

VIEWS = {
    "broker_volume": """\
-- What each broker has on offer to buy. Maintained row by row.
CREATE MATERIALIZED VIEW broker_volume AS
SELECT broker, COUNT(*) AS orders, SUM(volume) AS volume, AVG(price) AS average_price
FROM bids
GROUP BY broker
""",
    "bid_levels": """\
-- The volume at each price, where it is worth a look.
CREATE MATERIALIZED VIEW bid_levels AS
SELECT price, COUNT(*) AS orders, SUM(volume) AS volume
FROM bids
GROUP BY price
HAVING SUM(volume) >= 1000
""",
    "spread": """\
-- Best bid and best ask. `viewmill explain spread` says how it is kept, and why.
CREATE MATERIALIZED VIEW spread AS
SELECT b.best_bid, a.best_ask, a.best_ask - b.best_bid AS spread
FROM (SELECT MAX(price) AS best_bid FROM bids) b
CROSS JOIN (SELECT MIN(price) AS best_ask FROM asks) a
""",
}


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write the project.")] = Path("."),
) -> None:
    """Write a small project that runs at once: a spec, three views, sample data."""
    spec = folder / "viewmill.yml"
    if spec.exists():
        raise InvalidArgument(
            f"{spec} is already there", hint="Choose another folder: viewmill init mybook"
        )
    name = folder.resolve().name or "orderbook"
    text = SPEC.format(name=name, columns=COLUMNS, multiplicity=MULTIPLICITY)
    files = {spec: text, folder / ".gitignore": "storage/\nout/\n"}
    files |= {folder / "views" / f"{view}.sql": sql for view, sql in VIEWS.items()}
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    for side in ("bids", "asks"):
        _write_data(folder, side)
    print_text(f"{folder}: a spec, {len(VIEWS)} views and sample data were written.")
    step = "" if folder == Path(".") else f"cd {folder} && "
    print_text(f"next: {step}viewmill run")


def _write_data(folder: Path, side: Side) -> None:
    """Two files: the first fills the book, the second changes it."""
    book = OrderBook(side, depth=1_500)
    target = folder / "data" / side
    target.mkdir(parents=True, exist_ok=True)
    for number in (1, 2):
        pyarrow.csv.write_csv(book.batch(1_000), target / f"{number:03d}.csv")
