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
