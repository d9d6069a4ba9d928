"""Persons, auctions and bids of an online auction house, as the Nexmark suite draws them.

takes  a number of events and a seed
gives  Arrow tables in which rows follow one another in time

Of fifty events one is a new person, three are auctions and the others bids; half of the bids go to
the auctions that are hot just then, and most come from a few busy bidders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

TABLES = {
    "person": "id BIGINT, name STRING, email STRING, credit_card STRING, city STRING,"
    " state STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT,"
    " date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,"
    " date_time TIMESTAMP, extra STRING",
    "side_input": "key BIGINT, value STRING",
}

_START = np.datetime64("2015-07-15T00:00:00", "us").astype(np.int64)
_STEP = 100_000  # microseconds between events
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne", "Bend", "Kent")
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple", *(f"channel-{i}" for i in range(12)))
_ITEMS = ("lamp", "clock", "violin", "map", "coin", "chair", "atlas", "print")
_LETTERS = ("cat", "abc", "ccc", "xyz", "doc", "", "icicle")
CATEGORIES, SIDE_ROWS = 5, 100


class NexmarkData:
    """All events up to a number, by table."""

    def __init__(self, events: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        numbers = np.arange(events)
        place = numbers % 50
        self._persons = numbers[place == 0]
        self._auctions = numbers[(place > 0) & (place < 4)]
        self._bids = numbers[place >= 4]

    def tables(self) -> dict[str, pa.Table]:
        """Every table."""
        keys = np.arange(SIDE_ROWS)
        side = pa.table({"key": keys, "value": _texts("value ", keys)})
        made = {"person": self._person(), "auction": self._auction(), "bid": self._bid()}
        return {**made, "side_input": side}

    def _pick(self, values: Sequence[str], count: int) -> Any:
        return pa.array(values).take(pa.array(self._random.integers(0, len(values), count)))

    def _person(self) -> pa.Table:
        count = len(self._persons)
        ids = 1000 + np.arange(count)
        names = pc.binary_join_element_wise(
            self._pick(_FIRST, count), self._pick(_LAST, count), " "
        )
        cards = pc.cast(pa.array(self._random.integers(10**15, 10**16, count)), pa.string())
        return pa.table(
            {
                "id": ids,
                "name": names,
                "email": _texts("person", ids, "@example.com"),
                "credit_card": cards,
                "city": self._pick(_CITIES, count),
                "state": self._pick(_STATES, count),
                "date_time": _times(self._persons),
                "extra": self._extra(count),
            }
        )

    def _auction(self) -> pa.Table:
        count = len(self._auctions)
        lasts = self._random.integers(20, 600, count) * _STEP
        prices = self._prices(count)
        return pa.table(
            {
                "id": 1000 + np.arange(count),
                "item": self._pick(_ITEMS, count),
                "description": self._extra(count),
                "initial_bid": prices,
                "reserve": prices + self._prices(count),
                "date_time": _times(self._auctions),
                "expires": _moments(_START + self._auctions * _STEP + lasts),
                "seller": self._someone(self._auctions // 50, 4),
                "category": 10 + self._random.integers(0, CATEGORIES, count),
                "extra": self._extra(count),
            }
        )

    def _bid(self) -> pa.Table:
        count = len(self._bids)
        known = np.maximum(self._bids // 50 * 3, 1)  # auctions that are there by then
        hot = (known - 1) // 100 * 100
        recent = known - 1 - self._random.integers(0, 100, count) % known
        is_hot = self._random.random(count) < 0.5
        channels = self._pick(_CHANNELS, count)
        return pa.table(
            {
                "auction": 1000 + np.where(is_hot, hot, recent),
                "bidder": self._someone(self._bids // 50, 2),
                "price": self._prices(count),
                "channel": channels,
                "url": self._urls(count),
                "date_time": _times(self._bids),
                "extra": self._extra(count),
            }
        )

    def _urls(self, count: int) -> Any:
        folders = [
            pc.cast(pa.array(self._random.integers(0, 40, count)), pa.string()) for _ in range(3)
        ]
        path = pc.binary_join_element_wise(pa.scalar("https://www.nexmark.com"), *folders, "/")
        marks = pc.cast(pa.array(self._random.integers(0, 1000, count)), pa.string())
        query = pc.binary_join_element_wise(path, marks, "/item.htm?query=1&channel_id=")
        return pc.if_else(pa.array(self._random.random(count) < 0.7), query, path)

    def _someone(self, newest: Ints, busy: int) -> Ints:
        """A person who is there by then: mostly one of the newest hundreds, who are busy."""
        count = len(newest)
        hot = newest // 100 * 100
        anyone = newest - self._random.integers(0, 1000, count) % (newest + 1)
        found: Ints = 1000 + np.where(self._random.integers(0, busy, count) > 0, hot, anyone)
        return found

    def _prices(self, count: int) -> Ints:
        return np.round(10 ** (self._random.random(count) * 6) * 100).astype(np.int64)

    def _extra(self, count: int) -> Any:
        return pc.binary_join_element_wise(*(self._pick(_LETTERS, count) for _ in range(4)), "")


def _times(numbers: Ints) -> Any:
    return _moments(_START + numbers * _STEP)


def _moments(microseconds: Ints) -> Any:
    return pa.array(microseconds.astype(np.int64)).view(pa.timestamp("us"))


def _texts(before: str, numbers: Ints, after: str = "") -> Any:
    middle = pc.cast(pa.array(numbers), pa.string())
    return pc.binary_join_element_wise(pa.scalar(before), middle, pa.scalar(after), "")
