"""Strings where kernels read them, against strings in a dict."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewmill as vm
from viewmill.deltas.dictionary import Dictionary, PlainStrings
from viewmill.kernels import column_reader
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


# Lengths around eight and sixteen bytes, which are hashed otherwise; strings that share their ends.
_STRINGS = st.one_of(
    st.none(),
    st.text(max_size=40),
    st.text(alphabet="ab\0", max_size=20),
    st.integers(0, 300).map(lambda n: "same beginning " + "x" * (n % 20) + str(n)),
    st.integers(0, 300).map(lambda n: str(n) + " and the very same end"),
)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(_STRINGS, max_size=70), max_size=6),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
    start=st.integers(0, 3),
)
def test_any_strings_have_the_ids_of_the_dict(
    batches: list[list[str | None]], kind: pa.DataType, start: int
) -> None:
    fast, plain = TextStore(), PlainStrings()
    for values in [*batches, *batches]:  # all of them again
        strings = pa.array(values, kind)[start:]
        ids = fast.encode(strings)
        assert ids.tolist() == plain.encode(strings).tolist()
        mask = strings.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
        assert fast.decode(ids, mask).to_pylist() == strings.to_pylist()
    assert [fast.value(i) for i in range(len(fast))] == [plain.value(i) for i in range(len(plain))]


def test_many_strings_keep_their_ids_while_the_table_grows() -> None:
    store = TextStore()
    numbers = np.arange(200_000)
    made = pa.array(numbers).cast(pa.string())
    for first in range(0, len(made), 7_919):
        store.encode(made[first : first + 7_919])
    assert len(store) == len(made)
    assert (store.encode(made) == numbers).all()
    assert store.decode(numbers[::-1], None).to_pylist() == made.to_pylist()[::-1]


@pytest.mark.parametrize("compiler", ["on", "off"])
def test_strings_come_go_and_come_again(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal strings of different batches, NULL and empty ones, deletes, and a restart between."""
    monkeypatch.setenv("VIEWMILL_COMPILER", compiler)
    source = random.Random(11)
    shown: dict[str | None, int] = {}
    with vm.connect(str(tmp_path / "m")) as mill:
        mill.sql("CREATE TABLE t (s STRING) UNCHECKED")
        mill.sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    for _ in range(3):
        with vm.connect(str(tmp_path / "m")) as mill:
            for sign, change in ((1, mill.insert), (1, mill.insert), (-1, mill.delete)):
                values = drawn(source, 400) if sign > 0 else [s for s in shown for _ in range(2)]
                change("t", pa.table({"s": pa.array(values, pa.string())}))
                for each in values:
                    shown[each] = shown.get(each, 0) + sign
            # A group whose rows net to a negative number is owed, not shown.
            expected = sorted(((s, n) for s, n in shown.items() if n > 0), key=repr)
            assert any(n < 0 for n in shown.values())
            assert sorted(mill["v"].rows(), key=repr) == expected


def test_ids_outlive_the_change_of_place() -> None:
    dictionary = Dictionary()
    first = dictionary.intern("first")
    (nested,) = dictionary.encode_nested([[1, "x"]])
    dictionary.speed_up(column_reader)
    second, again = dictionary.encode(pa.array(["second", "first"]))
    assert again == first
    assert len({first, nested, second}) == 3
    assert dictionary.value(int(nested)) == [1, "x"]
    assert dictionary.decode(np.array([second, first])).to_pylist() == ["second", "first"]
    coded = pa.array(["first", None, "second"]).dictionary_encode()
    assert dictionary.encode(coded).tolist()[::2] == [first, second]


def test_columns_are_read_at_once() -> None:
    dictionary = Dictionary()
    dictionary.speed_up(column_reader)
    source = random.Random(3)
    size = 5000
    texts = [each or "" for each in drawn(source, size)]
    cents = [source.randrange(-(10**15), 10**15) for _ in range(size)]
    plain = {
        "long": pa.array(cents),
        "int": pa.array([each % 1000 - 500 for each in cents], pa.int32()),
        "short": pa.array([each % 1000 - 500 for each in cents], pa.int16()),
        "byte": pa.array([each % 200 - 100 for each in cents], pa.int8()),
        "day": pa.array([each % 20_000 - 9_000 for each in cents], pa.int32()).view(pa.date32()),
        "money": pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 0)),
        "float": pa.array([each / 7 for each in cents]),
        "text": pa.array(texts),
        "other": pa.array(texts[::-1], pa.large_string()),
    }
    table = pa.table(plain)
    reader = dictionary.reader(table.schema.types)
    assert reader is not None
    for rows in (table, table.slice(17, 1000), table.slice(4999)):
        words = reader.read(rows)
        assert words is not None
        *numbers, floats, first, second = words
        for name, each in zip(plain, numbers, strict=False):
            given = rows[name].cast(pa.int32()) if name == "day" else rows[name]
            assert each.tolist() == given.cast(pa.int64()).to_pylist(), name
        assert floats.tolist() == rows["float"].to_pylist()
        assert dictionary.decode(first).to_pylist() == rows["text"].to_pylist()
        assert dictionary.decode(second).to_pylist() == rows["other"].to_pylist()
    assert reader.read(pa.concat_tables([table, table])) is None
    assert dictionary.reader([pa.bool_()]) is None
    with_null = table.set_column(0, "long", pa.array([None, *cents[1:]]))
    assert reader.read(with_null) is None
