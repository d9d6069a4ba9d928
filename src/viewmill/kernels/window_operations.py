"""A user's operation inside the kernels of shared windows.

takes  operations
gives  the source of `combine_user`, which calls each by its number, and the names it reads
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.operations import Operation
from viewmill.kernels import compiler


def user_source(operations: Sequence[OperationCall]) -> str:
    """A function that takes the place of the empty one; nothing without operations."""
    if not operations:
        return ""
    lines = [
        "def combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):",
        "    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]",
    ]
    for i, call in enumerate(operations):
        lines += [f"    {'if' if i == 0 else 'elif'} which == {i}:", *_one(i, call)]
    lines.append("    to_w[U(to), U(w)] = n + k")
    marks = ", ".join(_operation(each).fingerprint for each in operations)
    return f"\n\n\n# Operations: {marks}\n" + "\n".join(lines)


def _one(i: int, call: OperationCall) -> list[str]:
    """The values of one operation: behind the count, or among the reals."""
    kind, first = ("w", "w + 1") if call.is_whole else ("r", "r")
    places = [f"{first} + {j}" for j in range(len(call.kinds))]
    old, new, to = (
        [f"{side}_{kind}[U({side}), U({place})]" for place in places]
        for side in ("old", "new", "to")
    )
    choose = [
        f"            {c} = {b} if n == 0 else {a}" for a, b, c in zip(old, new, to, strict=True)
    ]
    if isinstance(_operation(call).identity, tuple):
        both = f"combine_{i}(({', '.join(old)},), ({', '.join(new)},))"
        made = [f"            value = {both}"]
        made += [f"            {each} = value[{j}]" for j, each in enumerate(to)]
    else:
        made = [f"            {to[0]} = combine_{i}({old[0]}, {new[0]})"]
    return ["        if n == 0 or k == 0:", *choose, "        else:", *made]


def _operation(call: OperationCall) -> Operation:
    assert call.operation is not None
    return call.operation


def with_names(names: dict[str, Any], operations: Sequence[OperationCall], compiled: bool) -> None:
    """Let the source find the operations' functions."""
    for i, call in enumerate(operations):
        function: Any = _operation(call).combine
        names[f"combine_{i}"] = compiler.inlined(_copy(function)) if compiled else function


def _copy(function: Any) -> FunctionType:
    """Numba keeps its mark on the function it is given; the user's own stays clean."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
