"""Sorted states: the compiled ones against the plain ones, which are sorted lists."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from viewmill.algebra.schema import Field
from viewmill.algebra.types import BIGINT, STRING
from viewmill.deltas.dictionary import Dictionary
from viewmill.kernels import column_reader, compiler
from viewmill.kernels.plain import sorted as plain
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

    def __init__(self) -> None:
        self.compiled, self.plain = SortedStore(KIND), PlainStore(KIND)
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
