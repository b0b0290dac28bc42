"""The end of the live part of a run: the cluster heals and settles, and everything is read."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable

import msgspec

from cluster.runtime.base import Runtime
from ebbtide.errors import Disturbed, HarnessError
from ebbtide.kraft.image import describe
from ebbtide.logs.checkpoint_file import read_high_watermarks
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.manifest import FinalOffsets, FinalTransactions
from ebbtide.record.rows import PartitionState
from ebbtide.scenario.model import Scenario
from ebbtide.waiting import WaitExpired, wait_until
from harness.runner.display import Display
from harness.runner.schedule import Schedule
from harness.runner.view import ClusterView
from workloads.group import Workload

FINAL_READ_TIMEOUT_S = 60.0
CHECKPOINT_TIMEOUT_S = 8.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the live part ended: the offsets of the final read, or why there was none.

    `final_transactions` is what was known of the transactions before it. `disturbed`: something outside of
    the run ended it early.
    """

    final_offsets: dict[str, FinalOffsets] = {}
    final_transactions: FinalTransactions | None = None
    why_no_final_read: str | None = None
    disturbed: Disturbed | None = None


class Ending:
    """Ends one run.

    `watch` polls the cluster, and `time_phase` measures a phase.
    """

    def __init__(
        self,
        *,
        scenario: Scenario,
        runtime: Runtime,
        view: ClusterView,
        workload: Workload,
        schedule: Schedule,
        display: Display,
        watch: Callable[[], None],
        time_phase: Callable[[str], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._scenario = scenario
        self._runtime = runtime
        self._view = view
        self._workload = workload
        self._schedule = schedule
        self._display = display
        self._watch = watch
        self._time_phase = time_phase

    def carry_out(self) -> End:
        """Heal, settle and read everything. Raises `HarnessError` if a client or a node failed by itself."""
        with self._time_phase("settle"):
            self._schedule.restore()
            why = self._settle()
        with self._time_phase("producers"):
            self._end_producers()
        if why is not None:
            return End(why_no_final_read=why)
        with self._time_phase("final read"):
            end = self._final_read()
        with self._time_phase("checkpoints"):
            self._await_checkpoints(end)
        return end

    def _settle(self) -> str | None:
        """Wait until each partition has a leader and its full ISR.

        Returns the reason if a partition does not get there.
        """

        def unsettled_partitions() -> list[str]:
            partitions = self._view.image.partitions.values()
            return [describe(row) for row in partitions if row.topic in self._scenario.topics and not _is_at_rest(row)]

        def is_settled() -> bool:
            self._watch()
            return not unsettled_partitions()

        try:
            # A broker that was restarted within its session is still unfenced in the log, with its old registration
            # and ISR. Only its new registration shows its present state.
            self._runtime.wait_ready(tuple(self._runtime.nodes), self._scenario.settle_s)
            wait_until(
                is_settled,
                awaited="every partition to have a leader and its full ISR",
                timeout_s=self._scenario.settle_s,
                last_seen=lambda: "; ".join(unsettled_partitions()),
            )
        except WaitExpired as error:
            self._display.note(f"did not settle: {error}")
            return f"the cluster did not settle, so there is no final read: {error.as_clause()}"
        return None

    def _end_producers(self) -> None:
        """Let producers with a count finish, and stop the others."""
        if all(producer.count is not None for producer in self._scenario.producers):
            with contextlib.suppress(WaitExpired):
                wait_until(self._producers_done, awaited="the producers", timeout_s=self._scenario.settle_s)
        self._workload.stop_producers()

    def _producers_done(self) -> bool:
        self._watch()
        return self._workload.are_producers_done()

    def _final_read(self) -> End:
        partitions = Counter(at.topic for at in self._view.image.partitions)
        topics = {
            name: max(spec.partitions, partitions[name])
            for name, spec in self._scenario.topics.items()
            if name not in self._schedule.deleted_topics
        }
        try:
            ends = self._workload.final_read(FINAL_READ_TIMEOUT_S, topics=topics)
            return End(final_offsets=ends, final_transactions=self._workload.final_transactions)
        except HarnessError as error:
            self._display.note(f"no final read: {error}")
            return End(why_no_final_read=f"the final read failed: {error.as_clause()}")

    def _await_checkpoints(self, end: End) -> None:
        """Wait until every replica has checkpointed its final HW.

        Brokers do that every 5 s.

        Replicas are compared only below their own checkpointed HW. If a checkpoint takes too long the run continues,
        and the records above it are not compared.
        """
        wanted = {
            (node, TopicPartition.parse(name)): offsets.high_watermark
            for name, offsets in end.final_offsets.items()
            for node in self._view.image.partitions[TopicPartition.parse(name)].replicas
        }

        def behind() -> list[str]:
            nodes = {node for node, _ in wanted}
            written = {node: read_high_watermarks(self._runtime.data_dirs(node)) for node in nodes}
            return [
                f"{partition} on broker {node} is at {written[node].get(partition)}, not {high_watermark}"
                for (node, partition), high_watermark in wanted.items()
                if written[node].get(partition) != high_watermark
            ]

        def is_written() -> bool:
            self._watch()
            # A file that is just being replaced cannot be read: try again.
            with contextlib.suppress(ValueError):
                return not behind()
            return False

        try:
            wait_until(is_written, awaited="every replica's HW checkpoint", timeout_s=CHECKPOINT_TIMEOUT_S)
        except WaitExpired as error:
            self._display.note(str(error))


def _is_at_rest(row: PartitionState) -> bool:
    """Whether the partition has a leader, its full ISR and no reassignment."""
    return row.leader >= 0 and set(row.isr) == set(row.replicas) and not row.adding and not row.removing
