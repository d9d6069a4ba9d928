"""What ends a recursion, and the tables that it reads."""

from __future__ import annotations

from dataclasses import replace

from viewmill.algebra.relations import Recursion, Relation
from viewmill.algebra.walk import scans


def limit_text(limit: int) -> str:
    """The error of a recursion that makes rows in its last step."""
    return f"the recursion has not ended after {limit} steps"


def over(recursion: Recursion, base: Relation, step: Relation) -> Recursion:
    """The recursion over another form of its start and its step."""
    read = (*scans(base), *(each for each in scans(step) if each.source != recursion.name))
    return replace(recursion, base=base, step=step, scans=read)
