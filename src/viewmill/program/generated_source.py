"""Text of generated Python that holds nothing a user wrote, and the check before it is run.

takes  names of columns, tables and states; text for comments; whole modules of trigger source
gives  ASCII identifiers, comments of one line each, `RefusedCode` for a module with anything else

Strings of a query never stand in the source: they travel in `Triggers.texts`, and generated lines
say their number. Numbers are written by `repr`.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable
from typing import NoReturn

from viewmill.errors import RefusedCode

_BUILTINS = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "range"})


class Names:
    """Python names of one module, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}  # the next number to try

    def reserve(self, names: Iterable[str]) -> None:
        """These names have a meaning already."""
        self._taken.update(names)

    def new(self, wish: str) -> str:
        """A name that reads like `wish` and is new, however alike two wishes look."""
        base = identifier(wish)
        name, count = base, self._counts.get(base, 2)
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._counts[base] = count
        self._taken.add(name)
        return name


def identifier(wish: str) -> str:
    """Lower-case ASCII letters, digits and underscores that read like `wish`.

    Different wishes may give one identifier; `Names` tells them apart.

    >>> identifier("Net price"), identifier("2nd"), identifier("if"), identifier("\\u017f")
    ('net_price', 'v_2nd', 'v_if', 'value')
    """
    base = re.sub(r"[^A-Za-z0-9_]+", "_", wish).strip("_").lower() or "value"
    return f"v_{base}" if base[0].isdigit() or keyword.iskeyword(base) else base


def printable(text: str) -> str:
    """The text in printable ASCII on one line; every other character as Python escapes it."""
    return "".join(each if " " <= each <= "~" else ascii(each)[1:-1] for each in text)


def comments(text: str) -> list[str]:
    """The text as comments, one for each of its lines."""
    lines = text.replace("→", "->").split("\n")
    return [f"# {printable(line)}".rstrip() for line in lines]


def is_one_line(text: str) -> bool:
    """Whether the text can stand on a line of source: printable ASCII."""
    return text.isascii() and (text.isprintable() or not text)


# What a module may consist of.

_STATEMENTS = (
    ast.Assign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Return, ast.Pass,
    ast.Break, ast.Continue,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.Tuple, ast.Subscript, ast.Slice, ast.Call, ast.Attribute,
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.expr_context, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def check_source(
    source: str, names: Collection[str], attributes: Collection[str] = ()
) -> ast.Module:
    """Parse a module, and refuse it unless it only defines functions (and numbers) that compute
    with their arguments, call one another and the functions in `names`.

    `attributes` are those that may be read of a value, such as `size` of an array.
    """
    if not all(map(is_one_line, source.split("\n"))):
        raise RefusedCode("generated code has a character that is not printable ASCII")
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as why:
        raise RefusedCode("generated code is no Python", detail=str(why)) from why
    _Checked(module, frozenset(names) | _BUILTINS, frozenset(attributes))
    return module


class _Checked:
    """Goes through a module; everything not known is refused."""

    def __init__(
        self, module: ast.Module, names: frozenset[str], attributes: frozenset[str]
    ) -> None:
        self._attributes = attributes
        functions = [each for each in module.body if isinstance(each, ast.FunctionDef)]
        constants = [each for each in module.body if isinstance(each, ast.Assign)]
        others = [each for each in module.body if each not in functions and each not in constants]
        if others:
            self._refuse(others[0])
        # A name defined twice is a function that takes the place of an empty one above it.
        self._functions = names | {each.name for each in functions}
        self._known = self._functions | self._constants(constants)
        for function in functions:
            self._check_function(function)

    def _constants(self, assigned: list[ast.Assign]) -> set[str]:
        """Names of numbers; what they are may be computed from one another."""
        known: set[str] = set()
        for each in assigned:
            for node in ast.walk(each.value):
                if isinstance(node, ast.Attribute) or (
                    isinstance(node, ast.Name) and node.id not in known
                ):
                    self._refuse(node)
                self._check_node(node)
            for target in each.targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if not isinstance(part, ast.Name):
                        self._refuse(part)
                    known.add(part.id)
        if known & self._functions:
            raise RefusedCode("generated code uses the name of a function for a number")
        return known

    def _check_function(self, function: ast.FunctionDef) -> None:
        given = function.args
        if (
            function.decorator_list or function.returns or given.defaults or given.kw_defaults
            or given.vararg or given.kwarg or any(each.annotation for each in given.args)
        ):  # fmt: skip
            self._refuse(function)
        inside = [node for each in function.body for node in ast.walk(each)]
        local = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        local |= {
            node.id
            for node in inside
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        hidden = local & self._functions
        if hidden:
            raise RefusedCode(f"generated code uses the name {min(hidden)} for two things")
        texts = {each.value for each in function.body[:1] if isinstance(each, ast.Expr)}
        for node in inside:
            if node in texts and isinstance(node, ast.Constant):
                continue  # what the function is for
            self._check_node(node)
            if isinstance(node, ast.Name) and node.id not in local and node.id not in self._known:
                self._refuse(node)
            if isinstance(node, ast.Call) and not (
                isinstance(node.func, ast.Name) and node.func.id in self._functions
            ) and not isinstance(node.func, ast.Attribute):  # fmt: skip
                self._refuse(node)

    def _check_node(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call) and node.keywords:
            self._refuse(node)
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | None):
            self._refuse(node)
        if isinstance(node, ast.Attribute) and node.attr not in self._attributes:
            self._refuse(node)
        if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
            self._refuse(node)

    def _refuse(self, node: ast.AST) -> NoReturn:
        line = getattr(node, "lineno", None)
        raise RefusedCode(
            f"generated code has something it may not have: {type(node).__name__}",
            detail="" if line is None else f"line {line}: {printable(ast.unparse(node))[:200]}",
        )
