"""Final aggregation over a sliding window of n partials, one technique per file, one interface.

slide(x, out, values, cursors, n, identity)
    feeds the partials x; out[i] is the aggregate of the last n, oldest first, after x[i]
slide_all(x, ranges, out, seen, values, cursors, n, identity)
    feeds x; after each partial out[j] is the aggregate of the last ranges[j], and what a reader who
    adds all answers up gets is added to seen[0]. Only where the paper has it.
space(n)
    the number of values and of cursors that are kept between calls
NEEDS
    what the operation must have besides being associative: "inverse", "selective" or nothing

A technique reads `combine(older, newer)` and `inverse(total, oldest)`; `COMMUTATIVE` says whether
order matters. `bench.baselines.window_techniques` puts the technique's functions into a file of
their own for each operation and compiles it. Before the first slide all values are `identity` and
all cursors 0: n partials of identity are in the window, as in a first, partial window.
"""
