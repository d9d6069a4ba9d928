"""Sorted states: the compiled ones against the plain ones, which are sorted lists."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, DOUBLE, STRING
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import column_reader, compiler
from viewmill.kernels.plain import sorted as plain
from viewmill.kernels.plain.arithmetic import float_key as plain_float_key
from viewmill.kernels.plain.sorted_stores import SortedStore as PlainStore
from viewmill.kernels.plain.stores import Texts as PlainTexts
from viewmill.kernels.sorted_stores import SortedStore
from viewmill.kernels.source import STRUCTURES, load_source
from viewmill.kernels.text_store import Texts
from viewmill.program.states import Slot, Sorted

pytestmark = pytest.mark.xdist_group("sorted")  # one worker compiles, none waits

# A group, a text in descending order, a number; one word besides.
FIELDS = (Field("g", BIGINT, False), Field("t", STRING, False), Field("n", BIGINT, False))
KIND = Sorted(FIELDS, ("number", "text_down", "number"), (Slot("word", "int"),))
WORDS = [f"{letter}{'x' * size}" for letter in "abcé" for size in (0, 1, 7, 8, 9)]
SOURCE = """
def insert(s, g, t, n):
    sorted_insert(s, (g, t, n))
    return 0


def remove(s, g, t, n):
    sorted_remove(s, (g, t, n))
    return 0


def put(s, g, t, n, x):
    p = sorted_from(s, (g, t, n))
    if p < sorted_after(s, (g, t, n)):
        sorted_put(s, p, (x,))
    return 0


def count(s, n, t, x, nulls, m):
    return sorted_count(s, (n, t, x, nulls), m)


def hide(s, g):
    # The first rows are shown, the others hidden.
    p, end, i = 0, sorted_end(s), 0
    while p < end:
        sorted_put(s, p, (sorted_word(s, p, 0), 2 + i if i < 5 else 1))
        p = sorted_next(s, p)
        i += 1
    return g


def digest(s, g):
    # What a walk through a group sees, forwards and backwards.
    begin, end, total, i = sorted_from(s, (g,)), sorted_after(s, (g,)), 7, 0
    p = begin
    while p < end:
        i += 1
        total += i * (31 * sorted_key(s, p, 1) + 7 * sorted_key(s, p, 2) + sorted_word(s, p, 0))
        p = sorted_next(s, p)
    while p > begin:
        p = sorted_prev(s, p)
        total += (i & 7) * sorted_key(s, p, 2)
        i -= 1
    return total
"""


@cache
def kernel(name: str, arguments: int) -> Any:
    functions = load_source("test_sorted", SOURCE, STRUCTURES)
    return compiler.compile_kernel(functions[name], (compiler.WORD,) * arguments)


class Pair:
    """The same state twice."""

    kind = KIND

    def __init__(self) -> None:
        self.compiled, self.plain = SortedStore(self.kind), PlainStore(self.kind)
        dictionary = Dictionary()
        dictionary.speed_up(column_reader)
        ids = dictionary.encode(pa.array(WORDS))
        self.texts, plain_texts = Texts([], 1), PlainTexts([], 1)
        for each in (self.texts, plain_texts):
            each.learn_texts(0, ids, dictionary)
        self.compiled.bind_texts(self.texts.handle, 0)
        self.plain.bind_texts(plain_texts.handle, 0)

    def call(self, name: str, *words: int) -> None:
        kernel(name, 1 + len(words))(self.compiled.handle, *words)
        functions = {"insert": plain.sorted_insert, "remove": plain.sorted_remove}
        if name == "put":
            key = words[:3]
            p = plain.sorted_from(self.plain.handle, key)
            if p < plain.sorted_after(self.plain.handle, key):
                plain.sorted_put(self.plain.handle, p, words[3:])
        else:
            functions[name](self.plain.handle, words)

    def check(self) -> None:
        for group in range(3):
            assert kernel("digest", 2)(self.compiled.handle, group) == self._digest(group), group

    def _digest(self, group: int) -> int:
        keys = [key for key in self.plain.handle.keys if key[0] == group]
        total = 7
        for i, key in enumerate(keys, 1):
            total += i * (31 * key[1] + 7 * key[2] + self.plain.handle.words[key][0])
            total += (i & 7) * key[2]
        return total


@pytest.mark.parametrize("span", [3, 400])
def test_compiled_and_plain_rows_are_in_the_same_order(span: int) -> None:
    source, pair = random.Random(span), Pair()
    for step in range(4000):
        key = (source.randrange(3), source.randrange(len(WORDS)), source.randrange(span))
        action = source.choice(("insert", "insert", "remove", "put"))
        pair.call(action, *key, *([source.randrange(9)] if action == "put" else []))
        if step % 500 == 499:
            pair.check()
            for each in (pair.compiled, pair.plain):
                each.commit() if step % 1000 == 499 else each.rollback()
            pair.check()


def test_everything_can_go_and_come_back() -> None:
    pair = Pair()
    rows = [(g, t, n) for g in range(3) for t in range(len(WORDS)) for n in range(30)]
    for row in rows:
        pair.call("insert", *row)
    pair.compiled.commit()
    pair.plain.commit()
    for row in rows:
        pair.call("remove", *row)
    pair.check()
    for each in (pair.compiled, pair.plain):
        each.show_committed(True)
    pair.check()
    for each in (pair.compiled, pair.plain):
        each.show_committed(False)
        each.rollback()
    pair.check()


COUNTED = Sorted(
    (Field("n", BIGINT), Field("t", STRING), Field("x", DOUBLE)),
    ("number_down", "text", "float_down"),
    (Slot("count", "int"), Slot("mark", "int")),
    nulls_first=(False, True, True),
)


class CountedPair(Pair):
    """The same rows twice, in an order where any column may be NULL."""

    kind = COUNTED

    def count(self, key: tuple[int, ...], m: int) -> None:
        gone = kernel("count", 6)(self.compiled.handle, *key, m)
        assert gone == plain.sorted_count(self.plain.handle, key, m)

    def hide(self) -> None:
        kernel("hide", 2)(self.compiled.handle, 0)
        held = self.plain.handle
        for i, key in enumerate(held.keys):
            plain.sorted_put(held, i, (held.words[key][0], 2 + i if i < 5 else 1))

    def check(self) -> None:
        (keys, words), (others, more) = (
            each.export_payload() for each in (self.compiled, self.plain)
        )
        assert keys.tolist() == others.tolist()
        assert [each.tolist() for each in words] == [each.tolist() for each in more]


def _any_key(source: random.Random) -> tuple[int, ...]:
    """A key as `Indexed` has it: a word of null bits last, and 0 for what is NULL."""
    nulls = source.choice((0, 0, 0, source.randrange(8)))
    x = plain_float_key(source.choice((1.5, -2.0, 0.0, 1e300, float("nan"), -7.25)))
    words = (source.randrange(-40, 40), source.randrange(len(WORDS)), x)
    return (*(0 if nulls >> i & 1 else word for i, word in enumerate(words)), nulls)


def test_counted_rows_come_with_the_first_and_go_with_the_last() -> None:
    source, pair = random.Random(7), CountedPair()
    live: list[tuple[int, ...]] = []
    for step in range(3000):
        if live and source.random() < 0.4:
            pair.count(live.pop(source.randrange(len(live))), -1)
        else:
            live.append(_any_key(source))
            pair.count(live[-1], 1)
        if step % 300 == 299:
            committed = [each.export_payload()[0].tolist() for each in (pair.compiled, pair.plain)]
            assert committed[0] == committed[1]
            for each in (pair.compiled, pair.plain):
                each.commit()
            pair.hide()
            for each in (pair.compiled, pair.plain):
                each.commit()
            pair.check()
            before = list(live)
            for key in before[::3]:
                pair.count(key, -1)
            for each in (pair.compiled, pair.plain):
                each.rollback()
            pair.check()
    for each, other in ((pair.compiled, pair.plain), (pair.plain, pair.compiled)):
        each.load_payload(*other.export_payload())
    pair.check()
