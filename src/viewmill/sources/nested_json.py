"""Arrays, maps and structs of JSON as columns of Arrow, all rows of a column at once.

takes  values as the parser gave them, numbers as text; the column; how leaves become typed
gives  the column; the error of a value that does not fit says which row it is of
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from viewmill.errors import InvalidRow

Leaf = Callable[[list[Any], pa.Field], pa.Array]


def is_nested(type_: pa.DataType) -> bool:
    """Whether values of a type hold others."""
    return bool(pa.types.is_list(type_) or pa.types.is_struct(type_) or pa.types.is_map(type_))


def nested_column(
    values: Sequence[Any], field: pa.Field, leaf: Leaf, place: str, first_row: int
) -> pa.Array:
    """The values of a column of arrays, maps or structs."""
    try:
        return _made(list(values), field, leaf)
    except InvalidRow:
        for i, value in enumerate(values):
            try:
                _made([value], field, leaf)
            except InvalidRow as why:
                said = why.message.partition(": ")[2] if "row 1: " in why.message else why.message
                raise InvalidRow(
                    f"{place}, row {first_row + i}: {field.name}: {said}", detail=why.detail
                ) from None
        raise


def _made(values: list[Any], field: pa.Field, leaf: Leaf) -> pa.Array:
    type_ = field.type
    if pa.types.is_list(type_):
        return _array(_checked(values, list, "an array"), type_, leaf)
    if pa.types.is_map(type_):
        return _map(_checked(values, dict, "an object"), type_, leaf)
    if pa.types.is_struct(type_):
        return _struct(_checked(values, dict, "an object"), type_, leaf)
    if pa.types.is_binary(type_):
        raise InvalidRow("bytes inside of other values are not read from JSON")
    return leaf(values, field)


def _checked(values: list[Any], kind: type, wanted: str) -> list[Any]:
    for each in values:
        if each is not None and not isinstance(each, kind):
            shown = reprlib.repr(each) if isinstance(each, str) else json.dumps(each)
            raise InvalidRow(f"{shown} is not {wanted}")
    return values


def _array(values: list[Any], type_: pa.ListType, leaf: Leaf) -> pa.Array:
    inside = _made([each for value in values for each in value or ()], type_.value_field, leaf)
    return pa.ListArray.from_arrays(_offsets(values), inside, type=type_, mask=_mask(values))


def _map(values: list[Any], type_: pa.MapType, leaf: Leaf) -> pa.Array:
    pairs = [pair for value in values for pair in (value or {}).items()]
    keys = _made([key for key, _ in pairs], type_.key_field, leaf)
    items = _made([item for _, item in pairs], type_.item_field, leaf)
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=type_, mask=_mask(values))


def _struct(values: list[Any], type_: pa.StructType, leaf: Leaf) -> pa.Array:
    known = [{k.lower(): each for k, each in (value or {}).items()} for value in values]
    fields = list(type_)
    inside = [_made([row.get(each.name.lower()) for row in known], each, leaf) for each in fields]
    return pa.StructArray.from_arrays(inside, fields=fields, mask=_mask(values))


def _offsets(values: list[Any]) -> pa.Array:
    ends = np.cumsum([0, *(len(each) if each else 0 for each in values)])
    return pa.array(ends, pa.int32())


def _mask(values: list[Any]) -> pa.Array:
    return pa.array([each is None for each in values], pa.bool_())
