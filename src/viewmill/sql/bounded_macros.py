"""Functions that make large values of small ones, with a bound: for SQL that others write.

DuckDB does not look at the clock, nor at its limit of memory, within one call of a function, and
works out calls of constants while it plans. So `repeat('x', 2000000000)` would cost everybody
seconds and gigabytes. Where these macros are defined, it is an error.

Each bounds the argument, too, not only the CASE: DuckDB works out branches that are not taken.
"""

from __future__ import annotations

MOST = 65_536  # characters or members that one call may make of nothing
_GROWN = 1 << 20  # bytes of what `replace` may make, if it is more than twice what it is given


def _too_large(call: str) -> str:
    return f"error('{call} makes more than {MOST:,} of one value, which is not allowed here')"


def _pad(side: str) -> str:
    count = f"least(greatest(count, 0), {MOST})"
    return f"""spark_{side}(s, count, pad) AS
       CASE WHEN count IS NULL THEN NULL
            WHEN count > {MOST} AND count > length(s) THEN {_too_large(side)}
            WHEN pad = '' OR count <= length(s) THEN left(s, greatest(count, 0))
            ELSE system.main.{side}(s, {count}, pad) END"""


_FAR = f"CAST(a AS HUGEINT) + {MOST}"

BOUNDED_MACROS: tuple[str, ...] = (
    f"""repeat(s, n) AS
       CASE WHEN n IS NULL THEN NULL
            WHEN CAST(strlen(s) AS HUGEINT) * n > {MOST} THEN {_too_large("repeat")}
            ELSE system.main.repeat(s, least(n, {MOST} // greatest(strlen(s), 1))) END""",
    _pad("lpad"),
    _pad("rpad"),
    f"""spark_is_grown(s, old, new) AS CAST(strlen(s) AS HUGEINT) * strlen(new)
       > greatest({_GROWN}, 2 * strlen(s)) * greatest(strlen(old), 1)""",
    f"""replace(s, old, new) AS
       CASE WHEN spark_is_grown(s, old, new) THEN {_too_large("replace")}
            ELSE system.main.replace(
                 CASE WHEN spark_is_grown(s, old, new) THEN '' ELSE s END, old, new) END""",
    f"""spark_space_1(n) AS
       CASE WHEN n IS NULL THEN NULL WHEN n > {MOST} THEN {_too_large("space")}
            ELSE system.main.repeat(' ', least(n, {MOST})) END""",
    f"""spark_array_repeat(v, n) AS
       CASE WHEN n IS NULL THEN NULL WHEN n > {MOST} THEN {_too_large("array_repeat")}
            ELSE list_transform(range(CAST(least(n, {MOST}) AS BIGINT)), lambda i: v) END""",
    f"""spark_sequence_2(a, b) AS
       CASE WHEN a IS NULL OR b IS NULL THEN NULL
            WHEN abs(CAST(b AS HUGEINT) - a) >= {MOST} THEN {_too_large("sequence")}
            WHEN a <= b THEN generate_series(a, CAST(least(CAST(b AS HUGEINT), {_FAR}) AS BIGINT))
            ELSE generate_series(a, CAST(greatest(CAST(b AS HUGEINT), {_FAR} - 2 * {MOST})
                                         AS BIGINT), -1) END""",
    f"""spark_sequence_3(a, b, step) AS
       CASE WHEN step <> 0 AND (CAST(b AS HUGEINT) - a) // nullif(step, 0) >= {MOST}
            THEN {_too_large("sequence")}
            WHEN (step > 0 AND a <= b) OR (step < 0 AND a >= b) OR (step = 0 AND a = b)
            THEN CASE WHEN step = 0 THEN [a] ELSE generate_series(a, CAST(
                 CASE WHEN step > 0
                      THEN least(CAST(b AS HUGEINT), a + CAST(step AS HUGEINT) * {MOST})
                      ELSE greatest(CAST(b AS HUGEINT), a + CAST(step AS HUGEINT) * {MOST}) END
                 AS BIGINT), step) END
            WHEN a IS NOT NULL AND b IS NOT NULL AND step IS NOT NULL
            THEN error('a sequence from ' || CAST(a AS VARCHAR) || ' to ' || CAST(b AS VARCHAR)
                       || ' has no step ' || CAST(step AS VARCHAR)) END""",
)
