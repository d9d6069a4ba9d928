"""Ways to read rows: what a view and the result of a SELECT have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewmill.deltas.arrow_types import in_utc
from viewmill.errors import InvalidArgument

SHOWN = 20


class Readers:
    """Reads an Arrow table as whatever the reader likes."""

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        raise NotImplementedError

    def rows(self) -> list[tuple[Any, ...]]:
        """Tuples of plain Python values."""
        return rows_of(self.to_arrow())

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        polars = _optional("polars")
        return polars.from_arrow(self.to_arrow())

    def to_spark(self, spark: Any = None) -> Any:
        """A Spark DataFrame on the given or the active session."""
        if spark is None:
            spark = _optional("pyspark.sql").SparkSession.getActiveSession()
        if spark is None:
            raise InvalidArgument(
                "there is no active Spark session", hint="Give one: to_spark(spark)."
            )
        return spark.createDataFrame(in_utc(self.to_arrow()))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def _table_text(self) -> str:
        table = self.to_arrow()
        return table_text(table.column_names, Readers.rows(self), table.num_rows)

    def _repr_html_(self) -> str:
        table = self.to_arrow()
        head = "".join(f"<th>{_html(name)}</th>" for name in table.column_names)
        body = "".join(
            "<tr>" + "".join(f"<td>{_html(value)}</td>" for value in row) + "</tr>"
            for row in self.rows()[:SHOWN]
        )
        more = f"<p>{table.num_rows} rows</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """The rows of an Arrow table or batch as tuples of plain Python values."""
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Result(Readers):
    """The rows that a SELECT gave."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        return self._table

    def __repr__(self) -> str:
        return self._table_text()


def table_text(names: list[str], rows: list[tuple[Any, ...]], count: int) -> str:
    """Rows as text in columns, the first twenty of them."""
    shown = [[_cell(value) for value in row] for row in rows[:SHOWN]]
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    lines = ["  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))]
    lines.append("  ".join("─" * width for width in widths))
    lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in shown]
    if count > SHOWN:
        lines.append(f"... {count} rows")
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value)


def _html(value: object) -> str:
    text = _cell(value)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _optional(name: str) -> Any:
    """A package that not everyone has."""
    try:
        return __import__(name, fromlist=["_"])
    except ImportError as missing:
        package = name.split(".")[0]
        raise InvalidArgument(
            f"{package} is not installed", hint=f"pip install {package}"
        ) from missing
