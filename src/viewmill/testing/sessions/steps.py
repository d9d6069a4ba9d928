"""Steps of a session: what one is, and how a session is written to and read from JSON lines.

A step is a verb and its arguments, plain values only, so that a session can be stored, shortened
and played again: `["insert", "Orders", [[1, {"decimal": "2.50"}]]]`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

Step = tuple[Any, ...]


def write_steps(steps: Iterable[Step]) -> str:
    """One JSON line for each step."""
    return "".join(json.dumps(_encoded(step), ensure_ascii=True) + "\n" for step in steps)


def read_steps(text: str) -> list[Step]:
    """The inverse of `write_steps`; empty lines and lines that start with # are skipped."""
    lines = (line.strip() for line in text.splitlines())
    return [_decoded(json.loads(line)) for line in lines if line and not line.startswith("#")]


def _encoded(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"time": value.isoformat()}
        case list() | tuple():
            return [_encoded(each) for each in value]
        case dict():
            return {"map": [[key, _encoded(each)] for key, each in value.items()]}
        case _:
            return value


def _decoded(value: Any) -> Any:
    match value:
        case {"float": text}:
            return float(text)
        case {"decimal": text}:
            return Decimal(text)
        case {"time": text}:
            return dt.datetime.fromisoformat(text)
        case {"map": pairs}:
            return {key: _decoded(each) for key, each in pairs}
        case list():
            return tuple(_decoded(each) for each in value)
        case _:
            return value


def without(steps: Sequence[Step], start: int, stop: int) -> list[Step]:
    """The steps without those from `start` up to `stop`."""
    return [*steps[:start], *steps[stop:]]
