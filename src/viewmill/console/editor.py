"""Execute what the SQL editor sends.

takes  SQL, and whether this console may change the mill
gives  rows as texts, or what was done
"""

from __future__ import annotations

import time
from typing import Any

from viewmill.console.replies import rows_reply
from viewmill.errors import ReadOnlyMill
from viewmill.mill.mill import Mill
from viewmill.sql.parse import parse
from viewmill.sql.statements import Explain, Query, Verify

SHOWN = 500


def run_sql(mill: Mill, sql: str, write: bool) -> dict[str, Any]:
    """Execute statements; a console that only reads takes SELECT, EXPLAIN and VERIFY."""
    statements = parse(sql)
    for each in statements:
        if not write and not isinstance(each, Query | Explain | Verify):
            raise ReadOnlyMill(
                "this console only reads",
                detail="It takes SELECT, EXPLAIN and VERIFY.",
                hint="viewmill console --write, or mill.console(write=True), takes everything.",
                span=getattr(each, "span", None),
            )
    start = time.perf_counter()
    result = mill.sql(sql)
    took = {"ms": (time.perf_counter() - start) * 1e3, "version": mill.version}
    if result is None:
        return {"done": len(statements), **took}
    table = result.to_arrow()
    is_plan = isinstance(statements[-1], Explain)
    shown = table if is_plan else table.slice(0, SHOWN)
    return {"is_plan": is_plan, **rows_reply(shown, table.num_rows), **took}
