"""The quick half of the gate: columns whose values are all plain need no closer look.

takes  Arrow tables of one schema
gives  whether all strings are ASCII, and decimals, dates and times within their bounds; of which
       columns nothing is said

What is not plain may still be right: `deltas.gate` looks at each value then.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.deltas.gate import checked_columns, time_bounds
from viewmill.kernels.arrow_columns import ARRAY_WORDS, is_text, kind_of
from viewmill.kernels.library import kernel
from viewmill.kernels.stores import address_of
from viewmill.kernels.structures import columns
from viewmill.kernels.structures.plain_columns import plain_columns

_MOST_DIGITS = 18


class QuickGate:
    """Checks the columns of a table that compiled code can check; `rest` are the others."""

    def __init__(self, schema: Any) -> None:
        checked = {i: _asked(schema.types[i]) for i in checked_columns(schema)}
        self._columns = [i for i, asked in checked.items() if asked is not None]
        self.rest = [i for i, asked in checked.items() if asked is None]
        self._asked = np.array([checked[i] for i in self._columns] or [(0, 0, 0)], np.int64)
        self._array = np.zeros(ARRAY_WORDS, np.int64)
        self._places = address_of(self._array), address_of(self._asked)
        self._look, self._busy = kernel(plain_columns), Lock()

    def is_plain(self, table: Any) -> bool:
        """Whether all values are plain; False if there is no quick way to know."""
        batches = table.select(self._columns).to_batches()
        if len(batches) != 1 or not self._busy.acquire(False):
            return False
        try:
            (batch,) = batches
            batch.validate()  # the last offset lies within the bytes
            array, asked = self._places
            batch._export_to_c(array)
            return bool(self._look(array, asked, len(self._columns), batch.num_rows))
        except pa.ArrowInvalid:
            return False
        finally:
            self._busy.release()


def _asked(type_: Any) -> tuple[int, int, int] | None:
    """How values lie in memory, the least and the greatest; None if kernels cannot look."""
    if is_text(type_):
        kind = kind_of(type_)
        assert kind is not None
        return kind, 0, 0
    if pa.types.is_decimal128(type_) and type_.precision <= _MOST_DIGITS:
        most = 10**type_.precision - 1
        return columns.DECIMAL, -most, most
    if pa.types.is_date32(type_):
        return columns.HALF, *time_bounds(type_)
    if pa.types.is_timestamp(type_) and type_.unit != "ns":
        return columns.WORD, *time_bounds(type_)
    return None
