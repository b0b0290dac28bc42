"""A drawn counterexample: shapes with their places, for a template that only writes them down.

Time goes down: a row for each step. A lane is a column: what acts from outside, the controller, and
each broker. Places from left to right are per cent of the picture, so it fits any width.
"""

from __future__ import annotations

import msgspec


class DrawnMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An arrow from one lane to another, or a sign on one lane if both are the same.

    `look` is request, in-flight, fault, election or guilty.
    """

    begin: str
    end: str
    points_right: bool
    y: int
    label: str
    label_x: str
    label_dx: int
    anchor: str
    look: str

    @property
    def is_sign(self) -> bool:
        """Whether it stays on one lane."""
        return self.begin == self.end


class DrawnLogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of a log, `dx` pixels from the middle of its lane.

    `look` is flushed, unflushed or missing.
    """

    name: str
    dx: int
    look: str


class DrawnCell(msgspec.Struct, frozen=True, kw_only=True):
    """What a lane shows after a step: its role, its condition and its log.

    `look` and `condition_look` are the looks of the run's picture (report.html). `notes` are texts
    below it, long and short.
    """

    left: str
    width: str
    middle: str
    look: str
    text: str
    short: str
    condition_look: str = ""
    condition: str = ""
    log: tuple[DrawnLogRecord, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    has_changed: bool = False


class DrawnStep(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a step in words, its messages, and the state after it."""

    number: int
    who: str
    what: str
    clause: str
    state: tuple[tuple[str, str], ...]
    lost: str
    messages: tuple[DrawnMessage, ...]
    cells: tuple[DrawnCell, ...]
    cells_y: int
    height: int
    description: str


class DrawnCounterexample(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes with their short names and places, and the rows.

    `wide_px`: a narrower picture shows the short texts.
    """

    lanes: tuple[tuple[str, str, str], ...]
    steps: tuple[DrawnStep, ...]
    wide_px: int
    looks: frozenset[str]
