"""What a bench found: figures with their workload, as text, as JSON, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from viewmill.bench.plot import Series, bar_chart

Say = Callable[[str], None]  # progress, for people

UNITS = {
    "rows_per_cpu_s": "rows / CPU s",
    "rows_per_s": "rows / s",
    "commits_per_s": "commits / s",
    "us_per_update": "CPU µs / call",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "p999_ms": "p99.9 ms",
    "worst_ms": "worst ms",
    "answers_per_s": "answers / s",
    "answers_per_cpu_s": "answers / CPU s",
    "state_bytes": "state bytes",
    "content_bytes": "keys and payloads",
    "compile_s": "s to first result",
    "first_s": "s from CREATE to the first rows",
    "cpu_ms": "CPU ms",
    "written_bytes": "bytes written",
    "written_share": "% of the table",
    "speedup": "times recompute",
    "plan_cost": "plan cost",
    "estimated_throughput": "1 / cost",
    "growth": "growth, as a power of live rows",
    "printed_cost": "cost as printed",
    "printed_trees": "trees as printed",
    "planning_s": "planning s",
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
    oracle: str = "DuckDB's"

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
        """The report as an object for programs; its format is stable."""
        return {
            "bench": self.bench,
            "seed": self.seed,
            "verified": self.verified,
            "results": [each.to_json() for each in self.results],
        }

    def to_text(self) -> str:
        """For people: a line per system and workload, a column per metric."""
        lines: dict[tuple[str, str], dict[str, float]] = {}
        for each in self.results:
            workload = "  ".join(f"{key} {_shown(value)}" for key, value in each.workload.items())
            lines.setdefault((each.system, workload), {})[each.metric] = each.value
        blocks: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for (system, workload), metrics in lines.items():
            names = tuple(UNITS.get(name, name) for name in metrics)
            cells = tuple(_number(value) for value in metrics.values())
            blocks.setdefault(names, []).append((system, workload, *cells))
        parts = [_columns(("system", "workload", *names), rows) for names, rows in blocks.items()]
        word = "equal to" if self.verified else "DIFFERENT FROM"
        end = f"bench {self.bench}, seed {self.seed}: the final result is {word} {self.oracle}"
        return "\n\n".join([*parts, end])

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

    def __call__(self, *, seed: int, quick: bool, say: Say, **more: Any) -> Report:
        """Run it; `quick` means fewer rows, `more` is what only some benches know."""


def _columns(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Lines of cells; the first two stand to the left, numbers to the right."""
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, *rows):
        aligned = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _number(value: float) -> str:
    """A number with as many digits as it deserves.

    >>> _number(1234567.8), _number(12.345), _number(0.01234)
    ('1,234,568', '12.3', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
