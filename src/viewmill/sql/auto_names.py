"""The names Spark gives to outputs that the user did not name.

takes  the sqlglot node of one output, the text it came from
gives  `sum(amount)`, `count(1)`, `(a + b)` and so on
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.deltas.float_text import float_text
from viewmill.sql.literals import joined_text
from viewmill.sql.read_functions import read_function

_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.And: "AND", exp.Or: "OR", exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip

_CONSTANTS = ("DATE", "TIMESTAMP")


def auto_name(node: exp.Expr, sql: str) -> str:
    """The name Spark would show. `sql` is where `node` stands, for functions of several names."""
    return _Namer(sql).name(node)


class _Namer:
    def __init__(self, sql: str) -> None:
        self.sql = sql

    def name(self, node: exp.Expr) -> str:
        match node:
            case exp.Literal(args={"is_string": False}) if "e" in node.name.lower():
                return float_text(float(node.name))
            case exp.Column() | exp.Identifier() | exp.Literal() | exp.RawString():
                return node.name
            case exp.HexString():
                return f"X'{node.name.upper()}'"
            case exp.Paren():
                return self.name(node.this)
            case exp.Star():
                return "1"
            case exp.Null():
                return "NULL"
            case exp.Boolean():
                return str(bool(node.this)).lower()
            case exp.NEQ():
                return f"(NOT ({self.name(node.this)} = {self.name(node.expression)}))"
            case exp.Cast():
                if (constant := self._constant(node)) is not None:
                    return constant
                return f"CAST({self.name(node.this)} AS {node.args['to'].sql('spark').upper()})"
            case exp.Case():
                return self._case(node)
            case exp.Window():
                return self._window(node)
            case exp.BitwiseLeftShift() | exp.BitwiseRightShift():
                left, right = self.name(node.this), self.name(node.expression)
                if "start" in node.meta:
                    return f"{read_function(node)[0]}({left}, {right})"
                sign = "<<" if isinstance(node, exp.BitwiseLeftShift) else ">>"
                return f"({left} {sign} {right})"
            case exp.Anonymous(this="shiftrightunsigned") if "start" not in node.meta:
                left, right = map(self.name, node.expressions)
                return f"({left} >>> {right})"
            case exp.Dot(this=inner, expression=exp.Identifier() as field):
                return f"{self.name(inner)}.{field.name}"
            case exp.Bracket(this=inner, expressions=[exp.Literal() as field]) if field.is_string:
                return f"{self.name(inner)}.{field.name}"
            case exp.Anonymous(this=str(word)) if word.lower() == "window":
                return "window"
            case exp.Func() if type(node) not in _SIGNS:
                return self._function(node)
            case _ if type(node) in _SIGNS:
                left, right = self.name(node.this), self.name(node.expression)
                return f"({left} {_SIGNS[type(node)]} {right})"
            case _:
                return self._predicate(node)

    def _constant(self, node: exp.Cast) -> str | None:
        """DATE '2024-01-01' and 1.5D, which sqlglot reads as casts."""
        value = node.this
        if not isinstance(value, exp.Literal):
            return None
        start = value.meta.get("start")
        if start is None:  # 1.5BD
            return str(value.name) if "start" not in node.meta else None
        if not value.is_string:
            suffix = self.sql[value.meta["end"]]
            if suffix.isdigit() or suffix == ".":
                return None
            is_float = suffix.upper() in "DF"
            return float_text(float(value.name), short=suffix in "Ff") if is_float else value.name
        word = self.sql[:start].rstrip().rpartition(" ")[2].rpartition("(")[2].rpartition(",")[2]
        return f"{word.upper()} '{value.name}'" if word.upper() in _CONSTANTS else None

    def _list(self, nodes: list[exp.Expr]) -> str:
        return ", ".join(map(self.name, nodes))

    def _function(self, node: exp.Func) -> str:
        if (text := joined_text(node, self.sql)) is not None:
            return text
        name, arguments = read_function(node)
        if isinstance(node, exp.Extract):
            return f"extract({node.name} FROM {self.name(node.expression)})"
        if isinstance(node, exp.Exists):
            return "exists()"
        return f"{self._written(node) or name}({self._list(arguments)})"

    def _written(self, node: exp.Func) -> str:
        """The name as the user wrote it: variance and var_samp are one function to sqlglot."""
        if "start" not in node.meta:
            return ""
        word = self.sql[node.meta["start"] : node.meta["end"] + 1]
        return word.lower() if word.isidentifier() else ""

    def _predicate(self, node: exp.Expr) -> str:
        match node:
            case exp.Neg():
                inner = self.name(node.this)
                constant = isinstance(node.this, exp.Literal) or (
                    isinstance(node.this, exp.Cast) and self._constant(node.this) is not None
                )
                return f"-{inner}" if constant else f"(- {inner})"
            case exp.Not(this=exp.Is(this=operand, expression=exp.Null())):
                return f"({self.name(operand)} IS NOT NULL)"
            case exp.Not():
                return f"(NOT {self.name(node.this)})"
            case exp.Is():
                return f"({self.name(node.this)} IS {self.name(node.expression).upper()})"
            case exp.Like() | exp.ILike():
                word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
                text = f"{self.name(node.this)} {word} {self.name(node.expression)}"
                return f"(NOT {text})" if node.args.get("negate") else text
            case exp.In() if node.expressions:
                return f"({self.name(node.this)} IN ({self._list(node.expressions)}))"
            case exp.Between():
                subject = self.name(node.this)
                low, high = self.name(node.args["low"]), self.name(node.args["high"])
                return f"(({subject} >= {low}) AND ({subject} <= {high}))"
            case exp.Subquery():
                return "scalarsubquery()"
            case exp.Filter():
                where = self.name(node.expression.this)
                return f"{self.name(node.this)} FILTER (WHERE {where})"
            case exp.Distinct():
                return f"DISTINCT {self._list(node.expressions)}"
            case exp.DPipe():
                return f"concat({self.name(node.this)}, {self.name(node.expression)})"
            case _:
                return str(node.sql("spark"))

    def _case(self, node: exp.Case) -> str:
        subject = node.args.get("this")
        words = ["CASE"] if subject is None else ["CASE", self.name(subject)]
        for each in node.args["ifs"]:
            words.append(f"WHEN {self.name(each.this)} THEN {self.name(each.args['true'])}")
        default = node.args.get("default")
        if default is not None:
            words.append(f"ELSE {self.name(default)}")
        return " ".join([*words, "END"])

    def _window(self, node: exp.Window) -> str:
        parts = []
        if partition := node.args.get("partition_by"):
            parts.append(f"PARTITION BY {self._list(partition)}")
        if order := node.args.get("order"):
            keys = (f"{self.name(each.this)} {_direction(each)}" for each in order.expressions)
            parts.append(f"ORDER BY {', '.join(keys)}")
        return f"{self.name(node.this)} OVER ({' '.join(parts)})"


def _direction(node: exp.Ordered) -> str:
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"
