"""A value inside JSON text by its path, as Spark's get_json_object finds and writes it."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from viewmill.program.float_text import float_text

_STEP = re.compile(r"""\.([^.\[\]*']+)|\['([^']*)'\]|\[(\d+)\]""")


def get_json_object(text: str, path: str) -> str | None:
    """The value at a path like $.a.b[0]; None where there is none, or the text is no JSON."""
    steps = _steps(path)
    if steps is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for step in steps:
        if isinstance(step, int):
            inside = isinstance(value, list) and step < len(value)
        else:
            inside = isinstance(value, dict) and step in value
        if not inside:
            return None
        value = value[step]
    return value if value is None or isinstance(value, str) else _written(value)


@cache
def _steps(path: str) -> tuple[str | int, ...] | None:
    """The names and indexes of a path; None if it is none."""
    if not path.startswith("$"):
        return None
    steps, at = list[str | int](), 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, quoted, index = found.groups()
        steps.append(int(index) if index is not None else name if name is not None else quoted)
        at = found.end()
    return tuple(steps)


def _written(value: Any) -> str:
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, dict):
        inside = (f"{json.dumps(k, ensure_ascii=False)}:{_written(v)}" for k, v in value.items())
        return "{" + ",".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
