"""The kernels that Python itself calls on structures, compiled when first used."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from viewmill.kernels import compiler

if TYPE_CHECKING:
    from collections.abc import Callable


@cache
def kernel(function: Any) -> Callable[..., int]:
    """A function of the structures library that Python can call, quickly; it gives a word.

    An argument is a word unless its annotation names an array type of the compiler.
    """
    own = function.py_func
    names = own.__code__.co_varnames[: own.__code__.co_argcount]
    types = [getattr(compiler, own.__annotations__.get(name, "WORD")) for name in names]
    return compiler.compile_structure(function, tuple(types))
