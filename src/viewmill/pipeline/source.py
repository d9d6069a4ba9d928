"""A source: a Spark DataFrame whose rows change one table.

takes  a streaming or batch DataFrame, and its columns with change types, keys and times
gives  CREATE TABLE, and the DataFrame projected to the columns that the table needs
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viewmill.algebra.names import quoted
from viewmill.errors import InvalidArgument, UnknownName, nearest

CORRUPT = "_corrupt_record"  # where Spark's readers put the text of a row they cannot parse
_FEED = ("_commit_version", "_commit_timestamp")  # columns of a change feed beside _change_type


@dataclass(frozen=True)
class Source:
    """How the rows of `frame` change the table `name`.

    change        the column with insert, delete, update_preimage, update_postimage (or i, d, ±1)
    multiplicity  the column with how often a row is added; negative removes
    timestamp     the event time
    key           the primary key: a row replaces the one with its key
    order         with `key`: the column that says which of two rows is newer
    checked       whether a delete of a row that is not there goes to the dead letters
    schema        the columns as in CREATE TABLE, where they should differ from the frame's
    options       more of CREATE TABLE, for example LATENESS INTERVAL '10' MINUTES
    """

    name: str
    frame: Any
    change: str | None = None
    multiplicity: str | None = None
    timestamp: str | None = None
    key: tuple[str, ...] = ()
    order: str | None = None
    checked: bool = False
    schema: str | None = None
    options: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.lower().startswith("_viewmill"):
            raise InvalidArgument(f"{self.name!r} cannot name a source", hint="Letters, digits, _.")
        if self.change and self.multiplicity:
            raise InvalidArgument(f'source "{self.name}" has both change= and multiplicity=')
        if self.order and not self.key:
            raise InvalidArgument(f'source "{self.name}" has order= without key=')
        if not (hasattr(self.frame, "isStreaming") and hasattr(self.frame, "schema")):
            raise InvalidArgument(
                f'source "{self.name}" needs a Spark DataFrame, got {type(self.frame).__name__}',
                hint="spark.readStream..., spark.read..., or spark.table(name).",
            )
        given = [self.change, self.multiplicity, self.timestamp, *self.key, self.order]
        for name in given:
            if name is not None and name.lower() not in self._known:
                raise UnknownName(
                    f'source "{self.name}" has no column "{name}"',
                    hint=nearest(name, self.frame.columns),
                )

    @property
    def _known(self) -> dict[str, str]:
        return {name.lower(): name for name in self.frame.columns}

    @property
    def is_streaming(self) -> bool:
        """Whether the DataFrame is streaming."""
        return bool(self.frame.isStreaming)

    @property
    def sign(self) -> str | None:
        """The column with the change type or the multiplicity."""
        name = self.change or self.multiplicity
        return None if name is None else self._known[name.lower()]

    @property
    def sign_kind(self) -> str:
        """Whether that column holds change types or multiplicities."""
        return "change" if self.change else "multiplicity"

    @property
    def columns(self) -> list[str]:
        """The frame's columns that are columns of the table."""
        hidden = {CORRUPT, (self.sign or "").lower()}
        if self.change is not None and self.change.lower() == "_change_type":
            hidden |= set(_FEED) - {(self.order or "").lower()}
        return [name for name in self.frame.columns if name.lower() not in hidden]

    def create_statement(self) -> str:
        """CREATE TABLE for the rows."""
        options = "" if self.checked or self.key else " UNCHECKED"
        options += f" TIMESTAMP BY {quoted(self.timestamp)}" if self.timestamp else ""
        options += f" {self.options}" if self.options else ""
        columns = self.schema or ", ".join(map(self._column, self.columns))
        key = (
            f", PRIMARY KEY ({', '.join(f'{quoted(name)}' for name in self.key)})"
            if self.key
            else ""
        )
        return f"CREATE TABLE {quoted(self.name)} ({columns}{key}){options}"

    def _column(self, name: str) -> str:
        type_ = self.frame.schema[name].dataType.simpleString().upper()
        type_ = "TIMESTAMP" if type_ == "TIMESTAMP_NTZ" else type_
        is_key = name.lower() in {each.lower() for each in self.key}
        return f"{quoted(name)} {type_}{' NOT NULL' if is_key else ''}"

    def selected(self) -> Any:
        """The frame with the table's columns, the sign column and the corrupt-record column."""
        wanted = self.columns + ([self.sign] if self.sign else [])
        corrupt = [name for name in self.frame.columns if name.lower() == CORRUPT]
        return self.frame.select(*(f"{quoted(name)}" for name in wanted + corrupt))

    def fingerprint(self) -> int:
        """A hash of the rows of a batch DataFrame; Spark reads all of them."""
        names = ", ".join(
            quoted(name) for name in self.columns + ([self.sign] if self.sign else [])
        )
        hashed = f"sum(CAST(xxhash64({names}) AS DECIMAL(38, 0))) AS h"
        (row,) = self.selected().selectExpr("count(1) AS n", hashed).collect()
        return int(row.n * 1_000_003 + int(row.h or 0)) % (1 << 62)
