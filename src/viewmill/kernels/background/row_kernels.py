"""The kernels of row indexes, which all tables of all mills share.

They are loaded when the first checked table is made, if the cache has them; otherwise a helper
process compiles them while tables hold their rows in dicts.
"""

from __future__ import annotations

import os

from viewmill.kernels.background.queue import Compilation, compile_queue
from viewmill.kernels.background.warm import ROW_KERNELS, is_warm, warm
from viewmill.program.compiler_setting import compiler_setting

# From this batch size on, waiting for the compiler is quicker than using a dict.
_MAX_INTERPRETED_ROWS = 200_000


class RowKernels:
    """Whether the kernels of row indexes are loaded."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is known: in a forked child the thread that compiles is gone."""
        self._are_loaded = False
        self._compilation: Compilation | None = None

    def are_ready(self, rows: int = 0) -> bool:
        """Whether they are loaded; compiling is started if need be, and waited for if so many
        rows come that this is quicker."""
        if self._are_loaded:
            return True
        mode = compiler_setting()
        if mode == "off":
            return False
        if mode == "now" or rows > _MAX_INTERPRETED_ROWS or is_warm(ROW_KERNELS):
            warm(ROW_KERNELS)
            self._are_loaded = True
        elif self._compilation is None:
            self._compilation = compile_queue().put(ROW_KERNELS, self._note_loaded)
        return self._are_loaded

    def _note_loaded(self) -> None:
        self._are_loaded = self._compilation is not None and not self._compilation.error


row_kernels = RowKernels()
os.register_at_fork(after_in_child=row_kernels.forget)
