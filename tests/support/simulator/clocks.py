"""The clocks of a history that are set, and what the recorder notes of them and undoes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ebbtide.record.clock import ClockReading, KafkaClocks
from simulator.faults import ns
from simulator.script import MS

_LOOKS = 30 * MS
"""The observer sees a record of the metadata log this long after it was written."""


class Clocks:
    """How far the clock of the controller is ahead of the run's clock, and the readings of the recorder."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._host = 0
        self._controller = 0
        self._readings: list[ClockReading] = []
        self._offset = 0
        self._was_set = False
        self._read(now())

    @property
    def ahead(self) -> int:
        """How far the controller's clock is ahead."""
        return self._host + self._controller

    @property
    def is_controller_set(self) -> bool:
        """Whether the controller's own clock is off now."""
        return self._controller != 0

    def set_controller(self, ahead: int) -> None:
        """Set the controller's own clock off."""
        self._controller, self._was_set = ahead, True

    def set_host(self, by: int) -> None:
        """Set the clock of the host, which that of the controller follows."""
        self._read(self._now())
        self._host, self._was_set = self._host + by, True
        self._read(self._now() + 1)

    def log_grew(self, end: int) -> None:
        """Note that the metadata log has grown."""
        self._offset = end

    def look(self) -> None:
        """Let the observer look at the log, if it has grown."""
        if not self._readings or self._readings[-1].metadata_end != self._offset:
            self._read(self._now() + _LOOKS)

    def _read(self, at: int) -> None:
        wall = ns(at) + self._host * 1_000
        self._readings.append(ClockReading(at_ns=ns(at), wall_ns=wall, metadata_end=self._offset))

    def readings(self, end: int) -> tuple[ClockReading, ...]:
        """Return the readings; none if no clock was ever set, as times are right without them."""
        if not self._was_set:
            return ()
        last = ClockReading(at_ns=ns(self._now()), wall_ns=ns(self._now()) + self._host * 1_000, metadata_end=end)
        return (*sorted(self._readings, key=lambda one: one.at_ns), last)


def in_run_time(tables: dict[str, list[dict[str, Any]]], clocks: KafkaClocks) -> tuple[tuple[int, int], ...]:
    """Turn the times of the metadata log into times of the run; returns the spans in which they are not sure."""
    unsure = set()
    for row in (row for name in ("partitions", "brokers", "configs") for row in tables[name]):
        time = clocks.time_of(row["at_ns"], metadata_offset=row["metadata_offset"])
        row["at_ns"] = time.at_ns
        if time.or_ns is not None:
            unsure.add((min(time.at_ns, time.or_ns), max(time.at_ns, time.or_ns)))
    return tuple(sorted(unsure))
