"""Writes clock.jsonl while a run goes on: what the wall clock says, and where the metadata log ends."""

from __future__ import annotations

import msgspec

from ebbtide import run_clock
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE
from ebbtide.record.folder import RecordFolder
from ebbtide.run_clock import STEP_NS


class ClockLog:
    """The readings of a run. Each line is written at once, so that a killed harness leaves what it saw."""

    def __init__(self, record: RecordFolder) -> None:
        self._path = record / CLOCK_FILE
        self._written: ClockReading | None = None
        self._last: ClockReading | None = None

    def look(self, metadata_end: int) -> None:
        """Read both clocks; write the reading if the wall clock was set or the metadata log has changed."""
        at_ns, lead_ns = run_clock.now_ns(), run_clock.wall_lead_ns()
        reading = ClockReading(at_ns=at_ns, wall_ns=at_ns + lead_ns, metadata_end=metadata_end)
        if self._last is None or abs(reading.lead_ns - self._last.lead_ns) >= STEP_NS:
            if self._last is not None:
                self._write(self._last)
            self._write(reading)
        elif reading.metadata_end != self._last.metadata_end:
            # The last look without the new records bounds their times from below.
            self._write(self._last)
            self._write(reading)
        self._last = reading

    def close(self) -> None:
        """Write the last reading: up to it the clock was watched."""
        if self._last is not None:
            self._write(self._last)

    def _write(self, reading: ClockReading) -> None:
        if reading is not self._written:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(reading) + b"\n")
            self._written = reading
