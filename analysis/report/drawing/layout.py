"""Lays the picture of one partition out, from top to bottom: faults, elections, nodes, offsets, rates."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.report.drawing import packing, panels
from analysis.report.drawing.model import (
    DrawnLabel,
    DrawnLine,
    DrawnMark,
    DrawnName,
    DrawnPanel,
    DrawnPartition,
    DrawnPicture,
    DrawnSpan,
)
from analysis.report.drawing.packing import Piece, uncovered
from analysis.report.drawing.panels import readings_of
from analysis.report.drawing.scale import TimeScale, tip
from analysis.report.picture.model import ElectionMark, NodeLane, PartitionPicture, RunPicture, StateSpan, StepSpan
from analysis.sentences import words
from analysis.sentences.elections import ROAD_TEXT, Blame
from ebbtide.shown_text import plural

LEGEND: tuple[tuple[str, str, str], ...] = (
    ("leader", "leader", "leads the partition: producers and consumers talk to this broker"),
    ("recovering", "leader, RECOVERING", "leads after an election from outside ISR and ELR (KIP-704)"),
    ("isr", "ISR", "in-sync replica: may be elected"),
    ("elr", "ELR", "eligible leader replica: left the ISR, but holds every committed record (KIP-966)"),
    ("last-known-leader", "last known leader", "led before; may lead again if ISR and ELR are empty"),
    ("replica", "out of ISR", "a replica that may lack committed records"),
    ("down", "down", "the process does not run: killed, stopped, or without power"),
    ("paused", "paused", "the process is frozen"),
    ("cut-off", "cut off", "no packet reaches the controllers"),
    ("cut", "cut", "no packet reaches some other nodes"),
    ("slow-link", "slow links", "packets pass at a low bandwidth"),
    ("requests-held", "requests held", "single requests are held, delayed or dropped on the wire"),
    ("disk-dead", "disk trouble", "the disk is full, slow or fails"),
    ("fenced", "fenced", "the controller does not count the broker as alive"),
    ("shutting-down", "shutting down", "the broker hands its partitions over (controlled shutdown)"),
    ("clean", "clean return", "the broker registered after a clean shutdown"),
    ("unclean", "unclean return", "the broker registered after an unclean shutdown"),
    ("leaderless", "no leader", "nobody can write or read the partition"),
    ("lost", "lost records", "offsets of acked records that the final read did not find"),
    ("guilty", "guilty election", "the election that lost committed records, or made the HW go back"),
    ("losing", "election with a loss", "lost only records that were never committed (acks=0 or 1)"),
    ("fault", "2 kill broker-1", "a fault or a change; the number is its index in steps.jsonl, which counts from 0"),
)
"""Look, name and meaning of each state, in the order of the legend."""

_ROW = 36
_NODE_ROW = 20
_GAP = 16
_LABEL_ROW = 22
_NAMED_ROWS_MAX = 10
_NAME_PX = 22
"""So far from the top of a panel its name reaches, with room below it."""


class _Sheet:
    """Collects shapes while the layout goes down the picture."""

    def __init__(self, scale: TimeScale) -> None:
        self.scale = scale
        self.y = 0.0
        self.names: list[DrawnName] = []
        self.lanes: list[tuple[float, float]] = []
        self.shades: list[DrawnSpan] = []
        self.spans: list[DrawnSpan] = []
        self.marks: list[DrawnMark] = []
        self.labels: list[DrawnLabel] = []
        self.lines: list[DrawnLine] = []
        self.panels: list[DrawnPanel] = []

    def span(
        self,
        one: StateSpan,
        *,
        y: float,
        height: float,
        row: str,
        shows_text: bool = True,
        pieces: Sequence[Piece] | None = None,
    ) -> None:
        """Add a bar for a state, or for the `pieces` of it that are to be seen.

        What is not on the axis is left out.
        """
        for begin_ns, end_ns in pieces if pieces is not None else ((one.begin_ns, one.end_ns),):
            if not self.scale.shows(begin_ns, end_ns):
                continue
            fraction = self.scale.fraction(self.scale.until(end_ns)) - self.scale.fraction(begin_ns)
            fit = packing.text_px(one.text) / fraction if fraction > 0 and shows_text else 0
            self.spans.append(
                DrawnSpan(
                    x=self.scale.percent(begin_ns),
                    width=self.scale.width(begin_ns, end_ns),
                    y=y,
                    height=height,
                    look=one.state,
                    text=one.text if shows_text else "",
                    fit_px=round(fit),
                    tip=tip(one.text, self.scale, one.begin_ns, one.end_ns, one.details),
                    row=row,
                    is_first=not any(other.row == row for other in self.spans),
                )
            )


def draw(picture: RunPicture, id_prefix: str = "p") -> DrawnPicture:
    """Return the shapes of a run's picture, a set for each partition.

    `id_prefix` begins the ids of the page's elements, which differ in a page of several pictures.
    """
    scale = TimeScale(picture.begin_ns, picture.end_ns, picture.zero_ns)
    return DrawnPicture(
        partitions=tuple(
            _partition(picture, one, scale, f"{id_prefix}{number}") for number, one in enumerate(picture.partitions)
        ),
        legend=LEGEND,
        steps=tuple(
            (step.index, words.offset_s(step.begin_ns, picture.zero_ns), _step_name(step))
            for step in picture.steps
            if step.is_fault
        ),
        omitted=picture.partitions_omitted,
    )


def _partition(picture: RunPicture, partition: PartitionPicture, scale: TimeScale, id_: str) -> DrawnPartition:
    sheet = _Sheet(scale)
    sheet.y = 6
    _faults(sheet, [step for step in picture.steps if step.is_fault])
    top = sheet.y
    _elections(sheet, partition)
    for lane in picture.lanes:
        _lane(sheet, lane, partition)
    sheet.y += _GAP
    panels_top = sheet.y
    for panel in panels.panels_of(partition, scale, sheet.y):
        sheet.panels.append(panel)
        # The name makes room for the label of a grid line at the top.
        is_taken = any(y <= _NAME_PX for y, _ in panel.grid)
        sheet.names.append(DrawnName(y=panel.top + (-4 if is_taken else 10), text=panel.name, look="section"))
        if panel.foot:
            sheet.names.append(DrawnName(y=panel.top + panel.height - 4, text=panel.foot, look="section"))
        if panel.bands:
            sheet.labels += panels.lost_labels(partition, panel)
        sheet.y = panel.top + panel.height + _GAP
    bottom = sheet.y - _GAP
    _leaderless(sheet, partition, top, bottom)
    sheet.lines += [
        DrawnLine(
            x=scale.percent(one.at_ns),
            top=top + 4,
            bottom=bottom,
            look=_election_look(one),
            tip=tip(one.text, scale, one.at_ns, one.at_ns, one.details),
        )
        for one in partition.elections
    ]
    return DrawnPartition(
        id=id_,
        name=partition.name,
        title=f"{picture.scenario or 'run'} on Kafka {picture.kafka}, partition {partition.name}, over time",
        summary=_summary(partition),
        height=bottom + 26,
        plot_bottom=bottom,
        ticks=scale.ticks(8),
        names=tuple(sheet.names),
        lanes=(*sheet.lanes, *((panel.top, panel.height) for panel in sheet.panels if panels_top)),
        shades=tuple(sheet.shades),
        spans=tuple(sheet.spans),
        marks=tuple(sheet.marks),
        labels=tuple(sheet.labels),
        lines=tuple(sheet.lines),
        panels=tuple(sheet.panels),
        data=readings_of(picture, partition),
    )


def _summary(partition: PartitionPicture) -> str:
    """Return the picture in words, for those who do not see it."""
    said = [f"{len(partition.elections)} election{'' if len(partition.elections) == 1 else 's'}"]
    said += [f"{one.text}, {_blame_text(one.blame)}" for one in partition.elections if one.blame is not None]
    said += [band.text for band in partition.lost]
    said.append(f"{len(partition.leaderless)} times without a leader" if partition.leaderless else "always a leader")
    return "; ".join(said)


def _step_name(step: StepSpan) -> str:
    """Return the kind of a step with its target, and the name that the scenario gave it."""
    what = f"{step.kind} {step.aim}" if step.aim else step.kind
    return what if step.name == step.kind else f"{what} ({step.name})"


def _faults(sheet: _Sheet, faults: list[StepSpan]) -> None:
    if not faults:
        return
    scale = sheet.scale
    sheet.names.append(DrawnName(y=sheet.y + 12, text="Faults", look="section"))
    placed = []
    for fault in faults:
        text = f"{fault.index} {_step_name(fault)}" + ("" if fault.is_proven else " (no proof)")
        begin = scale.fraction(fault.begin_ns)
        anchor, left, right = packing.anchored(begin, text)
        placed.append((anchor, text, (left, max(right, scale.fraction(scale.until(fault.end_ns))))))
    rows = packing.rows_for([extent for _, _, extent in placed])
    for fault, (anchor, text, _), row in zip(faults, placed, rows, strict=True):
        y = sheet.y + min(row, _NAMED_ROWS_MAX) * _LABEL_ROW
        named = row < _NAMED_ROWS_MAX
        sheet.labels.append(
            DrawnLabel(
                x=scale.percent(fault.begin_ns),
                y=y + 11,
                text=text if named else str(fault.index),
                short=str(fault.index),
                anchor=anchor,
                look="fault" if fault.is_proven else "fault unproven",
            )
        )
        details = tip(fault.text, scale, fault.begin_ns, fault.end_ns, fault.details)
        if fault.end_ns == fault.begin_ns:
            sheet.marks.append(
                DrawnMark(
                    x=scale.percent(fault.begin_ns), y=y + 16, shape="diamond", look="fault", tip=details, row="faults"
                )
            )
            continue
        sheet.spans.append(
            DrawnSpan(
                x=scale.percent(fault.begin_ns),
                width=scale.width(fault.begin_ns, fault.end_ns),
                y=y + 15,
                height=5,
                look="fault" if fault.is_proven else "fault unproven",
                tip=details,
                row="faults",
                is_first=not any(other.row == "faults" for other in sheet.spans),
            )
        )
    sheet.y += (min(max(rows), _NAMED_ROWS_MAX) + 1) * _LABEL_ROW + 8


def _elections(sheet: _Sheet, partition: PartitionPicture) -> None:
    scale = sheet.scale
    sheet.names.append(DrawnName(y=sheet.y + 12, text="Elections", look="section"))
    texts = []
    for one in partition.elections:
        why = ROAD_TEXT[one.road] if one.blame is None else _blame_text(one.blame)
        texts.append(f"broker {one.leader} leads ({why})")
    placed = [
        packing.anchored(scale.fraction(one.at_ns), text) for one, text in zip(partition.elections, texts, strict=True)
    ]
    rows = packing.rows_for([(left, right) for _, left, right in placed])
    for one, text, (anchor, _, _), row in zip(partition.elections, texts, placed, rows, strict=True):
        sheet.labels.append(
            DrawnLabel(
                x=scale.percent(one.at_ns),
                y=sheet.y + min(row, _NAMED_ROWS_MAX) * 17 + 12,
                text=text,
                short=f"guilty: {one.leader}" if _election_look(one) == "guilty" else f"broker {one.leader}",
                anchor=anchor,
                look=_election_look(one),
            )
        )
    sheet.y += (min(max(rows, default=0), _NAMED_ROWS_MAX) + 1) * 17 + 2
    sheet.names.append(DrawnName(y=sheet.y + 9, text="Metadata log", look="section"))
    for at, record in enumerate(one for one in partition.records if scale.shows(one.at_ns, one.at_ns)):
        sheet.marks.append(
            DrawnMark(
                x=scale.percent(record.at_ns),
                y=sheet.y + 5,
                shape="tick",
                look="record",
                tip=tip(record.text, scale, record.at_ns, record.at_ns, record.details),
                row="records",
                is_first=at == 0,
            )
        )
    sheet.y += 16


def _election_look(one: ElectionMark) -> str:
    """Return the look: red for a guilty election, amber for one that lost what nobody promised to keep."""
    if one.blame is None:
        return "election"
    return "guilty" if one.blame.is_guilty else "losing"


def _blame_text(blame: Blame) -> str:
    """Return what an election lost, in a few words."""
    if not blame.is_guilty:
        return f"{blame.lost:,} uncommitted lost: {blame.cause}"
    lost = f", {plural(blame.lost, 'record')} lost" if blame.lost else ""
    return f"guilty: {blame.cause}{lost}"


def _lane(sheet: _Sheet, lane: NodeLane, partition: PartitionPicture) -> None:
    if not lane.is_broker:
        sheet.names.append(DrawnName(y=sheet.y + 12, text=lane.name))
        sheet.lanes.append((sheet.y + 2, _NODE_ROW - 6))
        for span, pieces in uncovered(lane.condition):
            sheet.span(span, y=sheet.y + 3, height=12, row=lane.name, pieces=pieces)
        sheet.y += _NODE_ROW
        return
    sheet.names.append(DrawnName(y=sheet.y + 15, text=lane.name))
    if lane.is_combined:
        sheet.names.append(DrawnName(y=sheet.y + 29, text="and controller", look="section"))
    sheet.lanes.append((sheet.y, _ROW - 1))
    for span in partition.roles.get(lane.node, ()):
        sheet.span(span, y=sheet.y, height=18, row=f"{lane.name} role")
    for span, pieces in uncovered(lane.condition):
        sheet.span(span, y=sheet.y + 18, height=12, row=f"{lane.name} condition", pieces=pieces)
    for span in lane.registration:
        sheet.span(span, y=sheet.y + 31, height=4, row=f"{lane.name} registration", shows_text=False)
    for mark in lane.marks:
        if sheet.scale.shows(mark.at_ns, mark.at_ns):
            sheet.marks.append(
                DrawnMark(
                    x=sheet.scale.percent(mark.at_ns),
                    y=sheet.y + 33,
                    shape="return",
                    look="unclean" if mark.kind == "registered-unclean" else "clean",
                    tip=tip(f"{lane.name} {mark.text}", sheet.scale, mark.at_ns, mark.at_ns, mark.details),
                    row=f"{lane.name} marks",
                    is_first=not any(other.row == f"{lane.name} marks" for other in sheet.marks),
                )
            )
    sheet.y += _ROW + 8


def _leaderless(sheet: _Sheet, partition: PartitionPicture, top: float, bottom: float) -> None:
    for begin_ns, end_ns in partition.leaderless:
        if not sheet.scale.shows(begin_ns, end_ns):
            continue
        sheet.shades.append(
            DrawnSpan(
                x=sheet.scale.percent(begin_ns),
                width=sheet.scale.width(begin_ns, end_ns),
                y=top + 30,
                height=bottom - top - 30,
                look="leaderless",
                tip=tip(f"{partition.name} has no leader", sheet.scale, begin_ns, end_ns, ()),
                row="leaderless",
                is_first=not sheet.shades,
            )
        )
