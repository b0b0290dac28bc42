"""Notices nodes that ended by themselves, and nodes that something outside of the run stopped.

Writes clock.jsonl while a run goes on: what the wall clock says, and where the metadata log ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from cluster.host.processes import state_of
from cluster.runtime.base import NodeInfo
from cluster.runtime.cluster import Runtime
from cluster.runtime.jvm import LINES_OF_AN_END, ended_on_full_volume, fatal_fault_in, known_end_clause, tail_of
from ebbtide import run_clock
from ebbtide.errors import Disturbed, HarnessError, NodeEnded
from ebbtide.record.clock import ClockReading
from ebbtide.record.files import CLOCK_FILE, RecordFolder, log_command
from ebbtide.record.node_times import NodeEnd
from ebbtide.run_clock import STEP_NS
from ebbtide.scenario.steps.disk import FillDiskStep
from harness.runner.schedule import Schedule

_STOPPED = ("T", "t")


class NodeWatch:
    """Looks at the processes of a run's nodes, at each poll of the cluster.

    `session_s` is the broker session: a node that is stopped for longer is fenced, as by a `pause`.
    """

    def __init__(
        self,
        runtime: Runtime,
        schedule: Schedule,
        session_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        state: Callable[[int], str | None] = state_of,
    ) -> None:
        self._runtime = runtime
        self._schedule = schedule
        self._session_s = session_s
        self._clock = clock
        self._state = state
        self._ran_s: dict[int, float] = {}
        self._stopped_s: dict[int, float] = {}
        self._disturbed: Disturbed | None = None

    def look(self, note: Callable[[str], None], *, judged: bool) -> None:
        """Look once.

        Raises `HarnessError` if a node died by itself, and `NodeEnded`, once, if Kafka ended it. Raises `Disturbed` if
        something else than a step filled its volume, or stopped a node for longer than a broker session. Every later
        look raises that `Disturbed` again, because whoever serves a request answers it with the error and goes on. Of a
        cluster that is not `judged` a death is only noted, and nobody looks for stops.
        """
        if self._disturbed is not None:
            raise self._disturbed
        for node in self._runtime.nodes.values():
            pid = self._runtime.pid(node.id)
            if pid is None and node.id not in self._schedule.down:
                self._report_death(node, note, judged=judged)
                continue
            if pid is None:
                self._schedule.note_end(node.id)
            if judged:
                self._look_at_state(node, pid)

    def _report_death(self, node: NodeInfo, note: Callable[[str], None], *, judged: bool) -> None:
        log = self._runtime.log_file(node.id)
        last = tail_of(log, LINES_OF_AN_END)
        # Where a step fills the volume, the node is one that may end.
        is_full = ended_on_full_volume(last) and not self._is_filled_by_step(node.id)
        died = (
            f"the volume of {node.name} was full, and no step filled it: the node ended"
            if is_full
            else f"{node.name} died by itself{known_end_clause(last)}"
        )
        if not judged:
            self._schedule.note_down(node.id)
            note(f"{died}: {log_command(log)}")
            return
        where, got, next = str(log.parent), tail_of(log), log_command(log)
        fault = fatal_fault_in(last)
        if fault is not None and (self._runtime.exit_status(node.id) or 0) >= 0:
            # The run goes on without it, to its end.
            self._schedule.note_down(node.id)
            raise NodeEnded(died, node=node.name, fault=fault, where=where, got=got, next=next)
        kind = Disturbed if is_full else HarnessError
        raise kind(died, where=where, got=got, next=next)

    def _is_filled_by_step(self, node: int) -> bool:
        """Whether a step filled a volume of the node at any time of the run."""
        entries = [one for one in self._schedule.entries if one.fired_ns is not None and node in one.nodes]
        return any(one.is_a(FillDiskStep) for one in entries)

    def _look_at_state(self, node: NodeInfo, pid: int | None) -> None:
        now_s = self._clock()
        ours = pid is None or node.id in self._schedule.paused_nodes
        if not ours and self._state(pid or 0) in _STOPPED:
            lasted_s, at = now_s - self._stopped_s.setdefault(node.id, now_s), "at least"
        elif not ours and node.id in self._stopped_s:
            lasted_s, at = now_s - self._ran_s.get(node.id, now_s), "up to"
            del self._stopped_s[node.id]
            self._ran_s[node.id] = now_s
        else:
            self._stopped_s.pop(node.id, None)
            self._ran_s[node.id] = now_s
            return
        if lasted_s > self._session_s:
            self._disturbed = Disturbed(
                f"something outside of the run stopped the process of {node.name} (SIGSTOP) for {at} {lasted_s:.1f} s, "
                f"longer than a broker session of {self._session_s:g} s"
            )
            raise self._disturbed


class NodeEnds:
    """The nodes of a run that Kafka itself ended; `note` shows each to the user."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.found: list[NodeEnd] = []
        self._note = note
        self._newest: NodeEnded | None = None

    def add(self, error: NodeEnded) -> None:
        """Add an end, once for each error: the same one may come by several times."""
        if error is not self._newest:
            self._newest = error
            self._note(error.what)
            self.found.append(NodeEnd(node=error.node, at_ns=run_clock.now_ns(), fault=error.fault))


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
