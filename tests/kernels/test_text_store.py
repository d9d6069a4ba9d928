"""Strings where kernels read them, against strings in a dict."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from viewmill.deltas.dictionary import Dictionary, PlainStrings
from viewmill.kernels.text_store import TextStore


def drawn(source: random.Random, count: int) -> list[str | None]:
    """Short and long ones, of one byte and of several, empty and NULL, most of them again."""
    letters = ["a", "é", "\0", "漢", "z"]
    made: list[str | None] = [None, "", "a" * 5000]
    for _ in range(count // 3):
        made.append("".join(source.choices(letters, k=source.randrange(40))))
    return [source.choice(made) for _ in range(count)]


@pytest.mark.parametrize("kind", ["string", "large_string"])
def test_ids_are_those_of_the_dict(kind: str) -> None:
    source = random.Random(7)
    fast, plain = TextStore(), PlainStrings()
    for count in (1, 0, 3, 3000, 10_000):  # more than the first table and the first block hold
        values = drawn(source, count)
        strings = pa.array(values, kind)[count // 10 :]
        mask = strings.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
        ids = fast.encode(strings)
        assert ids.tolist() == plain.encode(strings).tolist()
        assert fast.decode(ids, mask).to_pylist() == values[count // 10 :]
        assert len(fast) == len(plain)
        if len(fast):
            assert fast.value(len(fast) - 1) == plain.value(len(fast) - 1)
    assert [fast.intern(each) for each in ("new", "a" * 5000)] == [
        plain.intern(each) for each in ("new", "a" * 5000)
    ]


def test_ids_outlive_the_change_of_place() -> None:
    dictionary = Dictionary()
    first = dictionary.intern("first")
    (nested,) = dictionary.encode_nested([[1, "x"]])
    dictionary.speed_up(TextStore)
    second, again = dictionary.encode(pa.array(["second", "first"]))
    assert again == first
    assert len({first, nested, second}) == 3
    assert dictionary.value(int(nested)) == [1, "x"]
    assert dictionary.decode(np.array([second, first])).to_pylist() == ["second", "first"]
    coded = pa.array(["first", None, "second"]).dictionary_encode()
    assert dictionary.encode(coded).tolist()[::2] == [first, second]
