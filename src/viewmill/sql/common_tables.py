"""Which names in FROM are those of a WITH clause."""

from __future__ import annotations

from sqlglot import exp


def is_common_table(table: exp.Table) -> bool:
    """Whether a WITH around the table defines its name; a CTE sees only those before it."""
    if table.args.get("db") is not None:
        return False
    name, node = table.name.lower(), table.parent
    inside: exp.Expr = table
    while node is not None:
        clause = node.args.get("with_")
        if isinstance(clause, exp.With) and clause is not inside:
            if any(each.alias.lower() == name for each in clause.expressions):
                return True
        elif isinstance(node, exp.With):
            for each in node.expressions:
                if each is inside and not node.args.get("recursive"):
                    break
                if each.alias.lower() == name:
                    return True
        inside, node = node, node.parent
    return False
