"""The names a technique reads, standing for the sum; a kernel gets those of its own operation."""

COMMUTATIVE = True


def combine(older, newer):
    return older + newer


def inverse(total, oldest):
    return total - oldest


def wide_vectors():
    """The loops of the function that calls this are worth the widest vectors."""


def add_up(answers):
    wide_vectors()
    total = 0 * answers[0]
    for j in range(answers.size):
        total += answers[j]
    return total


def time_each(x, out, ticks, values, cursors, n, identity):
    """Slide partial by partial, noting how many ticks of the processor's clock each took."""
    for i in range(x.size):
        start = cycles()
        slide(x[i : i + 1], out[i : i + 1], values, cursors, n, identity)
        ticks[i] = cycles() - start
    return 0


def slide(x, out, values, cursors, n, identity):
    """The technique's own."""


def cycles():
    """The processor's clock."""
    return 0
