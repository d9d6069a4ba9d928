"""The uncompiled twins of `structures`: dicts, Python integers, fractions; slow and obvious."""

from viewmill.kernels.collect import collect

__all__: list[str] = []  # filled with the functions of trigger source

_FUNCTIONS = collect(__name__, __path__)
globals().update(_FUNCTIONS)
__all__ += _FUNCTIONS
