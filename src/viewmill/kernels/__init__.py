"""Programs at work: triggers compiled by Numba over structures of words, or run as plain Python."""

from viewmill.kernels.build import build
from viewmill.kernels.row_index import Problem, RowIndex

__all__ = ["Problem", "RowIndex", "build"]
