"""Whether released memory returns to the operating system."""

from __future__ import annotations

from pathlib import Path

from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab
from viewmill.bench.report import Report, Say
from viewmill.mill.held_states import trim

_PAGE = 4096


def resident_bytes() -> int:
    """The resident size of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def released(report: Report, lab: Lab, query: int, say: Say) -> bool:
    """Create a view, release its states, and look at the process."""
    if not Path("/proc/self/statm").exists():
        return True
    say("released memory")
    for name in CHANGING:
        lab.mill.expect(name, rows=1000)
    lab.create("v", query, AMPLE)
    trim()
    before, held = resident_bytes(), lab.state_bytes("v")
    for name in CHANGING:
        lab.mill.expect(name, complete=True)
    fell = before - resident_bytes()
    report.add("viewmill", {"experiment": "released", "query": query}, state_bytes=float(held),
               released_bytes=float(fell), released_share=fell / max(held, 1))  # fmt: skip
    left = lab.state_bytes("v")
    lab.drop(["v"])
    return left == 0
