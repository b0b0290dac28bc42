"""The end of the live part of a run: the cluster heals and settles, and everything is read."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable

import msgspec

from cluster.runtime.cluster import Runtime
from ebbtide.errors import Disturbed, HarnessError
from ebbtide.kraft.image import describe
from ebbtide.record.own_producers import WireFacts
from ebbtide.scenario.model import Scenario
from ebbtide.waiting import WaitExpired, wait_until
from harness.runner.display import Display
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView
from workloads.config import FinalRead
from workloads.group import Workload

FINAL_READ_TIMEOUT_S = 60.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the live part ended: what the final read found, or why there was none.

    `disturbed`: something outside of the run ended it early. `gone_topics`: no step deleted them, the metadata log has
    them no more, and no broker knows them.
    `wire`: what the table of published ports rests on.
    """

    final: FinalRead = FinalRead(offsets={})
    wire: WireFacts | None = None
    why_no_final_read: str | None = None
    disturbed: Disturbed | None = None
    gone_topics: tuple[str, ...] = ()


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Ends one run.

    `watch` polls the cluster, and `time_phase` measures a phase.
    """

    scenario: Scenario
    runtime: Runtime
    view: ClusterView
    workload: Workload
    schedule: Schedule
    display: Display
    watch: Callable[[], None]
    time_phase: Callable[[str], contextlib.AbstractContextManager[None]]

    def carry_out(self) -> End:
        """Heal, settle and read everything. Raises `HarnessError` if a client or a node failed by itself."""
        with self.time_phase("settle"):
            self.schedule.restore()
            why = self._settle()
        with self.time_phase("producers"):
            self._end_producers()
        if why is not None:
            return End(why_no_final_read=why)
        with self.time_phase("final read"):
            end = self._final_read()
            if (published := self.runtime.published) is not None:
                end = msgspec.structs.replace(end, wire=published.end_recording())
            # A node that ended by itself meanwhile ends the run.
            self.watch()
        return end

    def _settle(self) -> str | None:
        """Wait until each partition has a leader and its full ISR.

        Returns the reason if a partition does not get there.
        """

        def unsettled_partitions() -> list[str]:
            return [
                describe(row)
                for row in self.view.image.partitions.values()
                if self._is_read(row.topic)
                and (row.leader < 0 or set(row.isr) != set(row.replicas) or row.adding or row.removing)
            ]

        def is_settled() -> bool:
            self.watch()
            return not unsettled_partitions()

        try:
            # A broker that was restarted within its session is still unfenced in the log, with its old registration
            # and ISR. Only its new registration shows its present state.
            self.runtime.wait_ready(tuple(self.runtime.nodes), self.scenario.settle_s, self.watch)
            wait_until(
                is_settled,
                awaited="every partition to have a leader and its full ISR",
                timeout_s=self.scenario.settle_s,
                last_seen=lambda: "; ".join(unsettled_partitions()),
            )
        except WaitExpired as error:
            self.display.note(f"did not settle: {error}")
            gone = "".join(f"the metadata log no longer has the topic {name}; " for name in self._gone_topics())
            return f"the cluster did not settle, so there is no final read: {gone}{error.as_clause()}"
        return None

    def _is_read(self, topic: str) -> bool:
        """Whether the final read reads a topic: those of clients of one's own too, if their traffic was recorded."""
        published = self.runtime.published
        is_recorded = published is not None and published.is_recording
        return topic in self.scenario.topics or (is_recorded and not topic.startswith("__"))

    def _gone_topics(self) -> tuple[str, ...]:
        """Return the topics that the metadata log no longer has, and that no step deleted."""
        known = {at.topic for at in self.view.image.partitions} | {*self.schedule.deleted_topics}
        return tuple(name for name in self.scenario.topics if name not in known)

    def _end_producers(self) -> None:
        """Let producers with a count finish, and stop the others."""
        if all(producer.count is not None for producer in self.scenario.producers):
            with contextlib.suppress(WaitExpired):
                wait_until(self._producers_done, awaited="the producers", timeout_s=self.scenario.settle_s)
        self.workload.stop_producers()

    def _producers_done(self) -> bool:
        self.watch()
        return self.workload.are_producers_done()

    def _final_read(self) -> End:
        partitions = Counter(at.topic for at in self.view.image.partitions)
        topics = {
            name: max(spec.partitions, partitions[name])
            for name, spec in self.scenario.topics.items()
            if name not in self.schedule.deleted_topics
        }
        gone = self._gone_topics()
        try:
            found = self.workload.final_read(
                FINAL_READ_TIMEOUT_S,
                topics=topics,
                gone=gone,
                replicas={at: row.replicas for at, row in self.view.image.partitions.items()},
            )
        except HarnessError as error:
            self.display.note(f"no final read: {error}")
            return End(why_no_final_read=f"the final read failed: {error.as_clause()}")
        if found.answered.why_not_all is not None:
            compared = "such a replica is compared below the HW that its broker checkpointed last"
            self.display.note(f"{found.answered.why_not_all}; {compared}")
        return End(final=found, gone_topics=gone)
