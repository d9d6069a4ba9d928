"""time_bucket_gapfill(INTERVAL 1 HOUR, ts) in GROUP BY: a row also for buckets that have no rows.

takes  a SELECT with such a call
gives  the SELECT it stands for: the groups, each repeated up to the next group of its keys

    a group at 9:00 and one at 12:00: the one of 9:00 is also written for 10:00 and 11:00

Of an empty bucket aggregates are NULL, locf(sum(x)) is that of the last bucket that had rows, and
interpolate(avg(x)) lies on the line to the next. A group that comes or goes changes the rows up to
its neighbours. With a third and a fourth argument all keys are filled from the one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp, parse_one

from viewmill.errors import MalformedSQL, Span, UnsupportedQuery
from viewmill.sql import aggregates
from viewmill.sql.environment import Environment
from viewmill.sql.lower_expressions import ExpressionLowering
from viewmill.sql.read_functions import read_function
from viewmill.sql.scopes import Scope
from viewmill.sql.time_bucket import bucket_size

_NAME = "time_bucket_gapfill"
_HINT = f"SELECT {_NAME}(INTERVAL 1 HOUR, ts) AS hour, sum(x) FROM t GROUP BY 1"
_READ = ("from_", "joins", "laterals", "where", "with_")
_KEPT = ("order", "limit", "offset", "hint")
_REFUSED = {"having": "HAVING", "qualify": "QUALIFY", "distinct": "DISTINCT", "windows": "WINDOW"}


def with_gaps_filled(select: exp.Select, environment: Environment) -> exp.Select:
    """The SELECT without time_bucket_gapfill."""
    calls = [e for e in select.find_all(exp.Anonymous)
             if e.name.lower() == _NAME and e.find_ancestor(exp.Select) is select]  # fmt: skip
    return _Gaps(select, calls, environment).filled() if calls else select


class _Gaps:
    """One SELECT, taken apart into the groups and what is shown of them."""

    def __init__(
        self, select: exp.Select, calls: Sequence[exp.Anonymous], environment: Environment
    ) -> None:
        self.select, self.call, self.environment = select, calls[0], environment
        self.span = environment.span(calls[0])
        self._check(calls)
        self.size, self.time, *self.range = self.call.expressions
        lowering = ExpressionLowering(environment, Scope())
        self.months, self.micros = bucket_size(lowering.lower(self.size))
        self.keys = self._keys()
        self.aggregates: list[exp.Expr] = []
        self.lines: list[exp.Expr] = []  # what is interpolated

    def _check(self, calls: Sequence[exp.Anonymous]) -> None:
        if any(each != calls[0] for each in calls):
            raise UnsupportedQuery(f"a SELECT has one {_NAME}(...)", span=self.span)
        if not 2 <= len(calls[0].expressions) <= 4:
            raise MalformedSQL(f"{_NAME} takes a size, a time, a start and an end", hint=_HINT,
                               span=self.span)  # fmt: skip
        for key, word in _REFUSED.items():
            if self.select.args.get(key):
                raise UnsupportedQuery(f"{word} does not go with {_NAME}", span=self.span,
                                       hint="Fill gaps in a subquery in FROM.")  # fmt: skip

    def _keys(self) -> list[exp.Expr]:
        """What GROUP BY names besides the bucket."""
        group = self.select.args.get("group")
        if group is None or any(v for k, v in group.args.items() if k != "expressions"):
            raise UnsupportedQuery(f"{_NAME} stands in a plain GROUP BY", hint=_HINT,
                                   span=self.span)  # fmt: skip
        meant = [self._meant(each) for each in group.expressions]
        keys = [each for each in meant if each != self.call]
        if len(keys) == len(meant) or any(each.find(exp.Anonymous) == self.call for each in keys):
            raise UnsupportedQuery(f"{_NAME} is itself what is grouped by", hint=_HINT,
                                   span=self.span)  # fmt: skip
        return keys

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """An item of GROUP BY, by position or alias."""
        outputs = self.select.expressions
        if isinstance(node, exp.Literal) and node.is_int and 0 < int(node.name) <= len(outputs):
            found: exp.Expr = outputs[int(node.name) - 1].unalias()
            return found
        if isinstance(node, exp.Column) and not node.table:
            for each in outputs:
                is_named = isinstance(each, exp.Alias) and each.alias.lower() == node.name.lower()
                if is_named and each.unalias() == self.call:
                    return self.call
        return node

    def filled(self) -> exp.Select:
        """The groups, repeated, with their values."""
        outputs = [self._output(each) for each in self.select.expressions]
        rest = {key: self.select.args.get(key) for key in _KEPT}
        if (order := rest["order"]) is not None:
            rest["order"] = exp.Order(expressions=[self._shown(e) for e in order.expressions])
        made = _tree(f"""
            SELECT 1 FROM (SELECT *, {self._first()} AS `#first`, {self._last()} AS `#last`
            FROM `#rows`) LATERAL VIEW explode(sequence(`#first`, `#last`)) `#at` AS `#at`
        """)
        assert isinstance(made, exp.Select)
        made.set("expressions", outputs)
        for key, value in rest.items():
            made.set(key, None if value is None else value.copy())
        _put(made, "#start", self._bucket(self.range[:1]))
        last = _tree("timestamp_micros(unix_micros(`#moment`) - 1)")
        ends = [_put(last, "#moment", each) for each in self.range[1:]]
        _put(made, "#end", self._bucket(ends))
        _put_rows(made, self._with_neighbours())
        made.meta.update(self.select.meta)
        return made

    def _output(self, node: exp.Expr) -> exp.Expr:
        shown = self._shown(node)
        if isinstance(node, exp.Alias):
            return shown
        name = _NAME if node == self.call else node.alias_or_name or node.sql("databricks")
        return exp.alias_(shown, name, quoted=True)

    # What is shown.

    def _shown(self, node: exp.Expr) -> exp.Expr:
        """An expression over the groups as one over the repeated rows."""
        return self._over(node, "CASE WHEN `#at` = 0 THEN `#value` END")

    def _over(self, node: exp.Expr, template: str) -> exp.Expr:
        if node == self.call:
            return _tree(_moved("`#bucket`", "`#at`", self.months, self.micros))
        if node in self.keys:
            return exp.column(f"#key{self.keys.index(node)}", quoted=True)
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name in ("locf", "interpolate"):
            if len(node.expressions) != 1:
                raise MalformedSQL(f"{name} takes one value", span=self._place(node))
            inner = node.expressions[0]
            return self._carried(inner) if name == "locf" else self._line(inner)
        if isinstance(node, exp.Func) and aggregates.is_aggregate(read_function(node)[0]):
            return _put(_tree(template), "#value", self._aggregate(node))
        if isinstance(node, exp.Filter):
            return _put(_tree(template), "#value", self._aggregate(node))
        if isinstance(node, exp.Column):
            return self._column(node)
        made = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr) and key != "alias":
                made.set(key, self._over(value, template))
            elif isinstance(value, list):
                parts = (self._over(e, template) if isinstance(e, exp.Expr) else e for e in value)
                made.set(key, list(parts))
        return made

    def _column(self, node: exp.Column) -> exp.Expr:
        """A key without its table, or an output by its alias."""
        for i, key in enumerate(self.keys):
            is_same = isinstance(key, exp.Column) and key.name.lower() == node.name.lower()
            if is_same and not (node.table and key.text("table")):
                return exp.column(f"#key{i}", quoted=True)
        if any(e.alias.lower() == node.name.lower() for e in self.select.expressions):
            return node.copy()
        raise UnsupportedQuery(f'"{node.name}" is neither in GROUP BY nor in an aggregate',
                               span=self._place(node))  # fmt: skip

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        if node not in self.aggregates:
            self.aggregates.append(node)
        return exp.column(f"#value{self.aggregates.index(node)}", quoted=True)

    def _carried(self, node: exp.Expr) -> exp.Expr:
        """The value of the last bucket with rows."""
        return _put(_tree("CASE WHEN `#at` >= 0 THEN `#value` END"), "#value",
                    self._over(node, "`#value`"))  # fmt: skip

    def _line(self, node: exp.Expr) -> exp.Expr:
        inner = self._over(node, "`#value`")
        if inner not in self.lines:
            self.lines.append(inner)
        i = self.lines.index(inner)
        return _tree(f"""
            CASE WHEN `#at` = 0 THEN `#line{i}`
                WHEN `#at` > 0 THEN `#line{i}` + (`#next{i}` - `#line{i}`) * `#at` / (`#last` + 1)
            END""")

    # The rows.

    def _with_neighbours(self) -> exp.Expr:
        """The groups with the buckets before and after them, and the values there."""
        keys = ", ".join(f"`#key{i}`" for i in range(len(self.keys)))
        over = f"OVER ({f'PARTITION BY {keys} ' if keys else ''}ORDER BY `#bucket`)"
        lines = "".join(
            f", CAST(`#of{i}` AS DOUBLE) AS `#line{i}`,"
            f" lead(CAST(`#of{i}` AS DOUBLE)) {over} AS `#next{i}`"
            for i in range(len(self.lines))
        )
        made = _tree(f"""SELECT *, lag(`#bucket`) {over} AS `#before`,
            lead(`#bucket`) {over} AS `#after`{lines} FROM `#rows`""")
        for i, each in enumerate(self.lines):
            _put(made, f"#of{i}", each)
        return _put_rows(made, self._groups())

    def _groups(self) -> exp.Expr:
        inner = exp.Select()
        for key in _READ:
            if (value := self.select.args.get(key)) is not None:
                copies = [e.copy() for e in value] if isinstance(value, list) else value.copy()
                inner.set(key, copies)
        bucket = exp.Anonymous(this="time_bucket", expressions=[self.size, self.time])
        named: list[tuple[str, exp.Expr]] = [("#bucket", bucket)]
        named += [(f"#key{i}", each) for i, each in enumerate(self.keys)]
        inner.set("group", exp.Group(expressions=[each.copy() for _, each in named]))
        named += [(f"#value{i}", each) for i, each in enumerate(self.aggregates)]
        inner.set("expressions", [exp.alias_(e.copy(), name, quoted=True) for name, e in named])
        there = exp.Not(this=exp.Is(this=self.time.copy(), expression=exp.Null()))
        where = inner.args.get("where")
        met = there if where is None else exp.And(this=exp.Paren(this=where.this), expression=there)
        inner.set("where", exp.Where(this=met))
        return inner

    def _bucket(self, moments: Sequence[exp.Expr]) -> exp.Expr | None:
        if not moments:
            return None
        return exp.Anonymous(this="time_bucket", expressions=[self.size.copy(), moments[0].copy()])

    def _first(self) -> str:
        """How many buckets before its own the first group of its keys is also written for."""
        if not self.range:
            return "CAST(0 AS BIGINT)"
        away = _between("`#bucket`", "`#start`", self.months, self.micros)
        zero = "CAST(0 AS BIGINT)"
        return f"CASE WHEN `#before` IS NULL THEN least({zero}, {away}) ELSE {zero} END"

    def _last(self) -> str:
        """How many buckets behind its own a group is written for."""
        away = _between("`#bucket`", "`#after`", self.months, self.micros)
        zero, behind = "CAST(0 AS BIGINT)", "CAST(0 AS BIGINT)"
        if len(self.range) > 1:
            until = _between("`#bucket`", "`#end`", self.months, self.micros)
            behind = f"greatest({zero}, {until})"
        return f"CASE WHEN `#after` IS NULL THEN {behind} ELSE {away} - 1 END"

    def _place(self, node: exp.Expr) -> Span | None:
        return self.environment.span(node) or self.span


def _between(low: str, high: str, months: int, micros: int) -> str:
    """How many buckets from one to another."""
    if months:
        return f"(timestampdiff(MONTH, {low}, {high}) div {months})"
    return f"((unix_micros({high}) - unix_micros({low})) div {micros})"


def _moved(start: str, count: str, months: int, micros: int) -> str:
    if months:
        return f"timestampadd(MONTH, CAST({count} * {months} AS INT), {start})"
    return f"timestamp_micros(unix_micros({start}) + {count} * {micros})"


def _tree(text: str) -> exp.Expr:
    """A tree of our own words: it stands nowhere in the user's text."""
    tree = parse_one(text, read="databricks")
    for node in tree.walk():
        node.meta.clear()
    return tree


def _put(tree: exp.Expr, name: str, by: exp.Expr | None) -> exp.Expr:
    """The tree with an expression in place of a column."""
    if isinstance(tree, exp.Column) and tree.name == name and by is not None:
        return by.copy()
    for column in list(tree.find_all(exp.Column)):
        if column.name == name and by is not None:
            column.replace(by.copy())
    return tree


def _put_rows(tree: exp.Expr, rows: exp.Expr) -> exp.Expr:
    """The tree with a query in place of its table."""
    for table in list(tree.find_all(exp.Table)):
        if table.name == "#rows":
            table.replace(exp.Subquery(this=rows))
    return tree
