"""The SQL of a DataFrame, from the plan that Spark has analyzed.

takes  a plan of Spark, and a function that names the table of a leaf
gives  one SELECT that means the same; `Untranslatable` says what has no SQL of ours
next   viewmill.pipeline.declarative.planning, which tries it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from py4j.java_gateway import is_instance_of

from viewmill.algebra.names import quoted
from viewmill.pipeline.declarative.sql_file import option, seq

_PASSED = ("SubqueryAlias", "View", "ResolvedHint", "Repartition", "RepartitionByExpression",
           "EventTimeWatermark")  # fmt: skip
_NO_SQL = re.compile(
    r"UDF$|UDAF$|UDTF$|Subquery$|^Exists$|^ListQuery$|OuterReference$|Invoke$|^Lambda|^Scala|^With$"
)
_REPLACED = "org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules"
_ARITHMETIC = ("Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "Pmod")
_IS_PLAIN = re.compile(r"[\w.`]+").fullmatch
_LONGEST = 4000  # characters of a column's text, which doubles with each step of x + x
_JOINS = {"INNER": "JOIN", "CROSS": "CROSS JOIN", "LEFT OUTER": "LEFT JOIN",
          "RIGHT OUTER": "RIGHT JOIN", "FULL OUTER": "FULL JOIN", "LEFT SEMI": "LEFT SEMI JOIN",
          "LEFT ANTI": "LEFT ANTI JOIN"}  # fmt: skip


class Untranslatable(Exception):
    """What a plan holds that has no SQL."""


def kind(node: Any) -> str:
    """The class of a plan or an expression."""
    return str(node.getClass().getSimpleName())


@dataclass
class Block:
    """A SELECT in the making; `columns` are texts by the ids of Spark's attributes.

    shut   rows are done: what follows but a projection goes around it
    """

    source: str
    columns: dict[int, str]
    where: list[str] = field(default_factory=list)
    group: str = ""
    tail: str = ""
    head: str = "SELECT"
    shut: bool = False
    is_table: bool = False


class Translator:
    """Translates one plan."""

    def __init__(self, spark: Any, table: Callable[[Any, str], str | None]) -> None:
        """`table(node, name)` names what is read there; None means to look further down."""
        self._jvm, self._table = spark._jvm, table
        self._gateway = spark.sparkContext._gateway
        self._mark = f"v{uuid4().hex}x"
        self._tables = 0

    def sql(self, plan: Any) -> str:
        """The whole query."""
        block = self._plan(plan, "")
        names = [each.name() for each in seq(plan.output())]
        if len({each.lower() for each in names}) < len(names):
            raise Untranslatable("two columns have one name")
        return self._select(block, plan, names)

    # Plans.

    def _plan(self, node: Any, called: str) -> Block:
        word = kind(node)
        if word == "SubqueryAlias":
            called = str(node.identifier().name())
        table = self._table(node, called)
        if table is not None:
            return self._leaf(node, table)
        if word in _PASSED or (word == "Sort" and node.global_()):
            return self._plan(node.children().apply(0), called)
        step = getattr(self, f"_{word.lower()}", None)
        if step is None:
            raise Untranslatable(f"{word} has no SQL here")
        made: Block = step(node)
        return made

    def _leaf(self, node: Any, table: str) -> Block:
        alias = self._alias()
        columns = {
            each.exprId().id(): f"{alias}.{quoted(each.name())}" for each in seq(node.output())
        }
        return Block(f"{quoted(table)} AS {alias}", columns, is_table=True)

    def _project(self, node: Any) -> Block:
        below = self._below(node)
        if below.head != "SELECT" or below.tail:
            below = self._wrapped(below, node.children().apply(0))
        columns = self._named(seq(node.projectList()), below)
        if any(len(each) > _LONGEST for each in columns.values()):
            below = self._wrapped(below, node.children().apply(0))
            columns = self._named(seq(node.projectList()), below)
        is_table = below.is_table and all(_IS_PLAIN(each) for each in columns.values())
        return Block(below.source, columns, below.where, below.group, shut=below.shut,
                     is_table=is_table)  # fmt: skip

    def _filter(self, node: Any) -> Block:
        below = self._open(node)
        below.where.append(self._text(node.condition(), below))
        below.is_table = False
        return below

    def _aggregate(self, node: Any) -> Block:
        below = self._open(node)
        if not all(_IS_PLAIN(each) for each in below.columns.values()):
            below = self._wrapped(below, node.children().apply(0))
        groups = seq(node.groupingExpressions())
        if any(each.foldable() for each in groups):
            raise Untranslatable("it groups by a constant")
        group = ", ".join(self._text(each, below) for each in groups)
        columns = self._named(seq(node.aggregateExpressions()), below)
        return Block(below.source, columns, below.where, group, shut=True)

    def _window(self, node: Any) -> Block:
        below = self._open(node)
        below.columns |= self._named(seq(node.windowExpressions()), below)
        below.shut, below.is_table = True, False
        return below

    def _join(self, node: Any) -> Block:
        left, right = (self._side(each) for each in seq(node.children()))
        word = _JOINS.get(str(node.joinType().sql()))
        if word is None:
            raise Untranslatable(f"a {node.joinType().sql()} join")
        both = Block("", {**left.columns, **right.columns})
        condition = option(node.condition())
        on = "" if condition is None else f" ON {self._text(condition, both)}"
        if not on and word == "JOIN":
            word = "CROSS JOIN"
        if not on and word != "CROSS JOIN":
            raise Untranslatable("an outer join without a condition")
        columns = left.columns if "SEMI" in word or "ANTI" in word else both.columns
        return Block(f"{left.source} {word} {right.source}{on}", columns)

    def _union(self, node: Any) -> Block:
        output = seq(node.output())
        names = _apart(each.name() for each in output)
        queries = [self._select(self._plan(each, ""), each, names) for each in seq(node.children())]
        return self._around(" UNION ALL ".join(queries), output, names)

    def _distinct(self, node: Any) -> Block:
        below = self._open(node)
        return Block(below.source, below.columns, below.where, head="SELECT DISTINCT", shut=True)

    def _deduplicate(self, node: Any) -> Block:
        keys = {each.exprId().id() for each in seq(node.keys())}
        if keys != {each.exprId().id() for each in seq(node.output())}:
            raise Untranslatable("dropDuplicates of some columns keeps any row")
        return self._distinct(node)

    def _globallimit(self, node: Any) -> Block:
        local = node.children().apply(0)
        below = local.children().apply(0) if kind(local) == "LocalLimit" else local
        if kind(below) != "Sort":
            raise Untranslatable("a limit without an order keeps any rows")
        block = self._open(below)
        order = ", ".join(self._text(each, block) for each in seq(below.order()))
        tail = f" ORDER BY {order} LIMIT {node.limitExpr().sql()}"
        return Block(block.source, block.columns, block.where, tail=tail, shut=True)

    # Blocks.

    def _below(self, node: Any) -> Block:
        return self._plan(node.children().apply(0), "")

    def _open(self, node: Any) -> Block:
        """What is below, to which conditions can be added."""
        below = self._below(node)
        return self._wrapped(below, node.children().apply(0)) if below.shut else below

    def _side(self, node: Any) -> Block:
        """A side of a join: a table as it is, or a query in parentheses."""
        block = self._plan(node, "")
        return block if block.is_table else self._wrapped(block, node)

    def _wrapped(self, block: Block, node: Any) -> Block:
        output = seq(node.output())
        names = _apart(each.name() for each in output)
        return self._around(self._select(block, node, names), output, names)

    def _around(self, query: str, output: list[Any], names: list[str]) -> Block:
        alias = self._alias()
        columns = {
            each.exprId().id(): f"{alias}.{quoted(name)}"
            for each, name in zip(output, names, strict=True)
        }
        return Block(f"({query}) AS {alias}", columns)

    def _select(self, block: Block, node: Any, names: list[str]) -> str:
        ids = [each.exprId().id() for each in seq(node.output())]
        shown = ", ".join(
            f"{block.columns[id_]} AS {quoted(name)}" for id_, name in zip(ids, names, strict=True)
        )
        where = f" WHERE {' AND '.join(block.where)}" if block.where else ""
        group = f" GROUP BY {block.group}" if block.group else ""
        return f"{block.head} {shown} FROM {block.source}{where}{group}{block.tail}"

    def _alias(self) -> str:
        self._tables += 1
        return f"t{self._tables}"

    # Expressions.

    def _named(self, expressions: Iterable[Any], block: Block) -> dict[int, str]:
        return {each.exprId().id(): self._text(each, block) for each in expressions}

    def _text(self, expression: Any, block: Block) -> str:
        """The SQL that Spark gives an expression, with our names of columns."""
        marked = str(self._marked(expression).sql())

        def own(found: re.Match[str]) -> str:
            text = block.columns[int(found[1])]
            return text if _IS_PLAIN(text) else f"({text})"

        return re.sub(rf"{self._mark}(\d+)x", own, marked)

    def _marked(self, expression: Any) -> Any:
        word = kind(expression)
        if word == "AttributeReference":
            name = f"{self._mark}{expression.exprId().id()}x"
            return expression.withName(name).withQualifier(self._jvm.PythonUtils.toSeq([]))
        if word == "Alias" or self._is_replaced(expression):
            return self._marked(expression.children().apply(0))
        if _NO_SQL.search(word) or _is_try(word, expression):
            raise Untranslatable(f"{word} runs in Spark only")
        below = [self._marked(each) for each in seq(expression.children())]
        if not below:
            return expression
        return expression.withNewChildren(self._jvm.PythonUtils.toSeq(below))

    def _is_replaced(self, expression: Any) -> bool:
        """Whether its text would be of arguments that are no children: nvl(a, b) is coalesce."""
        return bool(is_instance_of(self._gateway, expression, _REPLACED))


def _is_try(word: str, expression: Any) -> bool:
    """Whether it is try_add or the like, whose text is a + b."""
    return word in _ARITHMETIC and str(expression.evalMode()) == "TRY"


def _apart(names: Iterable[str]) -> list[str]:
    """Names that differ, also in lower case."""
    found: list[str] = []
    for name in names:
        number, made = 2, name
        while made.lower() in {each.lower() for each in found}:
            made, number = f"{name}_{number}", number + 1
        found.append(made)
    return found
