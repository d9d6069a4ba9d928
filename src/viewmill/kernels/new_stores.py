"""Where states live and rows gather: in compiled structures, or in plain ones.

takes  the kind of a state, the schema of the output, and which of both it shall be
gives  what a maintainer holds, whichever it is
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from viewmill.algebra.schema import Schema
from viewmill.deltas.delta import Delta
from viewmill.kernels import (
    ordered_stores,
    payloads,
    plain,
    sorted_stores,
    stores,
    structures,
    tree_stores,
)
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


Stores = dict[type[StateKind], Callable[[Any], Store]]

_COMPILED: Stores = {
    Keyed: stores.KeyedStore,
    Indexed: tree_stores.IndexedStore,
    Passing: tree_stores.PassingStore,
    Listed: tree_stores.ListedStore,
    Ordered: ordered_stores.OrderedStore,
    Sorted: sorted_stores.SortedStore,
}
_PLAIN: Stores = {
    Keyed: plain_stores.KeyedStore,
    **dict.fromkeys((Indexed, Passing, Listed), plain_tree_stores.TreeStore),
    Ordered: plain_ordered_stores.OrderedStore,
    Sorted: plain_sorted_stores.SortedStore,
}


def new_store(kind: StateKind, compiled: bool) -> Store:
    """Create the store of a state of this kind."""
    return stores_of(compiled)[type(kind)](kind)


@cache
def stores_of(compiled: bool) -> Stores:
    """The stores by kind: those above, and those that a module of the library has as STORES."""
    library = structures if compiled else plain
    found = dict(_COMPILED if compiled else _PLAIN)
    for each in iter_modules(library.__path__):
        module = import_module(f"{library.__name__}.{each.name}")
        found |= getattr(module, "STORES", {})
    return found


def new_scratch(kind: Indexed, compiled: bool) -> Scratch:
    """Create the store of a scratch state, which is emptied often."""
    return tree_stores.ScratchStore(kind) if compiled else plain_tree_stores.TreeStore(kind)


def new_outlet(schema: Schema, compiled: bool) -> Outlet:
    """Create a buffer of emitted rows with this schema."""
    return stores.Outlet(schema) if compiled else plain_stores.Outlet(schema)


def new_failure(compiled: bool) -> Failure:
    """Create a failure record."""
    return stores.Failure() if compiled else plain_stores.Failure()
