"""Draw a plan as SVG: the query and its view trees, beside them what is kept and offered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from viewmill.algebra.names import visible

_CHAR, _LINE, _PAD = 7.2, 18, 10
_INK, _SOFT, _LINE_INK = "#1f2933", "#52606d", "#9aa5b1"
_FILLS = {"query": "#e8f1fb", "state": "#e7f6ec", "chosen": "#e7f6ec", "offered": "#f5f7fa",
          "rejected": "#fdecea"}  # fmt: skip
_MAX_LINE_CHARS = 64


@dataclass
class _Box:
    """Lines of text in a rectangle."""

    lines: list[str]
    fill: str
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _CHAR + 2 * _PAD

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + _PAD

    def svg(self) -> str:
        """The rectangle and its text."""
        parts = [
            f'<rect x="{self.x:.0f}" y="{self.y:.0f}" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" rx="6" fill="{self.fill}" stroke="{_LINE_INK}"/>'
        ]
        for i, line in enumerate(self.lines):
            y = self.y + _LINE * (i + 1)
            ink = _INK if i == 0 else _SOFT
            shown = escape(visible(line))
            parts.append(f'<text x="{self.x + _PAD:.0f}" y="{y:.0f}" fill="{ink}">{shown}</text>')
        return "".join(parts)


def picture(record: Mapping[str, Any]) -> str:
    """The plan as one SVG element."""
    boxes, links = _tree_boxes(str(record["algebra"]), 44.0)
    for drawn in _view_trees(record):
        more, inner = _tree_boxes(drawn, boxes[-1].y + boxes[-1].height + 30)
        links += [(a + len(boxes), b + len(boxes)) for a, b in inner]
        boxes += more
    left = max(box.x + box.width for box in boxes)
    answers = _answer_boxes(record, left + 40)
    everything = boxes + answers
    width = max(box.x + box.width for box in everything) + 20
    height = max(box.y + box.height for box in everything) + 20
    lines = "".join(_link(boxes[a], boxes[b]) for a, b in links)
    title = escape(visible(f"view {record['view']}: {record['strategy']}, {record['reason']}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" fill="{_INK}" font-weight="bold">{title}</text>'
        f"{lines}{''.join(box.svg() for box in everything)}</svg>"
    )


def _view_trees(record: Mapping[str, Any]) -> list[str]:
    """The trees of views that the blocks' notes draw."""
    notes = [note for block in record["blocks"] for note in block["notes"]]
    return [note for note in notes if note.startswith("view tree\n")]


def _tree_boxes(drawn: str, y: float) -> tuple[list[_Box], list[tuple[int, int]]]:
    """A box per line, indented by depth, linked to the one above it."""
    boxes: list[_Box] = []
    links: list[tuple[int, int]] = []
    above: dict[int, int] = {}
    for line in drawn.splitlines():
        text = line.lstrip("│├└─ ")
        depth = (len(line) - len(text)) // 3
        fill = _FILLS["state" if "kept: " in text else "query"]
        box = _Box(_wrapped(text), fill, 20 + depth * 28, y)
        boxes.append(box)
        y += box.height + 14
        above[depth] = len(boxes) - 1
        if depth:
            links.append((above[depth - 1], len(boxes) - 1))
    return boxes, links


def _wrapped(text: str) -> list[str]:
    lines = []
    while len(text) > _MAX_LINE_CHARS:
        cut = text.rfind(" ", 3, _MAX_LINE_CHARS)  # after the indent, or it would loop
        cut = cut if cut > 0 else _MAX_LINE_CHARS
        lines.append(text[:cut])
        text = "  " + text[cut:].strip()
    return [*lines, text]


def _answer_boxes(record: Mapping[str, Any], x: float) -> list[_Box]:
    boxes: list[_Box] = []

    def add(lines: list[str], kind: str) -> None:
        y = boxes[-1].y + boxes[-1].height + 12 if boxes else 44.0
        wrapped = [piece for line in lines for piece in _wrapped(line)]
        boxes.append(_Box(wrapped, _FILLS[kind], x, y))

    add([f"chosen: {record['strategy']}", record["chosen"]["cost"]], "chosen")
    for state in record["states"]:
        size = "" if state["bytes"] is None else f"{state['bytes']} bytes"
        add([f"keeps {state['label']}", size] if size else [f"keeps {state['label']}"], "state")
    for each in record["offered"]:
        add([f"offered: {each['strategy']}", each["cost"]], "offered")
    for each in record["rejected"]:
        add([f"rejected: {each['strategy']}", each["reason"]], "rejected")
    return boxes


def _link(upper: _Box, lower: _Box) -> str:
    x, y = upper.x + 14, upper.y + upper.height
    middle = lower.y + lower.height / 2
    return (
        f'<path d="M{x:.0f},{y:.0f} V{middle:.0f} H{lower.x:.0f}" '
        f'fill="none" stroke="{_LINE_INK}"/>'
    )
