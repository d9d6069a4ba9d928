"""What turns a product into the arguments of its trigger, and runs it.

takes  a `ProductTrigger`, the handles of the program's states, scratch states of its own
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from viewmill.algebra.schema import Schema
from viewmill.algebra.types import is_float_word
from viewmill.deltas.product import Factor, Product
from viewmill.kernels.columns import checked_words, no_nulls, once_each
from viewmill.kernels.compiler import BYTES, F64, FLOATS, I64, U8, WORD, WORDS
from viewmill.program.program import FactorColumns, ProductTrigger


class Scratch(Protocol):
    """A state that holds nothing between two products."""

    handle: Any

    def clear(self) -> None: ...


class ProductFeed:
    """Products of one shape to one input."""

    def __init__(
        self,
        schema: Schema,
        trigger: ProductTrigger,
        functions: Callable[[str, tuple[Any, ...]], Callable[..., int]],
        states: Sequence[Any],
        scratch: Sequence[Scratch],
        texts: Any,
        failure: Any,
    ) -> None:
        self.trigger, self._schema, self._scratch, self._texts = trigger, schema, scratch, texts
        self._end = (*states, *(each.handle for each in scratch), texts.handle, failure)
        types: list[Any] = []
        for read in trigger.factors:
            types += [WORD, WORDS]
            for name in self._names(read):
                field = schema[schema.names.index(name)]
                types.append(FLOATS if is_float_word(field.type) else WORDS)
                types += [BYTES] if field.nullable else []
        self._kernel = functions(trigger.function, (*types, *(WORD,) * len(self._end)))

    def _names(self, read: FactorColumns) -> list[str]:
        value = [self.trigger.value] if read.has_value else []
        return [*read.columns, *(name for name in value if name is not None)]

    def run(self, product: Product) -> int:
        """Apply a product; 0 if it failed, and nothing was changed."""
        arguments: list[Any] = []
        for read, factor in zip(self.trigger.factors, product.factors, strict=True):
            arguments += self._arguments(read, factor)
        try:
            return self._kernel(*arguments, *self._end)
        finally:
            for each in self._scratch:
                each.clear()

    def _arguments(self, read: FactorColumns, factor: Factor) -> list[Any]:
        size, times = factor.size, factor.rows.multiplicity
        found: list[Any] = [size]
        found.append(once_each(size) if times is None else checked_words(times, I64, size))
        own = factor.rows.schema.names
        for name in self._names(read):
            if name in own:
                at = own.index(name)
                words, mask = factor.rows.columns[at], factor.rows.nulls[at]
            else:
                assert factor.values is not None
                words, mask = factor.values, factor.value_nulls
            field = self._schema[self._schema.names.index(name)]
            found.append(checked_words(words, F64 if is_float_word(field.type) else I64, size))
            if field.nullable:
                found.append(no_nulls(size) if mask is None else checked_words(mask, U8, size))
        return found
