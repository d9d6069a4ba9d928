"""Late data: 90 % at once, then 9, 0.9 and 0.1 % of every relation (figure 3)."""

from __future__ import annotations

from viewmill.bench.intermittent.everything import Everything
from viewmill.bench.intermittent.lab import AMPLE, CHANGING, Lab, everywhere
from viewmill.bench.report import Report, Say
from viewmill.bench.tpch.queries import QUERIES, TABLES

FIRST, DELTAS = 0.9, (0.09, 0.009, 0.001)
_MOST_EVERYTHING = 0.2  # the scale up to which everything is kept, to compare


def late_data(report: Report, scale: float, seed: int, queries: tuple[int, ...], say: Say) -> bool:
    """Initial time, time of each delta, total, and memory, of each query and system."""
    lab = Lab(scale, seed, FIRST)
    for name in CHANGING:
        lab.mill.expect(name, late=0.9, every="60 seconds", total=lab.totals[name])
    seconds: dict[str, list[float]] = {}
    kept: dict[int, int] = {}
    for query in queries:
        say(f"late data: Q{query}")
        seconds[f"v{query}"] = [lab.create(f"v{query}", query, AMPLE)]
        seconds[f"b{query}"] = [lab.create(f"b{query}", query, 0)]
        kept[query] = lab.state_bytes(f"v{query}")
    every = _everything(lab, report, scale, queries, kept, say)
    equal = True
    for share in DELTAS:
        say(f"late data: {share:.1%} more")
        rows = lab.coming(everywhere(share))
        for each in every.values():
            each.apply(rows)
        with lab.mill.batch():
            for name, new in rows.items():
                lab.mill.insert(name, new)
        lab.warm()
        for query in queries:
            for name in (f"v{query}", f"b{query}"):
                seconds[name].append(lab.refresh(name))
            equal &= lab.same(f"v{query}", f"b{query}")
            _note_delta(report, query, share, seconds)
            kept[query] = max(kept[query], lab.state_bytes(f"v{query}"))
    for query in queries:
        for system, name in (("viewmill", f"v{query}"), ("rebatch", f"b{query}")):
            first, *later = seconds[name]
            held = {"state_bytes": float(kept[query])} if system == "viewmill" else {}
            report.add(system, _workload(query), initial_s=first, total_s=first + sum(later),
                       delta_s=sum(later) / len(later), **held)  # fmt: skip
    return equal


def _workload(query: int) -> dict[str, object]:
    return {"experiment": "late", "query": query}


def _note_delta(report: Report, query: int, share: float, seconds: dict[str, list[float]]) -> None:
    ours, again = seconds[f"v{query}"][-1], seconds[f"b{query}"][-1]
    workload = {**_workload(query), "delta": share}
    report.add("viewmill", workload, delta_s=ours, speedup=again / ours)
    report.add("rebatch", workload, delta_s=again)


def _everything(
    lab: Lab, report: Report, scale: float, queries: tuple[int, ...], kept: dict[int, int], say: Say
) -> dict[int, Everything]:
    """The tables of every sub-join, where the scale is small enough."""
    found: dict[int, Everything] = {}
    if scale > _MOST_EVERYTHING:
        return found
    tables = {name: lab.mill.core.arrow(name) for name in TABLES}
    for query in queries:
        say(f"everything: Q{query}")
        made = Everything(QUERIES[query], tables)
        workload = _workload(query)
        report.add("everything", workload, tables=float(made.count), initial_s=made.initial_s)
        if made.is_finished:
            size = made.state_bytes()
            report.add("everything", workload, state_bytes=float(size))
            if size:
                report.add("viewmill", workload, memory_share=kept[query] / size)
            found[query] = made
    return found
