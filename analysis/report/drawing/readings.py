"""What the page reads off at a moment: HW, log ends, roles and rates, as compact JSON.

Times are milliseconds since the start of the run.
"""

from __future__ import annotations

import msgspec

from analysis.report.picture.model import BIN_NS, PartitionPicture, RunPicture

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
