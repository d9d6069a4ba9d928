"""An order book that never rests: orders come, are filled or withdrawn, prices sway.

takes  a seed and how many orders stay open
gives  batches of bids or asks: +1 a new order, -1 one that left, exactly as it came
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COLUMNS = "t TIMESTAMP, id BIGINT, broker INT, volume BIGINT, price DECIMAL(12,2)"
MULTIPLICITY = "m"
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BROKERS = 10

Side = Literal["bids", "asks"]
Orders = npt.NDArray[np.int64]  # one row per order: t, id, broker, volume, price in cents


@dataclass
class OrderBook:
    """One side of the market, held at about `depth` open orders."""

    side: Side
    depth: int = 10_000
    seed: int = 1
    open_orders: Orders = field(init=False)

    def __post_init__(self) -> None:
        self.open_orders = np.empty((0, 5), np.int64)
        self._random = np.random.default_rng([self.seed, self.side == "asks"])
        self._next_id = 1
        self._clock = int(START.timestamp() * 1e6)
        self._batches = 0

    def batch(self, rows: int) -> pa.Table:
        """The next `rows` changes; once the book is full, half of them are orders that leave."""
        leaving = min(rows // 2, max(0, len(self.open_orders) + rows - self.depth))
        gone = self._withdraw(leaving)
        new = self._arrive(rows - leaving)
        self.open_orders = np.concatenate([self.open_orders, new])
        multiplicities = np.repeat([-1, 1], [leaving, rows - leaving])
        return to_arrow(np.concatenate([gone, new]), multiplicities)

    def _withdraw(self, count: int) -> Orders:
        chosen = self._random.choice(len(self.open_orders), count, replace=False)
        gone = self.open_orders[chosen]
        self.open_orders = np.delete(self.open_orders, chosen, axis=0)
        return gone

    def _arrive(self, count: int) -> Orders:
        random = self._random
        # The middle sways by 4 cents and orders keep 5 away from it, so that bids and asks of any
        # age never cross: an order that crosses would have been filled.
        self._batches += 1
        middle = 100_00 + 4 * math.sin(self._batches / 40)
        away = np.abs(random.normal(0, 60, count)) + 5
        price = middle - away if self.side == "bids" else middle + away
        orders = np.empty((count, 5), np.int64)
        orders[:, 0] = self._clock + np.cumsum(random.integers(0, 2_000, count))
        orders[:, 1] = np.arange(self._next_id, self._next_id + count)
        orders[:, 2] = random.integers(1, BROKERS + 1, count)
        orders[:, 3] = random.integers(1, 50, count) * 10
        orders[:, 4] = np.maximum(1, np.floor(price) if self.side == "bids" else np.ceil(price))
        self._next_id += count
        self._clock = int(orders[-1, 0]) if count else self._clock
        return orders


def to_arrow(orders: Orders, multiplicities: npt.NDArray[np.int64]) -> pa.Table:
    """Orders as an Arrow table with the multiplicity in the column `m`."""
    return pa.table(
        {
            "t": pa.array(orders[:, 0], pa.timestamp("us")),
            "id": pa.array(orders[:, 1]),
            "broker": pa.array(orders[:, 2].astype(np.int32)),
            "volume": pa.array(orders[:, 3]),
            "price": cents_to_decimals(orders[:, 4]),
            MULTIPLICITY: pa.array(multiplicities),
        }
    )


def cents_to_decimals(cents: npt.NDArray[np.int64]) -> pa.Array:
    """DECIMAL(12,2) values of whole cents.

    >>> cents_to_decimals(np.array([1050, -5])).to_pylist()
    [Decimal('10.50'), Decimal('-0.05')]
    """
    limbs = np.stack([cents, cents >> 63], axis=1).astype("<i8")
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(limbs.tobytes())]
    )
