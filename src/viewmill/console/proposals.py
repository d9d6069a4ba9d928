"""Change the definition of a view: see which rows would come and go, then approve it.

takes  a view and another CREATE statement for it
gives  the columns and rows that differ; nothing is changed before it is approved
"""

from __future__ import annotations

from typing import Any

from viewmill.algebra.names import quoted
from viewmill.console.replies import rows_reply
from viewmill.errors import InvalidArgument, ReadOnlyMill
from viewmill.mill.mill import Mill
from viewmill.sql.parse import parse
from viewmill.sql.statements import CreateMaterializedView

SHOWN = 50


def propose(mill: Mill, name: str, sql: str) -> dict[str, Any]:
    """The rows that the view would have and has not, and the other way round."""
    made = _proposed(mill, name, sql)
    with mill.core.lock:
        fields = mill.sql(f"SELECT * FROM ({made.query_sql}) LIMIT 0").to_arrow().schema
        before = mill.view(name).head(0).schema
        told = {"before": _columns(before), "after": _columns(fields)}
        if told["before"] != told["after"]:
            return {**told, "come": None, "go": None}
        here = f"SELECT * FROM {quoted(mill.view(name).name)}"
        come = _rows(mill, f"SELECT * FROM ({made.query_sql}) EXCEPT ALL {here}")
        go = _rows(mill, f"{here} EXCEPT ALL SELECT * FROM ({made.query_sql})")
        return {**told, "come": come, "go": go}


def approve(mill: Mill, name: str, sql: str, write: bool) -> dict[str, Any]:
    """Replace the view by the proposed one."""
    if not write:
        raise ReadOnlyMill("this console only reads", hint="Start it with --write.")
    _proposed(mill, name, sql)
    mill.sql(sql)
    return {"done": True, "version": mill.version}


def _proposed(mill: Mill, name: str, sql: str) -> CreateMaterializedView:
    """The one statement, which is about this view."""
    here = mill.view(name).name
    found = parse(sql)
    made = found[0] if len(found) == 1 else None
    if not isinstance(made, CreateMaterializedView) or not made.or_replace:
        raise InvalidArgument("a proposal is one CREATE OR REPLACE MATERIALIZED VIEW")
    if made.name.lower() != here.lower():
        raise InvalidArgument(f'the proposal is about "{made.name}", and this is "{here}"')
    return made


def _columns(schema: Any) -> list[str]:
    return [f"{field.name} {field.type}" for field in schema]


def _rows(mill: Mill, sql: str) -> dict[str, Any]:
    table = mill.sql(sql).to_arrow()
    return rows_reply(table.slice(0, SHOWN), table.num_rows)
