"""BIT_OR, BIT_AND, BIT_XOR, SKEWNESS, KURTOSIS: read off the values of a group, in one walk or two.

takes  an aggregate call, the state of values and the group's positions in it
gives  the source of its value as one word

None of them can be taken back from a total without a trace, so the values themselves are kept, as
those of MEDIAN are. What is shown hangs on these alone: not on what came and went.
"""

from __future__ import annotations

from viewmill.algebra.expressions import Aggregate

BITS = ("bit_or", "bit_and", "bit_xor")
SHAPES = ("skewness", "kurtosis")
FOLDS = (*BITS, *SHAPES)

# The word of NULL; it is -0.0 as a float, which `float_key` never gives.
NOTHING = "(-9223372036854775807 - 1)"

# Counts may be below zero for a while: such values are not there yet. Values are counted from the
# first, so that the digits in which they differ are not lost in those that they share.
FOLDED = f"""
def folded_bits(order, begin, end, word, way):
    out_of_line()
    found = -1 if way == 1 else 0
    p = begin
    while p < end:
        count = ordered_word(order, p, 0)
        value = ordered_key(order, p, word)
        if count > 0 and way == 0:
            found = found | value
        elif count > 0 and way == 1:
            found = found & value
        elif count > 0 and count % 2 == 1:
            found = found ^ value
        p = ordered_next(order, p)
    return found


def folded_shape(order, begin, end, word, power):
    out_of_line()
    first = key_float(sort_word(ordered_key(order, begin, word)))
    n = 0.0
    mean = 0.0
    p = begin
    while p < end:
        count = max(ordered_word(order, p, 0), 0)
        if count > 0:
            x = key_float(sort_word(ordered_key(order, p, word)))
            if n == 0.0:
                first = x
            n += count
            mean += count * (x - first)
        p = ordered_next(order, p)
    squares = 0.0
    powers = 0.0
    if n > 0.0:
        mean = mean / n
    p = begin
    while p < end:
        count = max(ordered_word(order, p, 0), 0)
        if count > 0:
            away = key_float(sort_word(ordered_key(order, p, word))) - first - mean
            square = away * away
            squares += count * square
            powers += count * square * (away if power == 3 else square)
        p = ordered_next(order, p)
    if squares == 0.0:
        return {NOTHING}
    under = (squares * squares * squares) ** 0.5 if power == 3 else squares * squares
    over = powers * (n ** 0.5 if power == 3 else n)
    if under == 0.0:
        return float_key(over * 1e400)
    return float_key(over / under - (0.0 if power == 3 else 3.0))
"""


def folded(call: Aggregate, values: str, begin: str, end: str, word: int) -> str:
    """The word of a call over the values from begin to end; `word` of a key is the value."""
    place = f"{values}, {begin}, {end}, {word}"
    if call.function in BITS:
        return f"folded_bits({place}, {BITS.index(call.function)})"
    return f"folded_shape({place}, {3 if call.function == 'skewness' else 4})"
