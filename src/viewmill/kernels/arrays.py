"""A chain of matrices as arrays at work: changes stay products of thin matrices (section 7.1).

takes  Program with an `Arrays` body
gives  a Maintainer: a change of one matrix is U V with few columns in U; on its way up U is
       multiplied by what stands to the left, V by what stands to the right, by BLAS

What is applied waits beside the arrays until commit, so a rollback forgets it and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewmill.deltas.delta import Delta, Words
from viewmill.deltas.dictionary import Dictionary
from viewmill.deltas.product import Factor, Product, rows_of
from viewmill.errors import EvaluationFailed
from viewmill.program.arrays import ArrayJoin, ArrayLeaf, Arrays
from viewmill.program.program import Maintainer, Program

Matrix = npt.NDArray[np.float64]
Thin = tuple[Matrix, Matrix]  # U and V of a change U V

_LARGEST = 1 << 14  # keys below this: an array of 2 GB
_BATCH = 1 << 16
_ROWS = 64  # of a matrix at a time


def build_arrays(program: Program, dictionary: Dictionary) -> ArrayMaintainer:
    """A maintainer for the program."""
    assert isinstance(program.body, Arrays)
    return ArrayMaintainer(program, program.body)


@dataclass
class Grid:
    """A matrix, and the changes that are not committed."""

    held: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    waiting: list[Thin] = field(default_factory=list)

    def grow(self, height: int, width: int) -> None:
        """Make room for more keys."""
        rows, columns = self.held.shape
        if height > rows or width > columns:
            larger = np.zeros((max(height, rows), max(width, columns)))
            larger[:rows, :columns] = self.held
            self.held = larger

    def times(self, u: Matrix) -> Matrix:
        """This matrix times another one."""
        u = _tall(u, self.held.shape[1])
        total = self.held @ u
        for a, b in self.waiting:
            total[: len(a)] += a @ (b @ u[: b.shape[1]])
        return total

    def times_left(self, v: Matrix) -> Matrix:
        """Another matrix times this one."""
        v = _tall(v.T, self.held.shape[0]).T
        total = v @ self.held
        for a, b in self.waiting:
            total[:, : b.shape[1]] += (v[:, : len(a)] @ a) @ b
        return total

    def commit(self) -> None:
        """Add what waits, all at once: that is one product of matrices."""
        if self.waiting:
            u = np.concatenate([each for each, _ in self.waiting], axis=1)
            v = np.concatenate([each for _, each in self.waiting], axis=0)
            changed = np.flatnonzero(u.any(axis=1))
            if len(changed) < len(u) // 2:
                self.held[changed] += u[changed] @ v
            else:
                for start in range(0, len(u), _ROWS):  # what is made stays in the cache
                    self.held[start : start + _ROWS] += u[start : start + _ROWS] @ v
            self.waiting = []


@dataclass
class Node:
    """A matrix of the chain: its values, and how many rows of the join stand behind each."""

    total: Grid = field(default_factory=Grid)
    rows: Grid = field(default_factory=Grid)

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """Both."""
        return self.total, self.rows


class ArrayMaintainer(Maintainer):
    """A chain of matrices at work. Its rows are not listed until somebody asks for them."""

    form = "dense"

    def __init__(self, program: Program, body: Arrays) -> None:
        self.program, self._body = program, body
        self._all = list(body.chain.walk())
        self._nodes = {id(each): Node() for each in self._all}
        self._names = [state.name for state in program.states]
        self._leaves = {e.input: e for e in self._all if isinstance(e, ArrayLeaf)}
        self._parent = {
            id(child): each
            for each in self._all
            if isinstance(each, ArrayJoin)
            for child in (each.left, each.right)
        }
        self._arrived: tuple[str, list[tuple[Thin, Thin]]] | None = None
        self.enumerator = self

    # Changes.

    def apply(self, input: str, delta: Delta | Product) -> None:
        """Note a change; those of one input climb together."""
        if not delta.size:
            return
        leaf = self._leaves[input]
        if self._arrived is not None and self._arrived[0] != input:
            self._climb_arrived()
        thin = _product_of(leaf, delta) if isinstance(delta, Product) else None
        found = thin or _rows_of(leaf, rows_of(delta))
        self._make_room(leaf, found[0])
        if self._arrived is None:
            self._arrived = input, []
        self._arrived[1].append(found)

    def _climb_arrived(self) -> None:
        if self._arrived is None:
            return
        input_, changes = self._arrived
        self._arrived = None
        leaf = self._leaves[input_]
        for which in range(2):
            height = max(len(each[which][0]) for each in changes)
            width = max(each[which][1].shape[1] for each in changes)
            us = [_tall(each[which][0], height) for each in changes]
            vs = [_tall(each[which][1].T, width).T for each in changes]
            self._climb(leaf, which, np.concatenate(us, axis=1), np.concatenate(vs, axis=0))

    def _climb(self, node: ArrayLeaf | ArrayJoin, which: int, u: Matrix, v: Matrix) -> None:
        """Add a change to a matrix and to all that are made of it."""
        while True:
            self._nodes[id(node)].grids[which].waiting.append((u, v))
            above = self._parent.get(id(node))
            if above is None:
                return
            if above.left is node:
                v = self._nodes[id(above.right)].grids[which].times_left(v)
            else:
                u = self._nodes[id(above.left)].grids[which].times(u)
            node = above

    def _make_room(self, leaf: ArrayLeaf, change: Thin) -> None:
        """Every matrix with the rows or columns of this one gets their new keys."""
        height, width = len(change[0]), change[1].shape[1]
        order = [e for e in self._all if isinstance(e, ArrayLeaf)]
        at = order.index(leaf)
        for each in self._all:
            leaves = [e for e in each.walk() if isinstance(e, ArrayLeaf)]
            first, last = order.index(leaves[0]), order.index(leaves[-1])
            rows = height if first == at else width if first == at + 1 else 0
            columns = width if last == at else height if last == at - 1 else 0
            for grid in self._nodes[id(each)].grids:
                grid.grow(rows, columns)

    def flush(self) -> Delta:
        """Nothing is listed: a change of one row may change every value."""
        self._climb_arrived()
        return Delta.empty(self.program.output)

    def commit(self) -> None:
        """Keep what was applied."""
        self._climb_arrived()
        for node in self._nodes.values():
            for grid in node.grids:
                height = max([len(grid.held), *(len(u) for u, _ in grid.waiting)])
                width = max([grid.held.shape[1], *(v.shape[1] for _, v in grid.waiting)])
                grid.grow(height, width)
                grid.waiting = [(_tall(u, height), _tall(v.T, width).T) for u, v in grid.waiting]
                grid.commit()

    def rollback(self) -> None:
        """Forget what was applied."""
        self._arrived = None
        for node in self._nodes.values():
            for grid in node.grids:
                grid.waiting = []

    # Reading.

    @property
    def _root(self) -> Node:
        return self._nodes[id(self._body.chain)]

    def deltas(self, rows: int = _BATCH) -> Iterator[Delta]:
        """The values of the product, row by row of the matrix."""
        total, counts = self._root.total.held, self._root.rows.held
        step = max(1, rows // max(total.shape[1], 1))
        for start in range(0, len(total), step):
            i, j = np.nonzero(counts[start : start + step])
            if len(i):
                columns = {
                    "row": i + start,
                    "column": j,
                    "value": total[start : start + step][i, j],
                }
                yield self._delta(columns)

    def _delta(self, columns: Mapping[str, Words]) -> Delta:
        shown = tuple(np.ascontiguousarray(columns[each]) for each in self._body.outputs)
        size = len(columns["row"])
        return Delta(self.program.output, shown, (None,) * len(shown), None, size)

    def contents(self) -> Delta:
        """The output as committed."""
        i, j = np.nonzero(self._root.rows.held)
        return self._delta({"row": i, "column": j, "value": self._root.total.held[i, j]})

    def count(self) -> int:
        """How many values there are."""
        return int(np.count_nonzero(self._root.rows.held))

    def distinct_count(self) -> int:
        """As many as there are values: each has a key of its own, if the view shows the keys."""
        return self.count()

    def load(self, state: str, rows: Iterable[pa.RecordBatch]) -> None:
        """Hold nothing: the inputs are fed again."""
        self.release(state)

    def release(self, state: str) -> None:
        """Give the array's memory back."""
        at = self._names.index(state)
        self._nodes[id(self._all[at])] = Node()

    def snapshot(self, state: str) -> Iterator[pa.RecordBatch]:
        """The values of a matrix."""
        node = self._nodes[id(self._all[self._names.index(state)])]
        i, j = np.nonzero(node.rows.held)
        columns = [i, j, node.rows.held[i, j], node.total.held[i, j]]
        names = ["row", "column", "rows", "total"]
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in columns], names=names)

    def state_bytes(self) -> Mapping[str, int]:
        """Bytes held, by state."""
        nodes = (self._nodes[id(each)] for each in self._all)
        return {
            name: sum(grid.held.nbytes for grid in node.grids)
            for name, node in zip(self._names, nodes, strict=True)
        }


def _tall(matrix: Matrix, height: int) -> Matrix:
    """The matrix with rows of zeros below."""
    if len(matrix) == height:
        return matrix
    larger = np.zeros((height, matrix.shape[1]))
    larger[: len(matrix)] = matrix
    return larger


# Changes as thin matrices: of the values, and of the row counts.


def _product_of(leaf: ArrayLeaf, product: Product) -> tuple[Thin, Thin] | None:
    """A product whose factors have the rows and the columns apart; others may scale it."""
    names = product.schema.names
    rows, columns = names.index(leaf.row), names.index(leaf.column)
    left = next(f for f in product.factors if rows in f.columns)
    right = next(f for f in product.factors if columns in f.columns)
    value = names.index(leaf.value)
    if left is right or any(value in f.columns for f in product.factors):
        return None  # a value that is a column like any other
    others = [each for each in product.factors if each is not left and each is not right]
    scale = np.prod([_weights(each)[0].sum() for each in others])
    times = np.prod([_weights(each)[1].sum() for each in others])
    (u, us), (v, vs) = _vector(left, rows), _vector(right, columns)
    return (
        (u[:, None] * scale, v[None]),
        (us[:, None] * times, vs[None]),
    )


def _weights(factor: Factor) -> tuple[Matrix, Matrix]:
    times = factor.rows.multiplicities().astype(np.float64)
    return times if factor.values is None else times * factor.values, times


def _vector(factor: Factor, column: int) -> tuple[Matrix, Matrix]:
    keys = factor.rows.columns[factor.columns.index(column)]
    _require_keys(keys)
    values, times = _weights(factor)
    size = int(keys.max()) + 1
    return _summed(keys, values, size), _summed(keys, times, size)


def _summed(keys: Words, weights: Matrix, size: int) -> Matrix:
    total = np.zeros(size)
    np.add.at(total, keys, weights)
    return total


def _rows_of(leaf: ArrayLeaf, delta: Delta) -> tuple[Thin, Thin]:
    """Rows as one-hot vectors of the rows (or columns) they change, and what these get."""
    names = delta.schema.names
    i, j = (delta.columns[names.index(name)] for name in (leaf.row, leaf.column))
    _require_keys(i)
    _require_keys(j)
    values = delta.columns[names.index(leaf.value)]
    if not np.isfinite(values).all():
        raise EvaluationFailed("a DENSE view keeps finite numbers only", hint="Drop the hint.")
    times = delta.multiplicities().astype(np.float64)
    made = [_thin(i, j, weights) for weights in (values * times, times)]
    return made[0], made[1]


def _thin(i: Words, j: Words, weights: Matrix) -> Thin:
    height, width = int(i.max()) + 1, int(j.max()) + 1
    rows, at = np.unique(i, return_inverse=True)
    if len(rows) > len(np.unique(j)):
        v, u = _thin(j, i, weights)
        return u.T, v.T
    values = np.zeros((len(rows), width))
    np.add.at(values, (at.ravel(), j), weights)
    hot = np.zeros((height, len(rows)))
    hot[rows, np.arange(len(rows))] = 1.0
    return hot, values


def _require_keys(keys: Words) -> None:
    low, high = int(keys.min()), int(keys.max())
    if low < 0 or high >= _LARGEST:
        wrong = low if low < 0 else high
        raise EvaluationFailed(
            f"key {wrong} is outside 0 to {_LARGEST - 1}, what a DENSE view keeps",
            hint="Create the view without the hint DENSE.",
        )
