"""The lineage as a picture: nodes in columns, ancestors to the left.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from l4_mmodel.registry.lineage import Lineage

COLUMN, ROW, WIDTH, HEIGHT = 250, 64, 190, 44


@dataclass(frozen=True)
class Box:
    """A node with its place, in pixels."""

    digest: str
    kind: str
    label: str
    known: bool
    here: bool
    x: int
    y: int


@dataclass(frozen=True)
class Line:
    """An edge from box to box, with a word in its middle."""

    path: str
    how: str
    x: int
    y: int


@dataclass(frozen=True)
class Drawing:
    """Boxes and lines on a ground of the given size."""

    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]


def draw(graph: Lineage, here: str) -> Drawing:
    """Places each node one column right of the furthest of its parents."""
    depth = _depths(graph)
    rows: dict[int, int] = {}
    boxes = {}
    for node in graph.nodes:
        column = depth[node.digest]
        row = rows[column] = rows.get(column, -1) + 1
        boxes[node.digest] = Box(
            node.digest, node.kind, node.label, node.known, node.digest == here,
            10 + column * COLUMN, 10 + row * ROW,
        )  # fmt: skip
    lines = [_line(boxes[a], boxes[b], how) for a, b, how in graph.edges]
    height = (max(rows.values()) + 1) * ROW + 10
    return Drawing((max(rows) + 1) * COLUMN - COLUMN + WIDTH + 20, height, list(boxes.values()), lines)


def _depths(graph: Lineage) -> dict[str, int]:
    depth = {node.digest: 0 for node in graph.nodes}
    for _ in graph.nodes:  # a chain is at most as long as there are nodes
        for parent, child, _how in graph.edges:
            depth[child] = max(depth[child], min(depth[parent] + 1, len(depth)))
    return depth


def _line(a: Box, b: Box, how: str) -> Line:
    x1, y1, x2, y2 = a.x + WIDTH, a.y + HEIGHT // 2, b.x, b.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return Line(f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}", how, middle, (y1 + y2) // 2 - 5)


def when(seconds: float | None) -> str:
    """A time in UTC, to the second."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
