"""`viewmill bench intermittent`: all experiments in one run, each view compared with recompute."""

from __future__ import annotations

from viewmill.bench.intermittent.budgets import QUERIES, budgets
from viewmill.bench.intermittent.cleaning import cleaning
from viewmill.bench.intermittent.deletes import deletes
from viewmill.bench.intermittent.injected import injected
from viewmill.bench.intermittent.lab import FLAT, Lab
from viewmill.bench.intermittent.late import late_data
from viewmill.bench.intermittent.many_joins import many_joins
from viewmill.bench.intermittent.predictions import predictions
from viewmill.bench.intermittent.released import released
from viewmill.bench.report import Report, Say

_SCALE, _QUICK_SCALE = 0.1, 0.01
_FIRST = 0.5  # so that enough is left for every delta of the other experiments


def intermittent(*, seed: int, quick: bool, say: Say, scale: float | None = None) -> Report:
    """The experiments of section 6; `quick` takes fewer queries and rows."""
    report = Report("intermittent", seed, plotted="delta_s", across="query")
    size = scale or (_QUICK_SCALE if quick else _SCALE)
    flat = (1, 3, 6) if quick else FLAT
    wide = (3,) if quick else QUERIES
    found = [late_data(report, size, seed, flat, say)]
    lab = Lab(size, seed, _FIRST)
    found.append(budgets(report, lab, wide, say))
    found.append(injected(report, lab, wide, say))
    if not quick:
        found.append(predictions(report, lab, say))
    found.append(deletes(report, lab, flat, say))
    found.append(released(report, lab, 3 if quick else 9, say))
    if not quick:
        found.append(cleaning(report, size, seed, say))
    say("generated joins")
    found.append(many_joins(report, int(200_000 * size), seed, 1 if quick else 6, say))
    report.verified = all(found)
    return report
