"""Each node of a step has the times of what really happened to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ebbtide.record.node_times import NodeTimes, Span, merge_times
from faults.base import Effect, carry_out_part, compose_effect, merge_effects, proven_effect
from faults.injector import Family, Injector


def span(first: int, last: int | None = None) -> Span:
    return Span(first_ns=first, last_ns=first if last is None else last)


class Processes:
    """Nodes whose processes end and start at the times of a clock that counts calls."""

    def __init__(self) -> None:
        self.now = 0
        self.times = {1: NodeTimes(started=span(0)), 2: NodeTimes(started=span(0))}

    def process_times(self, node_id: int) -> NodeTimes:
        return self.times[node_id]

    def kill(self, node: int) -> Effect:
        self.now += 10
        self.times[node] = NodeTimes(started=self.times[node].started, ended=span(self.now, self.now + 2))
        return proven_effect()

    def start(self, node: int) -> Effect:
        self.now += 10
        self.times[node] = NodeTimes(started=span(self.now))
        return proven_effect()


def injector_of(processes: Processes) -> Injector:
    view: Any = SimpleNamespace()
    runtime: Any = processes
    injector = Injector(runtime, view, lambda: None)
    injector.add(
        Family(on_a_node={"kill": processes.kill, "start": processes.start, "pause": lambda _: proven_effect()})
    )
    return injector


def test_each_of_two_killed_nodes_ended_at_its_own_time() -> None:
    effect = injector_of(Processes()).inject_each("kill", (1, 2))
    assert effect.of_node == {1: NodeTimes(ended=span(10, 12)), 2: NodeTimes(ended=span(20, 22))}


def test_a_start_says_nothing_of_the_end_before_it() -> None:
    injector = injector_of(Processes())
    injector.inject("kill", 1)
    assert injector.inject("start", 1).of_node == {1: NodeTimes(started=span(20))}


def test_a_step_that_ended_nothing_has_no_times() -> None:
    injector = injector_of(Processes())
    injector.inject("kill", 1)
    assert injector.inject("pause", 1).of_node == {}


def test_the_parts_of_a_composed_step_have_times_and_the_whole_has_all_of_them() -> None:
    injector = injector_of(Processes())
    parts = [carry_out_part(kind, (1,), lambda kind=kind: injector.inject(kind, 1)) for kind in ("kill", "start")]
    whole = compose_effect(parts)
    assert whole.of_node == {1: NodeTimes(ended=span(10, 12), started=span(20))}
    assert [part["of_node"] for part in whole.proof["parts"]] == [
        {"1": {"ended": {"first_ns": 10, "last_ns": 12}}},
        {"1": {"started": {"first_ns": 20, "last_ns": 20}}},
    ]


def test_an_effect_keeps_its_own_times_beside_those_of_the_process() -> None:
    lost = proven_effect().with_times({1: NodeTimes(log_gone=span(3, 4))})
    assert lost.with_times({1: NodeTimes(ended=span(1, 2))}).of_node == {
        1: NodeTimes(ended=span(1, 2), log_gone=span(3, 4))
    }
    assert merge_effects((1, 2), [lost, proven_effect()]).of_node == lost.of_node


def test_of_several_ends_and_starts_the_first_end_and_the_last_start_count() -> None:
    often = [{1: NodeTimes(ended=span(at), log_gone=span(at), started=span(at + 1))} for at in (1, 5, 9)]
    assert merge_times(often) == {1: NodeTimes(ended=span(1), log_gone=span(1, 9), started=span(10))}
