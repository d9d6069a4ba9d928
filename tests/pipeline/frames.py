"""What a pipeline asks of a batch DataFrame, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Frame:
    """Rows that a test may change; a pipeline reads them when it starts."""

    isStreaming = False  # noqa: N815 (Spark's name)
    schema = None

    def __init__(self, table: Any) -> None:
        self.table = table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def select(self, *names: str) -> Frame:
        return Frame(self.table.select([name.strip("`") for name in names]))

    def toArrow(self) -> Any:  # noqa: N802 (Spark's name)
        return self.table

    def selectExpr(self, *_: str) -> Frame:  # noqa: N802 (Spark's name)
        """Only what a fingerprint asks for."""
        return self

    def collect(self) -> list[Any]:
        rows = [hash(str(row)) % (1 << 40) for row in self.table.to_pylist()]
        return [SimpleNamespace(n=len(rows), h=sum(rows))]
