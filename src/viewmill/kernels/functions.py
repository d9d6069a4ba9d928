"""The functions of a program as a maintainer calls them: compiled, or as they are.

takes  trigger source, what a user's rings compute
gives  a function by its name and the types of its arguments, compiled when it is first asked for
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from viewmill.algebra.rings import Ring
from viewmill.kernels import compiler
from viewmill.kernels.feed import Functions, Kernel
from viewmill.kernels.source import PLAIN, STRUCTURES, load_source, without_head
from viewmill.program.program import Program, Triggers

_MOST_ARGUMENTS = 64  # of a ring whose lift is one function for all


def functions_of(program: Program, body: Triggers, compiled: bool) -> Functions:
    """The functions of a program, by name and argument types."""
    return functions_in(program.strategy, without_head(body.source), compiled, body.rings)


@cache
def functions_in(
    strategy: str, source: str, compiled: bool,
    rings: tuple[tuple[str, Ring], ...] = (),
) -> Functions:  # fmt: skip
    """The functions in some source; programs that differ only in names share them."""
    header = f"Triggers of {strategy}."
    own = {n: f for prefix, ring in rings for n, f in ring_functions(prefix, ring).items()}
    if not compiled:
        plain = load_source(strategy, source, PLAIN, header, own)
        for function in plain.values():
            function.__globals__.update(own)
        # Infinity minus infinity is NaN, here as in compiled code, without a warning from NumPy.
        quiet = np.errstate(invalid="ignore", over="ignore")
        return lambda name, arguments: quiet(plain[name])
    functions = load_source(strategy, source, STRUCTURES, header, own)
    for name, function in functions.items():  # they may call one another
        function.__globals__[name] = compiler.structure(function)
        function.__globals__.update({n: compiler.inlined(f) for n, f in own.items()})

    @cache
    def compiled_function(name: str, arguments: tuple[Any, ...]) -> Kernel:
        return compiler.compile_kernel(functions[name], arguments)

    return compiled_function


def ring_functions(prefix: str, ring: Ring) -> dict[str, Callable[..., Any]]:
    """A user's functions by the names that trigger source calls."""
    named = {"add": ring.add, "negate": ring.negate, "multiply": ring.multiply}
    if ring.finish is not None:
        named["finish"] = ring.finish
    lifts = ring.lifts(_MOST_ARGUMENTS)
    named |= {f"lift_{i}": lift for i, lift in enumerate(lifts)}
    return {f"{prefix}_{name}": function for name, function in named.items()}
