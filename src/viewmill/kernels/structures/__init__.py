"""The compiled structures: what trigger source calls when Numba compiles it.

A state is one int64, the address of its header; an entry is the address of its payload. Nothing
here allocates: memory is made and grown outside, in `kernels.stores`.
"""

from viewmill.kernels.collect import collect

__all__: list[str] = []  # filled with the functions of trigger source

_FUNCTIONS = collect(__name__, __path__)
globals().update(_FUNCTIONS)
__all__ += _FUNCTIONS
