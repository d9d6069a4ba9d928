"""A Python function of the user as a scalar function of SQL.

`Function` is what the user declares, `UserFunction` what a mill knows under a name. A durable mill
keeps neither: whoever opens it registers its functions again.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from typing import Literal as OneOf

from viewmill.algebra.rings import function_text
from viewmill.algebra.types import Type
from viewmill.errors import InvalidArgument

Takes = OneOf["values", "arrow", "pandas"]  # what a call hands over

_PREFIX = "user "
_NUMBERS = itertools.count()

# PySpark's `evalType` of the UDFs that give one value for each row.
_SPARK_KINDS: dict[int, Takes] = {100: "values", 101: "values", 200: "pandas", 250: "arrow"}


@dataclass(frozen=True, eq=False)
class Function:
    """A Python function and the SQL type of its result, or a UDF of PySpark, which has both.

    A vectorized function takes a `pyarrow.Array` for each argument and gives as many values. A
    function that is not deterministic may be called by queries, but not by views.
    """

    python: Any
    type: Any = None
    vectorized: bool = False
    deterministic: bool = True

    def __post_init__(self) -> None:
        if not callable(self.python):
            raise InvalidArgument(f"{type(self.python).__name__} is no function")
        if self.spelled_type is None:
            raise InvalidArgument(
                "a function needs the type of its result",
                hint='mill.function("tax", tax, "DOUBLE")',
            )

    @property
    def spark_kind(self) -> int | None:
        """PySpark's kind of UDF; None for a plain function."""
        is_spark = hasattr(self.python, "returnType") and hasattr(self.python, "func")
        return getattr(self.python, "evalType", 100) if is_spark else None

    @property
    def spelled_type(self) -> str | None:
        """The type of the result, as SQL writes it."""
        if self.type is None and self.spark_kind is not None:
            return str(self.python.returnType.simpleString())
        return self.type if self.type is None else str(self.type)

    @property
    def is_deterministic(self) -> bool:
        """Whether equal arguments give equal values, as declared here or to PySpark."""
        return self.deterministic and bool(getattr(self.python, "deterministic", True))

    @property
    def code(self) -> Callable[..., Any]:
        """The Python function itself."""
        code: Callable[..., Any] = self.python if self.spark_kind is None else self.python.func
        return code

    @property
    def takes(self) -> Takes:
        """What a call hands over."""
        if self.spark_kind is None or self.vectorized:
            return "arrow" if self.vectorized else "values"
        if self.spark_kind not in _SPARK_KINDS:
            raise InvalidArgument(
                "this PySpark UDF does not give one value for each row",
                hint="udf, pandas_udf over Series and arrow_udf over arrays can be used.",
            )
        return _SPARK_KINDS[self.spark_kind]


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A user's function under its name. No two are equal."""

    name: str
    code: Callable[..., Any]
    result: Type
    takes: Takes
    deterministic: bool
    number: int = field(default_factory=lambda: next(_NUMBERS))
    # What it gave, by the types of the arguments and then by the arguments.
    known: dict[tuple[Type, ...], dict[Any, Any]] = field(default_factory=dict)
    is_built_in: bool = False  # it computes a function of SQL, and nobody can change it

    def does_the_same(self, other: UserFunction) -> bool:
        """Whether both have the same declaration and, as far as that can be told, the same code."""
        if (self.result, self.takes, self.deterministic) != (
            other.result, other.takes, other.deterministic,
        ):  # fmt: skip
            return False
        return self.code is other.code or function_text(self.code) == function_text(other.code)

    def refused_count(self, count: int) -> str:
        """Why it cannot be called with so many arguments; "" if it can."""
        if not count and self.takes != "values":
            return f"{self.name} is vectorized, so it needs an argument"
        try:
            inspect.signature(self.code).bind(*range(count))
        except TypeError as why:
            return f"{self.name} cannot take {count} arguments: {why}"
        except ValueError:  # a builtin without a signature
            return ""
        return ""


def user_function(name: str) -> str:
    """What the algebra calls a function of the user: no function of SQL has this name."""
    return _PREFIX + name.lower()


def shown_function(function: str) -> str:
    """A function's name as the user knows it."""
    return function.removeprefix(_PREFIX)
