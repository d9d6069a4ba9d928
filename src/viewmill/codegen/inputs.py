"""The inputs of a program: one for each occurrence of a source in its query."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.relations import Relation, Scan
from viewmill.algebra.schema import Schema
from viewmill.algebra.walk import scans
from viewmill.program.program import Input


def program_inputs(query: Relation) -> tuple[Input, ...]:
    """Every scan as an input, named by its alias."""
    return tuple(input_of(scan) for scan in scans(query))


def input_of(scan: Scan) -> Input:
    """The input of one scan, with the source's own column names."""
    fields = tuple(
        replace(each, name=each.name.removeprefix(f"{scan.alias}.")) for each in scan.schema
    )
    return Input(scan.alias, scan.source, Schema(fields))
