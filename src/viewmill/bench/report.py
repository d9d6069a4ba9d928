"""What a bench found: figures with their workload, as text, as JSON, as a picture."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.bench.plot import Series, bar_chart

Say = Callable[[str], None]  # progress, for people

UNITS = {
    "rows_per_cpu_s": "rows per CPU second",
    "rows_per_s": "rows per second",
    "us_per_update": "µs of CPU per call",
    "p50_ms": "ms, median call",
    "p99_ms": "ms, 99th percentile",
    "state_bytes": "bytes of state",
    "compile_s": "s to the first result",
    "speedup": "times faster than duckdb",
}


@dataclass(frozen=True)
class Figure:
    """One number: which system, doing what, measured how."""

    system: str
    workload: Mapping[str, Any]
    metric: str
    value: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "system": self.system,
            "workload": dict(self.workload),
            "metric": self.metric,
            "value": self.value,
        }


@dataclass
class Report:
    """All figures of one bench."""

    bench: str
    seed: int
    verified: bool = False
    results: list[Figure] = field(default_factory=list)
    plotted: str = "rows_per_s"
    across: str = "batch"

    def add(self, system: str, workload: Mapping[str, Any], **metrics: float) -> None:
        """Note what was measured of one system on one workload."""
        self.results += [Figure(system, workload, name, value) for name, value in metrics.items()]

    def value(self, system: str, metric: str, **workload: Any) -> float:
        """The figure of a metric whose workload says at least `workload`."""
        for each in self.results:
            if (each.system, each.metric) == (system, metric) and (
                workload.items() <= each.workload.items()
            ):
                return each.value
        raise KeyError((system, metric, workload))

    def to_json(self) -> dict[str, Any]:
        """For programs: the object that DESIGN section 8 fixes."""
        return {
            "bench": self.bench,
            "seed": self.seed,
            "verified": self.verified,
            "results": [each.to_json() for each in self.results],
        }

    def to_text(self) -> str:
        """For people: a paragraph per system and workload."""
        lines = [f"bench {self.bench}   seed {self.seed}   {platform.processor() or 'cpu'}"]
        last = None
        for each in self.results:
            place = f"{each.system}  " + "  ".join(f"{k}={v}" for k, v in each.workload.items())
            if place != last:
                lines += ["", place]
                last = place
            unit = UNITS.get(each.metric, each.metric)
            lines.append(f"  {_number(each.value):>14}  {unit}")
        word = "equal to" if self.verified else "DIFFERENT FROM"
        return "\n".join([*lines, "", f"final result {word} DuckDB's"])

    def to_svg(self) -> str:
        """For the docs: one group of bars per value of `across`."""
        series: dict[str, dict[str, float]] = {}
        for each in self.results:
            if each.metric == self.plotted and self.across in each.workload:
                rest = [str(v) for k, v in each.workload.items() if k == "table"]
                name = " ".join([each.system, *rest])
                series.setdefault(name, {})[f"{each.workload[self.across]:,}"] = each.value
        title = f"{self.bench}: {UNITS.get(self.plotted, self.plotted)} by {self.across}"
        return bar_chart(title, [Series(name, values) for name, values in series.items()])


class Bench(Protocol):
    """A timed workload."""

    def __call__(self, *, seed: int, quick: bool, say: Say) -> Report:
        """Run it; `quick` means fewer rows."""


def _number(value: float) -> str:
    """A number with as many digits as it deserves.

    >>> _number(1234567.8), _number(12.345), _number(0.01234)
    ('1,234,568', '12.3', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
