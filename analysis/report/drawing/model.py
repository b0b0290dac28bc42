"""A drawn picture: shapes with their places, for a template that only writes them down.

Times are per cent of the picture's width and everything else is in pixels from its top. So the
picture fits any width, and zooming makes its inner part wider without new shapes or larger text.
"""

from __future__ import annotations

import msgspec


class DrawnSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A bar from `x` to `x + width` per cent, with a text that is cut off at its end.

    `fit_px`: how wide the picture must be for the text to fit; 0: there is no text. `tip` has the
    details, a line each, name and value separated by a tab.
    """

    x: str
    width: str
    y: float
    height: float
    look: str
    text: str = ""
    fit_px: int = 0
    tip: str
    row: str
    is_first: bool = False


class DrawnMark(msgspec.Struct, frozen=True, kw_only=True):
    """A symbol at one moment: `shape` names it in the template."""

    x: str
    y: float
    shape: str
    look: str
    tip: str
    row: str
    is_first: bool = False


class DrawnLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A text beside a moment; `anchor` is start or end. `short` stands on narrow pictures."""

    x: str
    y: float
    text: str
    short: str
    anchor: str
    look: str


class DrawnLine(msgspec.Struct, frozen=True, kw_only=True):
    """A vertical line at one moment."""

    x: str
    top: float
    bottom: float
    look: str
    tip: str


class DrawnPath(msgspec.Struct, frozen=True, kw_only=True):
    """A path in a panel whose width is `drawing.scale.WIDE` units."""

    d: str
    look: str


class DrawnPanel(msgspec.Struct, frozen=True, kw_only=True):
    """A chart on the time axis, with the grid lines of its values and their texts.

    `foot` is the name of what is drawn downwards, `note` a text within the chart.
    """

    name: str
    top: float
    height: float
    grid: tuple[tuple[float, str], ...]
    paths: tuple[DrawnPath, ...]
    foot: str = ""
    note: str = ""
    bands: tuple[DrawnSpan, ...] = ()
    points: tuple[DrawnMark, ...] = ()


class DrawnName(msgspec.Struct, frozen=True, kw_only=True):
    """A name in the gutter at the left."""

    y: float
    text: str
    look: str = "name"


class DrawnPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The whole picture of one partition; `data` is what a pointer reads off, as JSON."""

    id: str
    name: str
    title: str
    summary: str
    height: float
    plot_bottom: float
    ticks: tuple[tuple[str, str], ...]
    names: tuple[DrawnName, ...]
    lanes: tuple[tuple[float, float], ...]
    shades: tuple[DrawnSpan, ...]
    spans: tuple[DrawnSpan, ...]
    marks: tuple[DrawnMark, ...]
    labels: tuple[DrawnLabel, ...]
    lines: tuple[DrawnLine, ...]
    panels: tuple[DrawnPanel, ...]
    data: str


class DrawnPicture(msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of a run's partitions, the first of which is shown first."""

    partitions: tuple[DrawnPartition, ...]
    legend: tuple[tuple[str, str, str], ...]
    steps: tuple[tuple[int, str, str], ...]
    omitted: int
