"""A bar chart as SVG text, with a logarithmic axis: systems differ by orders of magnitude."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 64, 44
COLOURS = ("#1f6feb", "#2da44e", "#bf8700", "#cf222e", "#8250df", "#57606a")


@dataclass(frozen=True)
class Series:
    """The bars of one colour: a value for each label."""

    name: str
    values: Mapping[str, float]


def bar_chart(title: str, series: Sequence[Series]) -> str:
    """Groups of bars, one group per label, one colour per series."""
    labels = list(dict.fromkeys(label for each in series for label in each.values))
    values = [value for each in series for value in each.values.values() if value > 0]
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(math.ceil(math.log10(max(values, default=10.0))), low + 1)
    parts = [_text(LEFT, 22, title, size=15, weight="bold")]
    parts += _legend(series)
    parts += _axis(low, high)
    group = (WIDTH - LEFT - RIGHT) / max(len(labels), 1)
    bar = group * 0.8 / max(len(series), 1)
    for i, label in enumerate(labels):
        start = LEFT + i * group + group * 0.1
        parts.append(_text(start + group * 0.4, HEIGHT - 20, label, anchor="middle"))
        for j, each in enumerate(series):
            value = each.values.get(label, 0)
            if value > 0:
                top = _height(value, low, high)
                parts.append(_bar(start + j * bar, top, bar * 0.92, COLOURS[j % len(COLOURS)]))
                parts.append(_text(start + (j + 0.46) * bar, top - 4, _short(value), 9, "middle"))
    inside = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" fill="#24292f">\n  '
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n  {inside}\n</svg>\n'
    )


def _height(value: float, low: int, high: int) -> float:
    share = (math.log10(value) - low) / (high - low)
    return HEIGHT - BOTTOM - max(share, 0.004) * (HEIGHT - TOP - BOTTOM)


def _axis(low: int, high: int) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        y = _height(10.0**power, low, high)
        line = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {line} stroke="#d0d7de"/>')
        parts.append(_text(LEFT - 8, y + 4, _short(10.0**power), anchor="end"))
    return parts


def _legend(series: Sequence[Series]) -> list[str]:
    parts, x = [], float(LEFT)
    for j, each in enumerate(series):
        colour = COLOURS[j % len(COLOURS)]
        parts.append(f'<rect x="{x:.0f}" y="34" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, 44, each.name))
        x += 34 + 7 * len(each.name)
    return parts


def _bar(x: float, top: float, width: float, colour: str) -> str:
    height = HEIGHT - BOTTOM - top
    place = f'x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}"/>'


def _text(
    x: float, y: float, text: str, size: int = 12, anchor: str = "start", weight: str = "normal"
) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _short(value: float) -> str:
    """A number in few characters.

    >>> _short(9_100_000), _short(1000), _short(0.25)
    ('9.1M', '1k', '0.25')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
