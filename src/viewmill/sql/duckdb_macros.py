"""Spark's meaning where DuckDB's differs, as macros of the session.

`sql.render_duckdb` writes calls of these, and `engines.duckdb` defines them when it connects, so
the rendered SQL stays readable: spark_divide(a, b) instead of its CASE.
"""

from __future__ import annotations

_UNIT = 2**90
HALF = f"CAST({10**19} AS HUGEINT)"

MACROS: tuple[str, ...] = (
    # Division by zero is an error, for floats too: 1 // 0 raises it. NULL over zero is NULL.
    """spark_divide(a, b) AS
       CASE WHEN b = 0 AND a IS NOT NULL THEN 1 // CAST(b AS INTEGER) ELSE a / b END""",
    """spark_remainder(a, b) AS
       CASE WHEN b = 0 AND a IS NOT NULL THEN 1 // CAST(b AS INTEGER) ELSE a % b END""",
    # The lowest number over -1 is no whole number to DuckDB, nor what is left of it.
    "spark_left_over(a, b) AS CASE WHEN b = -1 THEN a - a ELSE a % b END",
    """spark_pmod(a, b) AS CASE WHEN spark_left_over(a, b) < 0
       THEN spark_left_over(spark_left_over(a, b) + b, b) ELSE spark_left_over(a, b) END""",
    """spark_pmod_float(a, b) AS
       CASE WHEN b = 0 AND a IS NOT NULL THEN 1 // CAST(b AS INTEGER)
            ELSE spark_pmod(a, b) END""",
    # a * power / b for whole numbers, rounded half up. The whole part goes first, so that
    # a * power, which may not fit into 128 bits, is never computed.
    """spark_quotient(a, b, power) AS
       (a // b) * power + ((a % b) * power) // b
       + CASE WHEN abs(((a % b) * power) % b) >= abs(b) - abs(((a % b) * power) % b)
              THEN sign(a) * sign(b) ELSE 0 END""",
    # a * b / power for HUGEINT, rounded half up; the product may have 76 digits, so it is made of
    # halves of 19. upper is 10**38 / power.
    f"spark_low(x) AS abs(x) % {HALF}",
    f"spark_high(x) AS abs(x) // {HALF}",
    f"""spark_middle(a, b) AS spark_high(a) * spark_low(b) + spark_low(a) * spark_high(b)
        + (spark_low(a) * spark_low(b)) // {HALF}""",
    f"spark_top(a, b) AS spark_high(a) * spark_high(b) + spark_middle(a, b) // {HALF}",
    f"""spark_rest(a, b) AS (spark_middle(a, b) % {HALF}) * {HALF}
        + (spark_low(a) * spark_low(b)) % {HALF}""",
    """spark_product(a, b, power, upper) AS CAST(sign(a) * sign(b) AS HUGEINT)
       * (spark_top(a, b) * upper + spark_rest(a, b) // power
          + CASE WHEN spark_rest(a, b) % power >= power - spark_rest(a, b) % power
                 THEN 1 ELSE 0 END)""",
    # Text to whole numbers: digits only, so neither '1.5' nor '1e3'.
    """spark_whole_or_null(x) AS
       CASE WHEN regexp_full_match(trim(x, ' \t\n\r'), '[+-]?[0-9]+')
            THEN trim(x, ' \t\n\r') END""",
    """spark_whole(x) AS
       CASE WHEN x IS NOT NULL AND spark_whole_or_null(x) IS NULL
            THEN x || ' (not a whole number)' ELSE spark_whole_or_null(x) END""",
    # Text of the usual shape is read by DuckDB, other by Python.
    """spark_real(x) AS
       CASE WHEN regexp_full_match(x, '[+-]?[0-9]{1,30}([.][0-9]{0,30})?([eE][+-]?[0-9]{1,2})?')
            THEN CAST(x AS DOUBLE) ELSE spark_text_real_1(x) END""",
    "spark_float(x) AS spark_real(x)",
    """spark_decimal(x) AS
       CASE WHEN contains(x, '_') THEN x || ' (not a number)' ELSE trim(x, ' \t\n\r') END""",
    """spark_date(x) AS
       CASE WHEN regexp_full_match(x, '[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}')
            THEN CAST(x AS DATE) ELSE spark_text_date_1(x) END""",
    """spark_timestamp(x) AS
       CASE WHEN regexp_full_match(x, '[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}'
                 || '( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?)?')
            THEN CAST(x AS TIMESTAMP) ELSE spark_text_timestamp_1(x) END""",
    """spark_truth_or_null(x) AS
       CASE WHEN lower(trim(x)) IN ('t', 'true', 'y', 'yes', '1') THEN TRUE
            WHEN lower(trim(x)) IN ('f', 'false', 'n', 'no', '0') THEN FALSE END""",
    """spark_truth(x) AS
       CASE WHEN x IS NOT NULL AND spark_truth_or_null(x) IS NULL
            THEN CAST(x || ' (not a truth value)' AS BOOLEAN)
            ELSE spark_truth_or_null(x) END""",
    # Java's spelling of floats: 1.0E10, 1.0E-4, Infinity, NaN.
    """spark_scientific(digits, exponent, minus) AS
       minus || digits[1:1] || '.' || CASE WHEN length(digits) > 1 THEN digits[2:] ELSE '0' END
       || 'E' || CAST(exponent AS VARCHAR)""",
    """spark_float_text(x, s) AS
       CASE WHEN isnan(x) THEN 'NaN'
            WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'Infinity' ELSE '-Infinity' END
            WHEN x = 0 OR (abs(x) >= 1e-3 AND abs(x) < 1e7) THEN s
            WHEN contains(s, 'e') THEN
                 spark_scientific(replace(ltrim(split_part(s, 'e', 1), '-'), '.', ''),
                                  CAST(split_part(s, 'e', 2) AS INTEGER),
                                  CASE WHEN x < 0 THEN '-' ELSE '' END)
            WHEN abs(x) >= 1e7 THEN
                 spark_scientific(rtrim(replace(ltrim(s, '-'), '.', ''), '0'),
                                  length(split_part(ltrim(s, '-'), '.', 1)) - 1,
                                  CASE WHEN x < 0 THEN '-' ELSE '' END)
            ELSE spark_scientific(ltrim(split_part(s, '.', 2), '0'),
                                  length(ltrim(split_part(s, '.', 2), '0'))
                                  - length(split_part(s, '.', 2)) - 1,
                                  CASE WHEN x < 0 THEN '-' ELSE '' END) END""",
    # Half up on the digits that are shown: round(1.005, 2) is 1.01 although 1.005 is stored lower.
    """spark_round(x, digits) AS
       CASE WHEN abs(x) < 1e19
            THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 18)), digits) AS DOUBLE)
            WHEN digits >= 0 THEN x ELSE round(x, digits) END""",
    # Positions count from 1, 0 is 1, negative ones from the end; the length counts from there.
    """spark_start(s, position) AS
       CASE WHEN position > 0 THEN position - 1
            WHEN position < 0 THEN length(s) + position ELSE 0 END""",
    """spark_substring(s, position, count) AS
       CASE WHEN s IS NULL OR position IS NULL OR count IS NULL THEN NULL
            ELSE substring(s, greatest(spark_start(s, position), 0) + 1,
                           greatest(CAST(count AS BIGINT)
                                    + least(spark_start(s, position), 0), 0)) END""",
    "spark_number(x) AS CASE WHEN isfinite(x) THEN x END",
    """spark_left(s, count) AS
       CASE WHEN count IS NULL THEN NULL ELSE left(s, greatest(count, 0)) END""",
    """spark_right(s, count) AS
       CASE WHEN count IS NULL THEN NULL ELSE right(s, greatest(count, 0)) END""",
    """spark_split_part(s, delimiter, part) AS
       CASE WHEN s IS NULL OR delimiter IS NULL THEN NULL
            WHEN part = 0 THEN CAST(CAST(part || ' (an index of split_part)' AS INTEGER) AS VARCHAR)
            WHEN delimiter = '' THEN CASE WHEN abs(part) = 1 THEN s ELSE '' END
            ELSE split_part(s, delimiter, part) END""",
    """spark_locate(sub, s, position) AS
       CASE WHEN sub IS NULL OR s IS NULL OR position IS NULL THEN NULL
            WHEN position < 1 THEN 0
            WHEN sub = '' THEN 1
            WHEN instr(substring(s, position), sub) = 0 THEN 0
            ELSE instr(substring(s, position), sub) + position - 1 END""",
    """spark_lpad(s, count, pad) AS
       CASE WHEN count IS NULL THEN NULL WHEN pad = '' THEN left(s, greatest(count, 0))
            ELSE lpad(s, greatest(count, 0), pad) END""",
    """spark_rpad(s, count, pad) AS
       CASE WHEN count IS NULL THEN NULL WHEN pad = '' THEN left(s, greatest(count, 0))
            ELSE rpad(s, greatest(count, 0), pad) END""",
    # Letters of ASCII by DuckDB, others as Java has them: ß is SS.
    """spark_upper(s) AS
       CASE WHEN strlen(s) = length(s) THEN upper(s) ELSE spark_text_upper_1(s) END""",
    """spark_lower(s) AS
       CASE WHEN strlen(s) = length(s) THEN lower(s) ELSE spark_text_lower_1(s) END""",
    """spark_initcap(s) AS CASE WHEN strlen(s) <> length(s) THEN spark_text_initcap_1(s)
       ELSE array_to_string(list_transform(string_split(lower(s), ' '),
            lambda w: upper(left(w, 1)) || substring(w, 2)), ' ') END""",
    # Counted from the right by what stands in the mirror.
    """spark_first_parts(s, delimiter, count) AS
       array_to_string(list_slice(string_split(s, delimiter), 1, count), delimiter)""",
    """spark_substring_index(s, delimiter, count) AS
       CASE WHEN s IS NULL OR delimiter IS NULL OR count IS NULL THEN NULL
            WHEN delimiter = '' OR count = 0 THEN ''
            WHEN count > 0 THEN spark_first_parts(s, delimiter, count)
            ELSE reverse(spark_first_parts(reverse(s), reverse(delimiter), -count)) END""",
    # Text that a pattern of dates can read, else an error.
    """spark_parsed(s, shape, letters) AS
       CASE WHEN s IS NULL THEN NULL
            WHEN regexp_full_match(s, shape) AND try_strptime(s, letters) IS NOT NULL
            THEN try_strptime(s, letters)
            ELSE CAST(s || ' (not as the pattern says)' AS TIMESTAMP) END""",
    # Whole months where the days are equal or both the last ones; else months of 31 days.
    "spark_day_seconds(t) AS ((day(t) * 24 + hour(t)) * 60 + minute(t)) * 60 + second(t)",
    "spark_is_last_day(t) AS last_day(t) = CAST(t AS DATE)",
    """spark_months_apart(a, b) AS
       CAST((year(a) - year(b)) * 12 + month(a) - month(b) AS DOUBLE)
       + CASE WHEN day(a) = day(b) OR (spark_is_last_day(a) AND spark_is_last_day(b)) THEN 0
              ELSE CAST(spark_day_seconds(a) - spark_day_seconds(b) AS DOUBLE) / 2678400 END""",
    """spark_months_between(a, b, rounded) AS
       CASE WHEN rounded THEN floor(spark_months_apart(a, b) * 1e8 + 0.5) / 1e8
            ELSE spark_months_apart(a, b) END""",
    # Logarithms of what is not positive are NULL.
    "spark_ln(x) AS CASE WHEN x > 0 THEN ln(x) END",
    "spark_log10(x) AS CASE WHEN x > 0 THEN log10(x) END",
    "spark_log2(x) AS CASE WHEN x > 0 THEN log2(x) END",
    "spark_log(base, x) AS CASE WHEN x > 0 AND base > 0 THEN ln(x) / ln(base) END",
    # Java's whole number of NaN is 0; its 1 to the power of NaN or of an infinity is NaN.
    "spark_or_zero(x) AS CASE WHEN isnan(x) THEN 0 ELSE x END",
    """spark_pow(x, y) AS CASE WHEN abs(x) = 1 AND (isnan(y) OR isinf(y))
       THEN CAST('NaN' AS DOUBLE) ELSE pow(x, y) END""",
    "spark_sign(x) AS CASE WHEN isnan(x) THEN x ELSE CAST(sign(x) AS DOUBLE) END",
    # A DOUBLE that is too large for a FLOAT is infinite.
    """spark_short(x) AS CASE WHEN isfinite(x) AND abs(x) >= 3.4028235677973366e38
       THEN CAST(CASE WHEN x > 0 THEN 'inf' WHEN x < 0 THEN '-inf' END AS FLOAT)
       ELSE CAST(x AS FLOAT) END""",
    "spark_sqrt(x) AS CASE WHEN x < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(x) END",
    "spark_inverse(x, y) AS CASE WHEN abs(x) > 1 THEN CAST('NaN' AS DOUBLE) ELSE y END",
    # Arrays. A position outside is an error, unless it is tried; NULL is found nowhere.
    """spark_outside(a, i) AS error('the index ' || CAST(i AS VARCHAR)
       || ' is out of bounds: the array has ' || CAST(len(a) AS VARCHAR) || ' elements')""",
    """spark_array_at(a, i) AS CASE WHEN a IS NULL OR i IS NULL THEN NULL
       WHEN i < 0 OR i >= len(a) THEN spark_outside(a, i) ELSE a[i + 1] END""",
    """spark_array_element(a, i) AS CASE WHEN a IS NULL OR i IS NULL THEN NULL
       WHEN i = 0 OR abs(i) > len(a) THEN spark_outside(a, i) ELSE a[i] END""",
    """spark_array_try_element(a, i) AS
       CASE WHEN i = 0 THEN spark_outside(a, i) ELSE a[i] END""",
    "spark_array_get(a, i) AS CASE WHEN i < 0 THEN NULL ELSE a[i + 1] END",
    "spark_map_value(m, k) AS m[k]",
    """spark_map_contains_key(m, k) AS
       CASE WHEN m IS NULL OR k IS NULL THEN NULL ELSE list_contains(map_keys(m), k) END""",
    "spark_has_null(a) AS len(list_filter(a, lambda x: x IS NULL)) > 0",
    """spark_array_contains(a, v) AS CASE WHEN a IS NULL OR v IS NULL THEN NULL
       WHEN list_contains(a, v) THEN TRUE WHEN spark_has_null(a) THEN NULL ELSE FALSE END""",
    """spark_array_position(a, v) AS
       CASE WHEN a IS NOT NULL AND v IS NOT NULL THEN COALESCE(list_position(a, v), 0) END""",
    """spark_array_remove(a, v) AS CASE WHEN v IS NULL THEN NULL
       ELSE list_filter(a, lambda x: x IS DISTINCT FROM v) END""",
    "spark_array_distinct(a) AS list_filter(a, lambda x, i: list_position(a, x) = i)",
    "spark_array_union(a, b) AS spark_array_distinct(list_concat(a, b))",
    """spark_array_intersect(a, b) AS CASE WHEN b IS NULL THEN NULL ELSE list_filter(
       spark_array_distinct(a), lambda x: list_position(b, x) IS NOT NULL) END""",
    """spark_array_except(a, b) AS CASE WHEN b IS NULL THEN NULL ELSE list_filter(
       spark_array_distinct(a), lambda x: list_position(b, x) IS NULL) END""",
    "spark_array_sort(a) AS list_sort(a, 'ASC', 'NULLS LAST')",
    "spark_array_repeat(v, n) AS list_transform(range(CAST(n AS BIGINT)), lambda i: v)",
    "spark_array_flatten(a) AS CASE WHEN spark_has_null(a) THEN NULL ELSE flatten(a) END",
    """spark_array_slice(a, start, n) AS
       CASE WHEN a IS NULL OR start IS NULL OR n IS NULL THEN NULL
            WHEN start = 0 OR n < 0 THEN spark_outside(a, start)
            WHEN start < -len(a) THEN a[1:0]
            WHEN start < 0 THEN list_slice(a, len(a) + start + 1, len(a) + start + n)
            ELSE list_slice(a, start, start + n - 1) END""",
    """spark_sequence_2(a, b) AS
       CASE WHEN a <= b THEN generate_series(a, b) ELSE generate_series(a, b, -1) END""",
    """spark_sequence_3(a, b, step) AS
       CASE WHEN (step > 0 AND a <= b) OR (step < 0 AND a >= b) OR (step = 0 AND a = b)
            THEN CASE WHEN step = 0 THEN [a] ELSE generate_series(a, b, step) END
            WHEN a IS NOT NULL AND b IS NOT NULL AND step IS NOT NULL
            THEN error('a sequence from ' || CAST(a AS VARCHAR) || ' to ' || CAST(b AS VARCHAR)
                       || ' has no step ' || CAST(step AS VARCHAR)) END""",
    # Division that rounds down, for moments before 1970.
    "spark_floor_divide(a, b) AS (a - ((a % b + b) % b)) // b",
    # Of values and how often they are there.
    """spark_mode(counts) AS list_sort(list_transform(map_entries(counts),
       lambda e: {'n': -CAST(e.value AS BIGINT), 'x': e.key}))[1].x""",
    """spark_mode_last(counts) AS list_sort(list_transform(map_entries(counts),
       lambda e: {'n': CAST(e.value AS BIGINT), 'x': e.key}), 'DESC')[1].x""",
    # Of values in order, of which the first n count.
    "spark_between(a, b, rest) AS CASE WHEN a = b THEN a ELSE a + rest * (b - a) END",
    """spark_percentile(s, n, p) AS CASE WHEN n > 0 THEN spark_between(
       s[1 + CAST(floor((n - 1) * p) AS BIGINT)], s[1 + CAST(ceil((n - 1) * p) AS BIGINT)],
       (n - 1) * p - floor((n - 1) * p)) END""",
    "spark_percentile_disc(s, n, p) AS s[greatest(CAST(ceil(n * p) AS BIGINT), 1)]",
    # Of the values that are there: powers of what lies between them and their mean.
    """spark_powers(s, mean, k) AS list_sum(list_transform(s, lambda x: pow(x - mean, k)))""",
    """spark_skewness(s) AS CASE WHEN pow(spark_powers(s, list_avg(s), 2), 3) <> 0 THEN sqrt(len(s))
       * spark_powers(s, list_avg(s), 3) / sqrt(pow(spark_powers(s, list_avg(s), 2), 3)) END""",
    """spark_kurtosis(s) AS CASE WHEN pow(spark_powers(s, list_avg(s), 2), 2) <> 0 THEN len(s)
       * spark_powers(s, list_avg(s), 4) / pow(spark_powers(s, list_avg(s), 2), 2) - 3 END""",
    "spark_finite(x) AS CASE WHEN isnan(x) THEN NULL ELSE x END",
    # Sums of floats are exact: whole parts and fractions (times 2**90) are added as integers, and
    # come together without cancelling. 1e16 + 1 - 1e16 is 1.
    "spark_whole_part(x) AS CASE WHEN abs(x) < 1e30 THEN CAST(trunc(x) AS HUGEINT) END",
    f"""spark_fraction(x) AS
        CASE WHEN abs(x) < 1e30 THEN CAST((x - trunc(x)) * {_UNIT}.0 AS HUGEINT) END""",
    f"""spark_joined(whole, fraction) AS
        CASE WHEN whole < 0 AND fraction > 0
             THEN CAST(whole + 1 AS DOUBLE) - CAST({_UNIT} - fraction AS DOUBLE) / {_UNIT}.0
             ELSE CAST(whole AS DOUBLE) + CAST(fraction AS DOUBLE) / {_UNIT}.0 END""",
    f"""spark_exact_sum(whole, fraction) AS
        spark_joined(whole + spark_floor_divide(fraction, {_UNIT}),
                     fraction - spark_floor_divide(fraction, {_UNIT}) * {_UNIT})""",
)
