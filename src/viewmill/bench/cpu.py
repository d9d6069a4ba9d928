"""CPU time of this process and all below it: the JVM that PySpark starts, its Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 0.01


def tree_cpu_s() -> float:
    """Seconds of CPU that the processes below this one have used, with those that have ended."""
    found: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has ended meanwhile
            continue
        # The name may hold spaces; what follows it is the state, the parent, ...
        fields = text.rpartition(")")[2].split()
        found[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {each for each, (parent, _) in found.items() if parent in below} - below:
        below |= more
    return sum(found[each][1] for each in below if each in found) * _TICK_S
