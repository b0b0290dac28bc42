"""Draws the offsets and the records per 100 ms below the lanes, and says what the page reads off at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from analysis.report.drawing.model import DrawnLabel, DrawnMark, DrawnPanel, DrawnPath, DrawnSpan
from analysis.report.drawing.scale import WIDE, TimeScale, ValueScale, tip
from analysis.report.picture.model import BIN_NS, OffsetPoint, PartitionPicture, RecordCounts, RunPicture
from analysis.sentences import words

OFFSETS_PX = 150
RATES_PX = 74
_GAP = 18
_LABELLED_PX = 18
"""A band has its text inside if it is at least so high."""
UNSEEN_NS = 1_000_000_000
"""How long nobody may answer before the line of the HW has a gap."""
SHAPES = ("circle", "square", "triangle", "cross", "star", "ring")
"""The symbol of each replica's log ends, in the order of the brokers."""


def panels_of(partition: PartitionPicture, scale: TimeScale, top: float) -> Iterator[DrawnPanel]:
    """Yield the panels that have something to show."""
    if partition.high_watermarks or partition.log_ends or partition.counts is not None:
        yield _offsets(partition, scale, top)
        top += OFFSETS_PX + _GAP
    if partition.counts is not None:
        yield _rates(partition.counts, scale, top)


def _offsets(partition: PartitionPicture, scale: TimeScale, top: float) -> DrawnPanel:
    hws = partition.high_watermarks
    acked_end = partition.counts.acked_end if partition.counts is not None else ()
    highest = max(
        (
            *(point.offset for point in hws),
            *(point.offset for ends in partition.log_ends for point in ends.points),
            *(band.last_offset + 1 for band in partition.lost),
            *acked_end[-1:],
        ),
        default=1,
    )
    values = ValueScale(highest, OFFSETS_PX)
    paths = []
    if partition.counts is not None:
        begin_ns = partition.counts.begin_ns
        # The last 100 ms end after the run: its line ends with it.
        steps = [(min(begin_ns + (at + 1) * BIN_NS, scale.end_ns), value) for at, value in enumerate(acked_end)]
        paths.append(DrawnPath(d=_steps(_changes(steps), scale, values), look="acked-end"))
    for stretch in _stretches(hws):
        points = [(point.at_ns, point.offset) for point in stretch]
        paths.append(DrawnPath(d=_steps(_changes(points), scale, values), look="hw"))
    return DrawnPanel(
        name="Offsets",
        top=top,
        height=OFFSETS_PX,
        grid=values.grid(),
        paths=tuple(path for path in paths if path.d),
        bands=tuple(_bands(partition, scale, values)),
        points=tuple(_log_ends(partition, scale, values)),
    )


def lost_labels(partition: PartitionPicture, panel: DrawnPanel) -> Iterator[DrawnLabel]:
    """Yield the label of each band of lost records, in its upper corner."""
    for band, drawn in zip((one for one in partition.lost if one.since_ns is not None), panel.bands, strict=True):
        yield DrawnLabel(
            x="100%",
            y=panel.top + _label_y(drawn, panel.height),
            text=band.text,
            short=f"{band.count:,} lost",
            anchor="end",
            look="lost-label" if band.committed else "lost-label uncommitted",
        )


def _label_y(band: DrawnSpan, height: float) -> float:
    """Return where the text of a band stands: in it, or below or above one that is too thin."""
    if band.height >= _LABELLED_PX:
        return min(band.height / 2 + 5, 24) + band.y
    below = band.y + band.height + 16
    return below if below < height - 12 else band.y - 14


def _bands(partition: PartitionPicture, scale: TimeScale, values: ValueScale) -> Iterator[DrawnSpan]:
    for band in partition.lost:
        if band.since_ns is None:
            continue
        top, bottom = values.y(band.last_offset + 1), values.y(band.first_offset)
        rows = (
            ("offsets", f"{band.first_offset:,} to {band.last_offset:,}"),
            ("cause", f"{band.cause}: {words.MEANING[band.cause]}"),
        )
        yield DrawnSpan(
            x=scale.percent(band.since_ns),
            width=scale.width(band.since_ns, None),
            y=top,
            height=max(3.0, bottom - top),
            look="lost" if band.committed else "lost uncommitted",
            tip=tip(band.text, scale, band.since_ns, None, rows),
            row="lost",
            is_first=True,
        )


def _log_ends(partition: PartitionPicture, scale: TimeScale, values: ValueScale) -> Iterator[DrawnMark]:
    for number, ends in enumerate(partition.log_ends):
        for at, point in enumerate(ends.points):
            text = f"broker {ends.broker}: log end {point.offset:,}"
            yield DrawnMark(
                x=scale.percent(point.at_ns),
                y=values.y(point.offset),
                shape=SHAPES[number % len(SHAPES)],
                look=f"broker-{number % 6}",
                tip=tip(text, scale, point.at_ns, point.at_ns, ()),
                row=f"log ends of {ends.broker}",
                is_first=at == 0,
            )


def _stretches(points: tuple[OffsetPoint, ...]) -> Iterator[list[OffsetPoint]]:
    """Yield the observations without a gap: while nobody answered, the HW is not known."""
    stretch: list[OffsetPoint] = []
    for point in points:
        if stretch and point.at_ns - stretch[-1].at_ns > UNSEEN_NS:
            yield stretch
            stretch = []
        stretch.append(point)
    if stretch:
        yield stretch


def _changes(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points without those between two equal ones, which draw nothing new."""
    kept: list[tuple[int, int]] = []
    for point in points:
        if len(kept) >= 2 and kept[-1][1] == kept[-2][1] == point[1]:
            kept[-1] = point
        else:
            kept.append(point)
    return kept


def _steps(points: list[tuple[int, int]], scale: TimeScale, values: ValueScale) -> str:
    """Return a line that stays at a value until the next one was seen."""
    shown = [(scale.units(at), values.y(value)) for at, value in points if scale.shows(at, at)]
    if not shown:
        return ""
    return f"M{shown[0][0]:g} {shown[0][1]:g}" + "".join(f"H{x:g}V{y:g}" for x, y in shown[1:])


def _rates(counts: RecordCounts, scale: TimeScale, top: float) -> DrawnPanel:
    """Draw acked records above a middle line, and consumed ones below it."""
    half = RATES_PX / 2
    highest = max((*counts.acked, *counts.consumed, 1))
    return DrawnPanel(
        name="Acked",
        foot="Read",
        note=f"at most {highest:,} records in 100 ms",
        top=top,
        height=RATES_PX,
        grid=((half, "0"),),
        paths=(
            DrawnPath(d=_bars(counts.begin_ns, counts.acked, scale, half, -(half - 2) / highest), look="acked"),
            DrawnPath(d=_bars(counts.begin_ns, counts.consumed, scale, half, (half - 2) / highest), look="consumed"),
        ),
    )


def _bars(begin_ns: int, counts: tuple[int, ...], scale: TimeScale, zero: float, factor: float) -> str:
    """Return bars of one path; 100 ms without records have none."""
    parts = []
    for at, count in enumerate(counts):
        left = scale.units(begin_ns + at * BIN_NS)
        right = scale.units(begin_ns + (at + 1) * BIN_NS)
        if count and right > left and left < WIDE:
            parts.append(f"M{left:g} {zero:g}V{zero + factor * count:.1f}H{right:g}V{zero:g}z")
    return "".join(parts)


_MS_NS = 1_000_000


def readings_of(picture: RunPicture, partition: PartitionPicture) -> str:
    """Return the values of a partition's picture as JSON that may stand in a page."""

    def ms(at_ns: int) -> int:
        return (at_ns - picture.zero_ns) // _MS_NS

    counts = partition.counts
    found: dict[str, object] = {
        "begin": (picture.begin_ns - picture.zero_ns) / _MS_NS,
        "end": (picture.end_ns - picture.zero_ns) / _MS_NS,
        "hw": [[ms(point.at_ns), point.offset, point.broker] for point in partition.high_watermarks],
        "ends": {ends.broker: [[ms(p.at_ns), p.offset] for p in ends.points] for ends in partition.log_ends},
        "roles": {
            broker: [[ms(span.begin_ns), None if span.end_ns is None else ms(span.end_ns), span.text] for span in spans]
            for broker, spans in partition.roles.items()
        },
        "bin": BIN_NS // _MS_NS,
        "first": ms(counts.begin_ns) if counts is not None else 0,
        "acked": counts.acked if counts is not None else (),
        "consumed": counts.consumed if counts is not None else (),
    }
    text = msgspec.json.encode(found).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
