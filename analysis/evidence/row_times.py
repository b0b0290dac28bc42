"""Turns the times of the metadata log into times of the run.

Only here: the tables partitions, brokers and configs have times of the run, as the clients' tables do, so nobody else
needs to know that a clock was set. raw/ keeps what the controllers wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ebbtide.record.clock import KafkaClocks
from ebbtide.record.rows import Row


def in_run_time(rows: Sequence[Row], clocks: KafkaClocks) -> tuple[list[Row], tuple[tuple[int, int], ...]]:
    """Return the rows with times of the run, and the spans in which some of these times are not sure.

    A controller's clock that was set back says some times twice. Where neither the readings of the clock nor those of
    the log's end tell which is meant, both times of a row end such a span.
    """
    if not clocks.was_set:
        return list(rows), ()
    found: list[Row] = []
    unsure: set[tuple[int, int]] = set()
    for row in rows:
        time = clocks.time_of(row.at_ns, metadata_offset=row.metadata_offset)
        found.append(msgspec.structs.replace(row, at_ns=time.at_ns))
        if time.or_ns is not None:
            unsure.add((min(time.at_ns, time.or_ns), max(time.at_ns, time.or_ns)))
    return found, tuple(sorted(unsure))
