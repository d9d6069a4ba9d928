"""A user's operation inside the kernels of shared windows.

takes  operations
gives  the source of `combine_user` and `inverse_user`, which call each by its number, and the
       names they read
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from viewmill.algebra.operation_calls import OperationCall
from viewmill.algebra.operations import Operation
from viewmill.kernels import compiler


def user_source(operations: Sequence[OperationCall]) -> str:
    """Functions that take the place of the empty ones; nothing without operations."""
    if not operations:
        return ""
    marks = ", ".join(_operation(each).fingerprint for each in operations)
    head = f"# Operations: {marks}"
    return "\n\n\n".join(["", head, _combine(operations), _inverse(operations)])


def _combine(operations: Sequence[OperationCall]) -> str:
    lines = [
        "def combine_user(which, to_w, to_r, to, old_w, old_r, old, new_w, new_r, new, w, r):",
        "    n, k = old_w[U(old), U(w)], new_w[U(new), U(w)]",
    ]
    for i, call in enumerate(operations):
        old, new, to = (_values(side, call) for side in ("old", "new", "to"))
        each = zip(old, new, to, strict=True)
        lines += [
            f"    {'if' if i == 0 else 'elif'} which == {i}:",
            "        if n == 0 or k == 0:",
            *(f"            {c} = {b} if n == 0 else {a}" for a, b, c in each),
            "        else:",
            *_called(f"combine_{i}", call, old, new, to),
        ]
    return "\n".join([*lines, "    to_w[U(to), U(w)] = n + k"])


def _inverse(operations: Sequence[OperationCall]) -> str:
    lines = [
        "def inverse_user(which, to_w, to_r, to, all_w, all_r, whole, old_w, old_r, old, w, r):",
        "    n, k = all_w[U(whole), U(w)], old_w[U(old), U(w)]",
    ]
    for i, call in enumerate(operations):
        if _operation(call).inverse is None:
            continue
        whole, old, to = (_values(side, call) for side in ("all", "old", "to"))
        lines += [
            f"    if which == {i}:",
            "        if k == 0 or n == k:",
            *(f"            {c} = {a} if k == 0 else 0" for a, c in zip(whole, to, strict=True)),
            "        else:",
            *_called(f"inverse_{i}", call, whole, old, to),
        ]
    return "\n".join([*lines, "    to_w[U(to), U(w)] = n - k"])


def _values(side: str, call: OperationCall) -> list[str]:
    """Where the values of one operation are: behind the count, or among the reals."""
    kind, first = ("w", "w + 1") if call.is_whole else ("r", "r")
    row = "whole" if side == "all" else side
    return [f"{side}_{kind}[U({row}), U({first} + {j})]" for j in range(len(call.kinds))]


def _called(
    function: str, call: OperationCall, left: list[str], right: list[str], to: list[str]
) -> list[str]:
    """Call it, and put what it gives in its place."""
    if not isinstance(_operation(call).identity, tuple):
        return [f"            {to[0]} = {function}({left[0]}, {right[0]})"]
    both = f"{function}(({', '.join(left)},), ({', '.join(right)},))"
    taken = [f"            {each} = value[{j}]" for j, each in enumerate(to)]
    return [f"            value = {both}", *taken]


def _operation(call: OperationCall) -> Operation:
    assert call.operation is not None
    return call.operation


def given_names(operations: Sequence[OperationCall]) -> list[str]:
    """What the source of these operations reads besides its own functions."""
    called = [f"{word}_{i}" for i in range(len(operations)) for word in ("combine", "inverse")]
    return ["U", "np", *called]


def with_names(names: dict[str, Any], operations: Sequence[OperationCall], compiled: bool) -> None:
    """Let the source find the operations' functions."""
    for i, call in enumerate(operations):
        operation = _operation(call)
        for word, function in (("combine", operation.combine), ("inverse", operation.inverse)):
            if function is not None:
                made: Any = compiler.inlined(_copy(function)) if compiled else function
                names[f"{word}_{i}"] = made


def _copy(function: Any) -> FunctionType:
    """Numba keeps its mark on the function it is given; the user's own stays clean."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, None, function.__closure__
    )
