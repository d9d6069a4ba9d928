"""sqlglot's function nodes as Spark's names and arguments.

takes  exp.Func nodes of the Databricks dialect, which renames and rearranges many functions
gives  the name in Spark's spelling and the arguments in Spark's order
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sqlglot import exp

Read = tuple[str, list[exp.Expr]]


def _args(node: exp.Expr, *keys: str) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for key in keys:
        value = node.args.get(key)
        if isinstance(value, list):
            found += value
        elif isinstance(value, exp.Expr):
            found.append(value)
    return found


def _plain(name: str, *keys: str) -> Callable[[exp.Expr], Read]:
    return lambda node: (name, _args(node, *(keys or ("this", "expression", "expressions"))))


MORE = " with more arguments"


def _only(name: str, *keys: str) -> Callable[[exp.Expr], Read]:
    """The arguments under these keys; with others it is a function that is not modelled."""

    def read(node: exp.Expr) -> Read:
        others = [key for key in node.args if key not in keys]
        return name + MORE * bool(_args(node, *others)), _args(node, *keys, *others)

    return read


def _trim(node: exp.Expr) -> Read:
    side = (node.args.get("position") or "").upper()
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "trim")
    return name, _args(node, "this", "expression")


def _pad(node: exp.Expr) -> Read:
    name = "lpad" if node.args.get("is_left") else "rpad"
    return name, _args(node, "this", "expression", "fill_pattern")


def _position(node: exp.Expr) -> Read:
    if node.args.get("position") is None:
        return "instr", _args(node, "this", "substr")
    return "locate", _args(node, "substr", "this", "position")


def _logarithm(node: exp.Expr) -> Read:
    base, operand = node.this, node.args.get("expression")
    if operand is None:
        return "ln", [base]
    # log10(x) and log2(x) come as log(10, x) and log(2, x), and mean the same.
    name = {"2": "log2", "10": "log10"}.get(base.name if isinstance(base, exp.Literal) else "")
    return (name, [operand]) if name else ("log", [base, operand])


def _of_date(name: str) -> Callable[[exp.Expr], Read]:
    def read(node: exp.Expr) -> Read:
        inner = node.this
        if isinstance(inner, exp.TsOrDsToDate) and inner.args.get("format") is None:
            inner = inner.this
        return name, [inner]

    return read


def _to_date(node: exp.Expr) -> Read:
    return "to_date", _args(node, "this", "format")


def _add_days(node: exp.Expr) -> Read:
    amount, unit = node.expression, _unit(node)
    if unit != "DAY":
        return f"date_add of {unit}", []
    # date_sub(d, n) comes as the addition of n * -1.
    if isinstance(amount, exp.Mul) and isinstance(amount.expression, exp.Neg):
        return "date_sub", [node.this, amount.this]
    return "date_add", [node.this, amount]


def _unit(node: exp.Expr) -> str:
    unit = node.args.get("unit")
    return unit.name.upper() if isinstance(unit, exp.Expr) else "DAY"


def _date_diff(node: exp.Expr) -> Read:
    if _unit(node) != "DAY" or _start(node.expression) < _start(node.this) < math.inf:
        return _timestampdiff(node)  # datediff(unit, a, b)
    return "datediff", [node.this, node.expression]  # (b, a): days of the calendar


def _start(node: exp.Expr) -> float:
    """Where a node begins in the text; NULL does not say."""
    places = [each.meta["start"] for each in node.walk() if "start" in each.meta]
    return min(places, default=math.inf)


def _unix_time(node: exp.Expr) -> Read:
    written = node.args.get("format")
    default = written is None or written.name.startswith("%Y-%mstrict-%dstrict %Hstrict")
    return "unix_timestamp", [node.this] if default else [node.this, written]


def _initcap(node: exp.Expr) -> Read:
    return "initcap", [node.this]


def _date_format(node: exp.Expr) -> Read:
    moment = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    return "date_format", [moment, node.args["format"]]


def _timestampdiff(node: exp.Expr) -> Read:
    unit = exp.Literal.string(_unit(node))
    return "timestampdiff", [unit, node.expression, node.this]


def _timestampadd(node: exp.Expr) -> Read:
    return "timestampadd", [exp.Literal.string(_unit(node)), node.expression, node.this]


def _median(node: exp.Expr) -> Read:
    half = exp.Literal.number("0.5")
    half.meta.update(node.meta)
    return "percentile", [node.this, half]


def _any(node: exp.Expr) -> Read:
    return "bool_or", [node.this.unnest()]


def _mode(node: exp.Expr) -> Read:
    # mode(x, true) is the smallest of those that are there most often; without it any may be.
    return "mode", [node.this] if node.this is not None else []


def _within_group(node: exp.Expr) -> Read:
    """percentile_cont(p) WITHIN GROUP (ORDER BY x DESC) has the arguments x, p, whether down."""
    called, keys = node.this, node.expression.expressions
    down = [exp.Boolean(this=True)] if keys[0].args.get("desc") else []
    if isinstance(called, exp.Mode) and called.this is None and len(keys) == 1:
        return "mode", [keys[0].this, *down]
    name = {exp.PercentileCont: "percentile", exp.PercentileDisc: "percentile_disc"}.get(
        type(called)
    )
    if name is None or len(keys) != 1 or called.args.get("expression") is not None:
        return read_function(called)[0] + " within group", []
    return name, [keys[0].this, called.this, *down]


def _json_path(node: exp.Expr) -> Read:
    path, text = node.expression, "$"
    if not isinstance(path, exp.JSONPath):
        return "get_json_object", [node.this, path]
    for step in path.expressions[1:]:
        if isinstance(step, exp.JSONPathKey) and isinstance(step.this, str):
            text += f"['{step.this}']"
        elif isinstance(step, exp.JSONPathSubscript) and isinstance(step.this, int):
            text += f"[{step.this}]"
        else:
            return "get_json_object by a pattern", []
    return "get_json_object", [node.this, exp.Literal.string(text)]


def _moment_parts(node: exp.Expr) -> Read:
    parts = _args(node, "year", "month", "day", "hour", "min", "sec", "nano", "zone")
    return "make_timestamp", parts  # sqlglot takes the zone for nanoseconds


def _of_parts(name: str) -> Callable[[exp.Expr], Read]:
    """A function of an array, which is known if split makes the array."""

    def read(node: exp.Expr) -> Read:
        made = node.this
        if isinstance(made, exp.RegexpSplit) and made.args.get("limit") is None:
            return name, [made.this, made.expression, *_args(node, "expression")]
        return name.replace("split", "array"), [made, *_args(node, "expression")]

    return read


def _known_parts(name: str, arguments: list[exp.Expr]) -> Read | None:
    """Functions of the parts of a text, as the one function that they are together."""
    made = arguments[0] if arguments else None
    own = {"get": "split_get", "cardinality": "split_size"}.get(name)
    if own is None or not isinstance(made, exp.RegexpSplit) or made.args.get("limit") is not None:
        return None
    return own, [made.this, made.expression, *arguments[1:]]


_READERS: dict[type[exp.Expr], Callable[[exp.Expr], Read]] = {
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.StrPosition: _position,
    exp.Log: _logarithm,
    exp.Length: _plain("length", "this"),
    exp.Substring: _plain("substring", "this", "start", "length"),
    exp.Replace: _plain("replace", "this", "expression", "replacement"),
    exp.AtTimeZone: _plain("from_utc_timestamp", "this", "zone"),
    exp.FromTimeZone: _plain("to_utc_timestamp", "this", "zone"),
    exp.ConvertTimezone: _plain("convert_timezone", "source_tz", "target_tz", "timestamp"),
    exp.SplitPart: _plain("split_part", "this", "delimiter", "part_index"),
    exp.Repeat: _plain("repeat", "this", "times"),
    exp.StartsWith: _plain("startswith"),
    exp.EndsWith: _plain("endswith"),
    exp.Concat: _plain("concat", "expressions"),
    exp.ConcatWs: _plain("concat_ws", "expressions"),
    exp.Initcap: _initcap,
    exp.RegexpExtract: _plain("regexp_extract", "this", "expression", "group"),
    exp.RegexpReplace: _only("regexp_replace", "this", "expression", "replacement"),
    exp.TimeToStr: _date_format,
    exp.TimestampDiff: _timestampdiff,
    exp.TimestampAdd: _timestampadd,
    exp.StrToTime: _plain("to_timestamp", "this", "format"),
    exp.UnixToStr: _plain("from_unixtime", "this", "format"),
    exp.MonthsBetween: _plain("months_between", "this", "expression", "roundoff"),
    exp.BitwiseCount: _plain("bit_count", "this"),
    exp.SafeDivide: _plain("try_divide"),
    exp.SafeAdd: _plain("try_add"),
    exp.SafeSubtract: _plain("try_subtract"),
    exp.SafeMultiply: _plain("try_multiply"),
    exp.BitwiseLeftShift: _plain("shiftleft"),
    exp.BitwiseRightShift: _plain("shiftright"),
    exp.Levenshtein: _plain("levenshtein", "this", "expression", "ins_cost"),
    exp.Overlay: _plain("overlay", "this", "expression", "from_", "for_"),
    exp.ToBase64: _plain("base64", "this"),
    exp.JSONExtractScalar: _json_path,
    exp.TimestampFromParts: _moment_parts,
    exp.ArraySize: _of_parts("split_size"),
    exp.ArrayContains: _of_parts("split_contains"),
    exp.DecodeCase: _plain("decode", "expressions"),
    exp.Translate: _plain("translate", "this", "from_", "to"),
    exp.Round: _plain("round", "this", "decimals"),
    exp.Floor: _plain("floor", "this", "decimals", "to"),
    exp.Ceil: _plain("ceil", "this", "decimals", "to"),
    exp.Pow: _plain("pow"),
    exp.Year: _of_date("year"),
    exp.Month: _of_date("month"),
    exp.Day: _of_date("day"),
    exp.DayOfMonth: _of_date("day"),
    exp.DayOfWeek: _of_date("dayofweek"),
    exp.DayOfYear: _of_date("dayofyear"),
    exp.WeekOfYear: _of_date("weekofyear"),
    exp.Quarter: _of_date("quarter"),
    exp.TsOrDsToDate: _to_date,
    exp.TsOrDsAdd: _add_days,
    exp.DateAdd: _add_days,
    exp.DateDiff: _date_diff,
    exp.StrToUnix: _unix_time,
    exp.If: _plain("if", "this", "true", "false"),
    exp.Nvl2: _plain("nvl2", "this", "true", "false"),
    exp.Coalesce: _plain("coalesce"),
    exp.Nullif: _plain("nullif"),
    exp.RegexpLike: _plain("rlike"),
    exp.IsNan: _plain("isnan", "this"),
    exp.EqualNull: _plain("equal_null"),
    exp.CurrentTimestamp: _plain("current_timestamp", "-"),
    exp.CurrentDate: _plain("current_date", "-"),
    exp.BitwiseOrAgg: _plain("bit_or"),
    exp.BitwiseAndAgg: _plain("bit_and"),
    exp.BitwiseXorAgg: _plain("bit_xor"),
    exp.Variance: _plain("var_samp"),
    exp.VariancePop: _plain("var_pop"),
    exp.LogicalAnd: _plain("bool_and"),
    exp.LogicalOr: _plain("bool_or"),
    exp.Any: _any,
    exp.ArrayAgg: _plain("collect_list", "this"),
    exp.ArrayUniqueAgg: _plain("collect_set"),
    exp.CountIf: _plain("count_if"),
    exp.ArgMax: _only("max_by", "this", "expression"),
    exp.ArgMin: _only("min_by", "this", "expression"),
    exp.Count: _plain("count", "this", "expressions"),
    exp.Lag: _plain("lag", "this", "offset", "default"),
    exp.Lead: _plain("lead", "this", "offset", "default"),
    exp.NthValue: _plain("nth_value", "this", "offset"),
    exp.ApproxDistinct: _plain("approx_count_distinct"),
    exp.MD5: _plain("md5"),
    exp.GroupConcat: _plain("listagg"),
    exp.Stddev: _plain("stddev_samp"),
    exp.Median: _median,
    exp.Quantile: _plain("percentile", "this", "quantile"),
    exp.ApproxQuantile: _plain("percentile_approx", "this", "quantile", "accuracy"),
    exp.WithinGroup: _within_group,
    exp.Mode: _mode,
}


def read_function(node: exp.Expr) -> Read:
    """The function's name in Spark's spelling, in lower case, and its arguments."""
    reader = _READERS.get(type(node))
    if reader is not None:
        return reader(node)
    if isinstance(node, exp.Anonymous):
        name, arguments = str(node.this).lower(), list(node.expressions)
        if name == "percentile":  # with a frequency, else it is a Quantile
            return name + MORE, arguments
        return _known_parts(name, arguments) or (name, arguments)
    names = type(node).sql_names() if isinstance(node, exp.Func) else [type(node).__name__]
    return names[0].lower(), _args(node, *node.arg_types)
