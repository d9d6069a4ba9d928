"""The names Spark gives to outputs that the user did not name.

takes  the sqlglot node of one output
gives  `sum(amount)`, `count(1)`, `(a + b)` and so on
"""

from __future__ import annotations

from sqlglot import exp

from viewmill.sql.read_functions import read_function

_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "<=>", exp.And: "AND", exp.Or: "OR", exp.BitwiseAnd: "&", exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}  # fmt: skip


def auto_name(node: exp.Expr) -> str:
    """The name Spark would show."""
    kind = type(node)
    if isinstance(node, exp.Column | exp.Identifier):
        return node.name
    if isinstance(node, exp.Paren):
        return auto_name(node.this)
    if kind is exp.NEQ:
        return f"(NOT ({auto_name(node.this)} = {auto_name(node.expression)}))"
    if kind in _SIGNS:
        return f"({auto_name(node.this)} {_SIGNS[kind]} {auto_name(node.expression)})"
    if isinstance(node, exp.Literal):
        return node.name
    if isinstance(node, exp.Star):
        return "1"
    if isinstance(node, exp.Null | exp.Boolean):
        return "NULL" if isinstance(node, exp.Null) else str(bool(node.this)).lower()
    return _special(node)


def _special(node: exp.Expr) -> str:
    match node:
        case exp.Neg():
            inner = auto_name(node.this)
            return f"-{inner}" if isinstance(node.this, exp.Literal) else f"(- {inner})"
        case exp.Not():
            if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                return f"({auto_name(node.this.this)} IS NOT NULL)"
            return f"(NOT {auto_name(node.this)})"
        case exp.Is():
            return f"({auto_name(node.this)} IS {auto_name(node.expression).upper()})"
        case exp.Like() | exp.ILike():
            word = "LIKE" if isinstance(node, exp.Like) else "ILIKE"
            text = f"{auto_name(node.this)} {word} {auto_name(node.expression)}"
            return f"(NOT {text})" if node.args.get("negate") else text
        case exp.Cast():
            return f"CAST({auto_name(node.this)} AS {node.args['to'].sql('spark').upper()})"
        case exp.Case():
            return _case(node)
        case exp.In() if node.expressions:
            options = ", ".join(map(auto_name, node.expressions))
            return f"({auto_name(node.this)} IN ({options}))"
        case exp.Between():
            subject = auto_name(node.this)
            low, high = auto_name(node.args["low"]), auto_name(node.args["high"])
            return f"(({subject} >= {low}) AND ({subject} <= {high}))"
        case exp.Extract():
            return f"extract({node.name} FROM {auto_name(node.expression)})"
        case exp.Subquery() | exp.Exists():
            return "exists()" if isinstance(node, exp.Exists) else "scalarsubquery()"
        case exp.Window():
            return _window(node)
        case exp.Filter():
            where = auto_name(node.expression.this)
            return f"{auto_name(node.this)} FILTER (WHERE {where})"
        case exp.Distinct():
            return "DISTINCT " + ", ".join(map(auto_name, node.expressions))
        case exp.DPipe():
            return f"concat({auto_name(node.this)}, {auto_name(node.expression)})"
        case exp.Func():
            name, arguments = read_function(node)
            return f"{name}({', '.join(map(auto_name, arguments))})"
        case _:
            return node.sql("spark")


def _case(node: exp.Case) -> str:
    subject = node.args.get("this")
    words = ["CASE"] if subject is None else ["CASE", auto_name(subject)]
    for each in node.args["ifs"]:
        words.append(f"WHEN {auto_name(each.this)} THEN {auto_name(each.args['true'])}")
    default = node.args.get("default")
    if default is not None:
        words.append(f"ELSE {auto_name(default)}")
    return " ".join([*words, "END"])


def _window(node: exp.Window) -> str:
    parts = []
    if partition := node.args.get("partition_by"):
        parts.append("PARTITION BY " + ", ".join(map(auto_name, partition)))
    if order := node.args.get("order"):
        keys = (f"{auto_name(each.this)} {_direction(each)}" for each in order.expressions)
        parts.append("ORDER BY " + ", ".join(keys))
    return f"{auto_name(node.this)} OVER ({' '.join(parts)})"


def _direction(node: exp.Ordered) -> str:
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{'DESC' if node.args.get('desc') else 'ASC'} NULLS {nulls}"
