"""Arrays, maps, structs and binary strings as Python has them, in one form for each value.

takes  a value that somebody gives for a column of such a type
gives  what Arrow's `to_pylist` gives for it: a list, a list of pairs, a dict of all fields, bytes;
       `ValueError` if it does not fit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

Scalar = Callable[[Any, Any], Any]  # a value that is not nested, by its Arrow type


def nested_value(value: Any, type_: Any, scalar: Scalar) -> Any:
    """A value of an Arrow type, in the form that equal values share."""
    if value is None:
        return None
    if pa.types.is_list(type_):
        given = _elements(value, has_floats=pa.types.is_floating(type_.value_type))
        return [nested_value(each, type_.value_type, scalar) for each in given]
    if pa.types.is_map(type_):
        return _pairs(value, type_, scalar)
    if pa.types.is_struct(type_):
        given = _fields(value, type_)
        return {each.name: nested_value(given[each.name], each.type, scalar) for each in type_}
    if pa.types.is_binary(type_):
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError("bytes are expected")
        return bytes(value)
    return scalar(value, type_)


def has_map(type_: Any) -> bool:
    """Whether an Arrow type is a map or has one inside."""
    inner = (type_.field(i).type for i in range(type_.num_fields))
    return pa.types.is_map(type_) or any(map(has_map, inner))


def _elements(value: Any, *, has_floats: bool = True) -> Iterable[Any]:
    if not isinstance(value, list | tuple | np.ndarray):
        raise ValueError("a list is expected")
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not has_floats:
        return [None if each != each else each for each in value.tolist()]  # as pandas says NULL
    return value


def _pairs(value: Any, type_: Any, scalar: Scalar) -> list[tuple[Any, Any]]:
    given = value.items() if isinstance(value, Mapping) else _elements(value)
    made: dict[str, tuple[Any, Any]] = {}
    for each in given:
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise ValueError("a dict or a list of pairs is expected")
        key = nested_value(each[0], type_.key_type, scalar)
        if key is None:
            raise ValueError("a key of a map is NULL")
        if repr(key) in made:
            raise ValueError(f"a map has the key {key!r} twice")
        made[repr(key)] = key, nested_value(each[1], type_.item_type, scalar)
    return list(made.values())


def _fields(value: Any, type_: Any) -> dict[str, Any]:
    """The fields of a struct by the names of the type; those that are not given are NULL."""
    names = [each.name for each in type_]
    own = getattr(value, "__fields__", None) or getattr(value, "_fields", None)  # of a Row, of ours
    if isinstance(value, tuple) and own:
        value = dict(zip(own, value, strict=True))
    if isinstance(value, tuple | list):
        if len(value) != len(names):
            raise ValueError(f"a struct has {len(names)} fields, got {len(value)}")
        return dict(zip(names, value, strict=True))
    if not isinstance(value, Mapping):
        raise ValueError("a dict is expected")
    found: dict[str, Any] = dict.fromkeys(names)
    known = {**{name.lower(): name for name in reversed(names)}, **{name: name for name in names}}
    taken = set()
    for name, each in value.items():
        field = known.get(name) or known.get(str(name).lower())
        if field is None:
            raise ValueError(f"the struct has no field {name!r}")
        if field in taken:
            raise ValueError(f"the field {field!r} is given twice")
        taken.add(field)
        found[field] = each
    return found
