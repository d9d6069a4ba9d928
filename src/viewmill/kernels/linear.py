"""A program that only computes: rows in, rows out, nothing kept."""

from __future__ import annotations

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.kernels.build import TriggerMaintainer


class Linear:
    """Runs a program without states."""

    def __init__(self, maintainer: TriggerMaintainer) -> None:
        self._maintainer = maintainer
        (self._input,) = maintainer.program.inputs

    @property
    def schema(self) -> Schema:
        """The schema of the input rows."""
        return self._input.schema

    def run(self, rows: Delta) -> Delta:
        """What the rows become; equal ones become one."""
        try:
            self._maintainer.apply(self._input.name, rows)
            return self._maintainer.flush()
        finally:
            self._maintainer.rollback()
