"""Functions of arrays, maps and structs, as Spark computes them with ANSI on.

takes  Python's values: lists, lists of pairs for maps, dicts for structs; None for NULL
gives  a value, or raises `Unfit`, which says what Spark would call an error
next   sql.nested_functions types the calls; program.user_calls computes each distinct one once
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from viewmill.program.python_functions import Unfit

Pairs = list[tuple[Any, Any]]
_MAX_LENGTH = 2**31 - 16


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal to Spark, to which NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return same([*a.values()], [*b.values()])
    return bool(a == b)


def order(value: Any) -> Any:
    """What values are ordered by: NULL first, text by its bytes, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return 1, value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        return (2, 0.0) if math.isnan(value) else (1, value)
    if isinstance(value, dict):
        return 1, tuple(map(order, value.values()))
    if isinstance(value, list):
        return 1, tuple(map(order, value))
    return 1, value


def _key(value: Any) -> Any:
    """Equal for equal values, to be found in a set."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(_key, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    return value


def distinct(array: list[Any]) -> list[Any]:
    """Each value once, where it comes first."""
    found: dict[Any, Any] = {}
    for each in array:
        found.setdefault(_key(each), each)
    return list(found.values())


def size(value: Any) -> int:
    """How many elements or entries there are."""
    return len(value)


def at(array: list[Any], index: int) -> Any:
    """array[index], which counts from 0."""
    if not 0 <= index < len(array):
        raise Unfit("EvaluationFailed", f"index {index} of an array of {len(array)} elements")
    return array[index]


def get(array: list[Any], index: int) -> Any:
    """get(array, index): NULL where there is no such element."""
    return array[index] if 0 <= index < len(array) else None


def element_at(array: list[Any], index: int) -> Any:
    """element_at(array, index), which counts from 1, and from the end below 0."""
    if index == 0:
        raise Unfit("EvaluationFailed", "element_at counts from 1, or from the end by -1")
    if abs(index) > len(array):
        raise Unfit("EvaluationFailed", f"index {index} of an array of {len(array)} elements")
    return array[index - 1 if index > 0 else index]


def try_element_at(array: list[Any], index: int) -> Any:
    """try_element_at(array, index): NULL where there is no such element."""
    if index == 0:
        return element_at(array, index)
    return None if abs(index) > len(array) else element_at(array, index)


def value_of(entries: Pairs, key: Any) -> Any:
    """map[key]: NULL where there is no such key."""
    return next((value for each, value in entries if same(each, key)), None)


def field_of(name: str) -> Callable[[dict[str, Any]], Any]:
    """A field of a struct."""
    return lambda struct: struct[name]


def field_of_all(name: str) -> Callable[[list[Any]], Any]:
    """A field of each struct in an array."""
    return lambda array: [None if each is None else each[name] for each in array]


def contains(array: list[Any], value: Any) -> bool | None:
    """array_contains."""
    if any(each is not None and same(each, value) for each in array):
        return True
    return None if None in array else False


def position(array: list[Any], value: Any) -> int:
    """array_position, which counts from 1; 0 where it is not."""
    found = (i for i, each in enumerate(array, 1) if each is not None and same(each, value))
    return next(found, 0)


def remove(array: list[Any], value: Any) -> list[Any]:
    """array_remove."""
    return [each for each in array if each is None or not same(each, value)]


def compact(array: list[Any]) -> list[Any]:
    """array_compact."""
    return [each for each in array if each is not None]


def union(a: list[Any], b: list[Any]) -> list[Any]:
    """array_union."""
    return distinct([*a, *b])


def intersect(a: list[Any], b: list[Any]) -> list[Any]:
    """array_intersect."""
    there = {_key(each) for each in b}
    return [each for each in distinct(a) if _key(each) in there]


def subtract(a: list[Any], b: list[Any]) -> list[Any]:
    """array_except."""
    there = {_key(each) for each in b}
    return [each for each in distinct(a) if _key(each) not in there]


def overlap(a: list[Any], b: list[Any]) -> bool | None:
    """arrays_overlap."""
    if {_key(each) for each in compact(a)} & {_key(each) for each in compact(b)}:
        return True
    return None if a and b and (None in a or None in b) else False


def largest(array: list[Any]) -> Any:
    """array_max."""
    return max(compact(array), key=order, default=None)


def smallest(array: list[Any]) -> Any:
    """array_min."""
    return min(compact(array), key=order, default=None)


def sort(array: list[Any], ascending: bool = True) -> list[Any]:
    """sort_array: NULL first going up and last going down."""
    return sorted(array, key=order, reverse=not ascending)


def sort_nulls_last(array: list[Any]) -> list[Any]:
    """array_sort."""
    return [*sort(compact(array)), *(each for each in array if each is None)]


def backwards(array: list[Any]) -> list[Any]:
    """reverse."""
    return array[::-1]


def part(array: list[Any], start: int, length: int) -> list[Any]:
    """slice, which counts from 1, and from the end below 0."""
    if start == 0 or length < 0:
        what = "slice counts from 1" if start == 0 else "slice takes no negative length"
        raise Unfit("EvaluationFailed", what)
    first = start - 1 if start > 0 else len(array) + start
    return array[first : first + length] if 0 <= first < len(array) else []


def flatten(arrays: list[Any]) -> list[Any] | None:
    """flatten: NULL if one of the arrays is."""
    return None if None in arrays else [each for array in arrays for each in array]


def concat(*arrays: list[Any]) -> list[Any]:
    """concat of arrays."""
    return [each for array in arrays for each in array]


def join(array: list[Any], separator: str, absent: str | None = None) -> str:
    """array_join: NULLs are left out, or replaced."""
    shown = (absent if each is None else each for each in array)
    return separator.join(each for each in shown if each is not None)


def insert(array: list[Any] | None, place: int | None, value: Any) -> list[Any] | None:
    """array_insert: at a place, below 0 from the end; what is missing before it is NULL."""
    if array is None or place is None:
        return None
    if place == 0:
        raise Unfit("EvaluationFailed", "array_insert counts from 1, or from the end by -1")
    at, missing = place - 1, place - 1 - len(array)
    if place < 0:
        at, missing = len(array) + place + 1, -place - 1 - len(array)
    if abs(place) > _MAX_LENGTH // 1000:
        raise Unfit("EvaluationFailed", f"an array of {abs(place)} elements is too long")
    if missing > 0:
        fill = [None] * missing
        return [value, *fill, *array] if place < 0 else [*array, *fill, value]
    return [*array[:at], value, *array[at:]]


def zipped(names: Sequence[str]) -> Callable[..., Any]:
    """arrays_zip: shorter arrays are filled up with NULL."""

    def compute(*arrays: list[Any]) -> list[Any]:
        return [dict(zip(names, each, strict=True)) for each in itertools.zip_longest(*arrays)]

    return compute


def sequence(start: int, stop: int, step: int | None = None) -> list[int]:
    """sequence of whole numbers."""
    step = step if step is not None else (1 if start <= stop else -1)
    if (step == 0 and start != stop) or (stop - start) * step < 0:
        raise Unfit("EvaluationFailed", f"no sequence from {start} to {stop} by {step}")
    length = 1 if start == stop else (stop - start) // step + 1
    if length > _MAX_LENGTH // 1000:
        raise Unfit("EvaluationFailed", f"a sequence of {length} elements is too long")
    return [start + i * step for i in range(length)]


def sequence_of_days(start: dt.date, stop: dt.date) -> list[dt.date]:
    """sequence of days."""
    days = sequence(start.toordinal(), stop.toordinal())
    return [dt.date.fromordinal(each) for each in days]


def stacked(names: Sequence[str], *given: Any) -> list[dict[str, Any]]:
    """stack: rows of structs."""
    starts = range(0, len(given), len(names))
    return [dict(zip(names, given[i : i + len(names)], strict=True)) for i in starts]


def numbers(start: int, end: int, step: int) -> list[int]:
    """range(start, end, step), which does not include its end."""
    if step == 0:
        raise Unfit("EvaluationFailed", "the step of range is 0")
    made = range(start, end, step)
    if len(made) > _MAX_LENGTH // 100:
        raise Unfit("EvaluationFailed", f"a range of {len(made)} rows is too long")
    return list(made)


def keys(entries: Pairs) -> list[Any]:
    """map_keys."""
    return [key for key, _ in entries]


def values(entries: Pairs) -> list[Any]:
    """map_values."""
    return [value for _, value in entries]


def entries(pairs: Pairs) -> list[dict[str, Any]]:
    """map_entries."""
    return [{"key": key, "value": value} for key, value in pairs]


def has_key(pairs: Pairs, key: Any) -> bool:
    """map_contains_key."""
    return any(same(each, key) for each, _ in pairs)


def map_of(pairs: Sequence[tuple[Any, Any]]) -> Pairs:
    """A map; a key that is NULL, or there twice, is an error."""
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in pairs:
        if key is None:
            raise Unfit("EvaluationFailed", "a key of a map is NULL")
        if _key(key) in found:
            raise Unfit("EvaluationFailed", f"a map has the key {key!r} twice")
        found[_key(key)] = key, value
    return list(found.values())


def map_of_values(*given: Any) -> Pairs:
    """map(key, value, ...)."""
    return map_of(list(zip(given[::2], given[1::2], strict=True)))


def map_from_arrays(a: list[Any], b: list[Any]) -> Pairs:
    """map_from_arrays."""
    if len(a) != len(b):
        raise Unfit("EvaluationFailed", f"{len(a)} keys and {len(b)} values make no map")
    return map_of(list(zip(a, b, strict=True)))


def map_from_entries(array: list[Any]) -> Pairs | None:
    """map_from_entries: NULL if an entry is."""
    return None if None in array else map_of([tuple(each.values()) for each in array])


def map_concat(*maps: Pairs) -> Pairs:
    """map_concat."""
    return map_of([pair for each in maps for pair in each])


def struct_of(names: Sequence[str]) -> Callable[..., Any]:
    """named_struct."""
    return lambda *given: dict(zip(names, given, strict=True))


def array_of(*given: Any) -> list[Any]:
    """array(value, ...)."""
    return list(given)


# With lambdas: `call` gives the value for the elements and what else it reads.


Lambda = Callable[..., Any]


def transform(call: Lambda, array: list[Any]) -> list[Any]:
    """transform; the lambda may take the position, too."""
    return [call(each, i) for i, each in enumerate(array)]


def kept(call: Lambda, array: list[Any]) -> list[Any]:
    """filter; the lambda may take the position, too."""
    return [each for i, each in enumerate(array) if call(each, i) is True]


def exists(call: Lambda, array: list[Any]) -> bool | None:
    """exists, by three-valued logic."""
    found = [call(each) for each in array]
    return True if True in found else (None if None in found else False)


def forall(call: Lambda, array: list[Any]) -> bool | None:
    """forall, by three-valued logic."""
    found = [call(each) for each in array]
    return False if False in found else (None if None in found else True)


def kept_entries(call: Lambda, pairs: Pairs) -> Pairs:
    """map_filter."""
    return [(key, value) for key, value in pairs if call(key, value) is True]


def with_values(call: Lambda, pairs: Pairs) -> Pairs:
    """transform_values."""
    return [(key, call(key, value)) for key, value in pairs]


def with_keys(call: Lambda, pairs: Pairs) -> Pairs:
    """transform_keys."""
    return map_of([(call(key, value), value) for key, value in pairs])


def zip_maps(call: Lambda, a: Pairs, b: Pairs) -> Pairs:
    """map_zip_with: a key that one map lacks has NULL there."""
    of_both = distinct([*keys(a), *keys(b)])
    return [(key, call(key, value_of(a, key), value_of(b, key))) for key in of_both]


def append(array: list[Any] | None, value: Any) -> list[Any] | None:
    """array_append."""
    return None if array is None else [*array, value]


def prepend(array: list[Any] | None, value: Any) -> list[Any] | None:
    """array_prepend."""
    return None if array is None else [value, *array]


def zip_with(call: Lambda, a: list[Any], b: list[Any]) -> list[Any]:
    """zip_with: the shorter array is filled up with NULL."""
    return [call(x, y) for x, y in itertools.zip_longest(a, b)]
