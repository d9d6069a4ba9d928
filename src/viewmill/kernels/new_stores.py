"""Where states live and rows gather: in compiled structures, or in plain ones.

takes  the kind of a state, the schema of the output, and which of both it shall be
gives  what a maintainer holds, whichever it is
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.kernels import ordered_stores, payloads, sorted_stores, stores, tree_stores
from viewmill.kernels.plain import ordered_stores as plain_ordered_stores
from viewmill.kernels.plain import sorted_stores as plain_sorted_stores
from viewmill.kernels.plain import stores as plain_stores
from viewmill.kernels.plain import tree_stores as plain_tree_stores
from viewmill.kernels.product_feed import Scratch
from viewmill.program.states import Indexed, Keyed, Listed, Ordered, Passing, Sorted, StateKind


class Store(Protocol):
    """The memory of a state."""

    handle: Any

    def make_room(self) -> bool: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def show_committed(self, on: bool) -> None: ...
    def clear(self) -> None: ...
    def load_payload(self, keys: npt.NDArray[np.int64], payload: payloads.Payload) -> None: ...
    def export_payload(self) -> tuple[npt.NDArray[np.int64], payloads.Payload]: ...
    @property
    def nbytes(self) -> int: ...


@runtime_checkable
class Touching(Protocol):
    """A store that knows which keys were touched, in which order."""

    def touched_key(self, t: int) -> tuple[int, ...]: ...


class Outlet(Protocol):
    """A buffer of emitted rows."""

    handle: Any

    def take(self) -> Delta: ...
    def lend(self) -> Delta: ...
    def clear(self) -> None: ...


class Failure(Protocol):
    """A record of the first failure."""

    handle: Any
    words: Any  # the first is not zero if there is one

    @property
    def row(self) -> int: ...
    def noted(self) -> bool: ...
    def take(self) -> tuple[int, int]: ...


def new_store(kind: StateKind, compiled: bool) -> Store:
    """Create the store of a state of this kind."""
    match kind:
        case Keyed():
            return stores.KeyedStore(kind) if compiled else plain_stores.KeyedStore(kind)
        case Indexed():
            return tree_stores.IndexedStore(kind) if compiled else plain_tree_stores.TreeStore(kind)
        case Passing():
            return tree_stores.PassingStore(kind) if compiled else plain_tree_stores.TreeStore(kind)
        case Listed():
            return tree_stores.ListedStore(kind) if compiled else plain_tree_stores.TreeStore(kind)
        case Ordered():
            if compiled:
                return ordered_stores.OrderedStore(kind)
            return plain_ordered_stores.OrderedStore(kind)
        case Sorted():
            if compiled:
                return sorted_stores.SortedStore(kind)
            return plain_sorted_stores.SortedStore(kind)


def new_scratch(kind: Indexed, compiled: bool) -> Scratch:
    """Create the store of a scratch state, which is emptied often."""
    return tree_stores.ScratchStore(kind) if compiled else plain_tree_stores.TreeStore(kind)


def new_outlet(schema: Schema, compiled: bool) -> Outlet:
    """Create a buffer of emitted rows with this schema."""
    return stores.Outlet(schema) if compiled else plain_stores.Outlet(schema)


def new_failure(compiled: bool) -> Failure:
    """Create a failure record."""
    return stores.Failure() if compiled else plain_stores.Failure()
