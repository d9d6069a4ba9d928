"""A user's operation inside the kernels of shared windows.

takes  operations
gives  the source of `combine_user`, which calls each by its number, and the names it reads
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from viewmill.algebra.operations import Operation
from viewmill.kernels import compiler


def user_source(operations: Sequence[Operation]) -> str:
    """A function that takes the place of the empty one; nothing without operations."""
    if not operations:
        return ""
    lines = [
        "def combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):",
        "    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]",
    ]
    for i, operation in enumerate(operations):
        width = operation.width
        old, new = _values("old", width), _values("new", width)
        first = "if" if i == 0 else "elif"
        lines += [
            f"    {first} which == {i}:",
            "        if n == 0 or k == 0:",
            *(f"            to_r[U(to), U(r + {j})] = new_r[U(new), U(r + {j})] if n == 0 "
              f"else old_r[U(old), U(r + {j})]" for j in range(width)),
            "        else:",
        ]  # fmt: skip
        if width == 1:
            lines.append(f"            to_r[U(to), U(r)] = combine_{i}({old}, {new})")
        else:
            lines.append(f"            value = combine_{i}(({old}), ({new}))")
            lines += [f"            to_r[U(to), U(r + {j})] = value[{j}]" for j in range(width)]
    lines.append("    to_w[U(to), U(w)] = n + k")
    marks = ", ".join(each.fingerprint for each in operations)
    return f"\n\n\n# Operations: {marks}\n" + "\n".join(lines)


def _values(side: str, width: int) -> str:
    return ", ".join(f"{side}_r[U({side}), U(r + {j})]" for j in range(width))


def with_names(names: dict[str, Any], operations: Sequence[Operation], compiled: bool) -> None:
    """Let the source find the operations' functions."""
    for i, operation in enumerate(operations):
        function: Any = operation.combine
        names[f"combine_{i}"] = compiler.inlined(_copy(function)) if compiled else function


def _copy(function: Any) -> FunctionType:
    """Numba keeps its mark on the function it is given; the user's own stays clean."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
