"""Read messages from outside: whatever is wrong with their bytes is an InvalidRow.

takes  a format, the keys and values of messages
gives  images of rows

A parser may meet anything there: text where a number belongs, lists a hundred thousand deep, a
schema that is none. An error of another kind would not say which message it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from viewmill.errors import InvalidRow, ViewmillError
from viewmill.sources.images import Images
from viewmill.sources.message_formats import Bytes, Format


def read_images(
    format_: Format, keys: Bytes, values: Bytes, schema: pa.Schema, key: Sequence[str]
) -> Images:
    """The images of some messages; `InvalidRow` if one of them cannot be read."""
    try:
        return format_.images(keys, values, schema, key)
    except (ViewmillError, MemoryError):
        raise
    except Exception as why:
        said = f"{type(why).__name__}: {why}"[:200]
        raise InvalidRow("it is not what its format says", detail=said) from why
