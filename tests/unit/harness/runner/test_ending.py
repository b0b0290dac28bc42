"""The end of a run: the final read asks the replicas, and the nodes are looked at after it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ebbtide.errors import HarnessError
from ebbtide.logs.segments import TopicPartition
from harness.runner.ending import Ending
from workloads.config import AnsweredHighWatermarks, FinalRead

AT = TopicPartition("t", 0)
ROW = SimpleNamespace(topic="t", leader=1, isr=(1, 2), replicas=(1, 2), adding=(), removing=())


class FakeWorkload:
    """Notes which replicas it is to ask."""

    def __init__(self, answered: AnsweredHighWatermarks) -> None:
        self.answered = answered
        self.asked: Any = None

    def stop_producers(self) -> None:
        """Nothing runs."""

    def final_read(self, _timeout_s: float, **asked: Any) -> FinalRead:
        """Note what was asked."""
        self.asked = asked
        return FinalRead(offsets={}, answered=self.answered)


def ending(workload: FakeWorkload, watch: Callable[[], None], notes: list[str]) -> Ending:
    fakes: dict[str, Any] = {
        "scenario": SimpleNamespace(
            topics={"t": SimpleNamespace(partitions=1)}, settle_s=1, producers=[SimpleNamespace(count=None)]
        ),
        "runtime": SimpleNamespace(nodes={}, wait_ready=lambda *_: None),
        "view": SimpleNamespace(image=SimpleNamespace(partitions={AT: ROW})),
        "workload": workload,
        "schedule": SimpleNamespace(restore=lambda: None, deleted_topics=()),
        "display": SimpleNamespace(note=notes.append),
    }
    return Ending(**fakes, watch=watch, time_phase=lambda _: contextlib.nullcontext())


def test_every_replica_of_the_run_is_asked_for_its_hw() -> None:
    workload = FakeWorkload(AnsweredHighWatermarks(why_not_all="t-0 on broker 2 cannot be asked"))
    notes: list[str] = []
    ending(workload, lambda: None, notes).carry_out()
    assert workload.asked["replicas"] == {AT: (1, 2)}
    assert [note for note in notes if note.startswith("t-0 on broker 2 cannot be asked; ")]


def test_a_node_that_ends_by_itself_during_the_final_read_ends_the_run() -> None:
    workload = FakeWorkload(AnsweredHighWatermarks())

    def watch() -> None:
        if workload.asked is not None:
            raise HarnessError("broker-1 ended by itself")

    with pytest.raises(HarnessError, match="broker-1 ended by itself"):
        ending(workload, watch, []).carry_out()
