"""Rows that were refused: dead letters of a pipeline, and late rows of tables.

takes  a mill
gives  the last of them, with the reason
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from viewmill.console.replies import cell
from viewmill.console.watch import is_shown
from viewmill.mill.mill import Mill
from viewmill.pipeline.replay_letters import waiting_letters

SHOWN = 200


def refused(mill: Mill) -> dict[str, Any]:
    """Dead letters that wait, and the late rows of each table that refused some."""
    letters = waiting_letters(mill)
    tables = [each for each in mill.core.catalog.tables() if is_shown(each.name)]
    late = [
        {
            "table": each.name,
            "total": each.table.parts.refused_count,
            "rows": _late(mill, each.name),
        }
        for each in tables
        if each.table.parts is not None and each.table.parts.refused_count
    ]
    shown = [{**each._asdict(), "row": cell(each.row)} for each in letters[-SHOWN:]]
    return {"letters": shown, "total": len(letters), "late": late[:SHOWN]}


def _late(mill: Mill, table: str) -> list[dict[str, Any]]:
    """The last late rows of a table as texts."""
    found = islice(reversed(mill.refused(table)), SHOWN)
    return [{name: cell(value) for name, value in each.items()} for each in found]
