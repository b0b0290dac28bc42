"""Steps made of others: proven only if every part is; each part and each node has the times of what really happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.host.namespaces import Cut
from ebbtide.errors import UsageError
from ebbtide.record.node_times import NodeTimes, Span, merge_times
from ebbtide.record.steps import StepEntry, split_composed_steps
from faults import network
from faults.base import Effect, Part, carry_out_part, compose_effect, merge_effects, proven_effect, unproven_effect
from faults.injector import Family, Injector
from faults.network import flap

CUT = Cut(source=1, target=2)


def a_part(kind: str, *nodes: int, fired_ns: int = 1, effect: Effect | None = None) -> Part:
    return Part(kind, nodes, fired_ns, effect or proven_effect())  # type: ignore[arg-type]


def entry(effect: Effect, step: str = "rolling") -> StepEntry:
    return StepEntry(
        index=4, step=step, nodes=(1, 2), fired_ns=1, effect_ns=effect.effect_ns, proof=effect.proof, healed_ns=99
    )


def test_a_composed_step_is_proven_if_every_part_is() -> None:
    assert compose_effect([a_part("stop", 1), a_part("start", 1)]).effect_ns is not None
    effect = compose_effect([a_part("stop", 1), a_part("start", 1, effect=unproven_effect("it did not"))])
    assert (effect.effect_ns, effect.why) == (None, "it did not")
    assert compose_effect([a_part("stop", 1)], why="no whole ISR").why == "no whole ISR"
    assert compose_effect([]).effect_ns is None


def test_the_parts_are_steps_of_their_own_with_their_own_proof_and_end() -> None:
    effect = compose_effect(
        [
            a_part("power-loss", 1, fired_ns=5, effect=proven_effect(lost_bytes=7)),
            a_part("start", 1, fired_ns=6),
            a_part("power-loss", 2, fired_ns=8, effect=proven_effect(lost_bytes=2)),
            a_part("start", 2, fired_ns=9),
        ]
    )
    assert effect.proof["lost_bytes"] == 9
    first, start, second, _ = split_composed_steps([entry(effect)])
    assert (first.index, first.step, first.nodes, first.fired_ns) == (4, "power-loss", (1,), 5)
    assert (first.proof["lost_bytes"], second.proof["lost_bytes"]) == (7, 2)
    assert first.healed_ns == start.effect_ns


def test_an_isolation_is_a_cut_to_the_judge_and_other_steps_stay_what_they_are() -> None:
    isolate = StepEntry(index=0, step="isolate", nodes=(1, 100), proof={"probe": "ok", "cuts": ["1>100"]})
    kill = StepEntry(index=1, step="kill", nodes=(1,), proof={"probe": "ok"})
    cut, same = split_composed_steps([isolate, kill])
    assert (cut.step, cut.proof) == ("partition", isolate.proof)
    assert same == kill


def test_parts_that_are_no_steps_are_damage() -> None:
    with pytest.raises(UsageError, match="damaged"):
        split_composed_steps([StepEntry(index=0, step="rolling", proof={"parts": [{"nodes": "all"}]})])


@pytest.fixture
def done_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []

    def act(what: str, effect: Effect) -> Effect:
        done.append(what)
        return effect

    monkeypatch.setattr(network, "partition", lambda _runtime, _cuts: act("cut", proven_effect()))
    monkeypatch.setattr(network, "heal", lambda _runtime: act("heal", proven_effect()))
    return done


def test_a_flap_cuts_and_heals_in_turn_for_half_a_period_each(done_steps: list[str]) -> None:
    waited: list[float] = []
    parts = flap(None, [CUT], 2, 3.0, waited.append)  # type: ignore[arg-type]
    assert done_steps == ["cut", "heal", "cut", "heal"]
    assert waited == [1.5, 1.5, 1.5, 1.5]
    assert [(part.kind, part.nodes) for part in parts[:2]] == [("partition", (1, 2)), ("heal", ())]


def test_a_flap_ends_healed_at_the_first_cut_that_cut_nothing(
    done_steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "partition", lambda _runtime, _cuts: unproven_effect("packets still pass"))
    effect = compose_effect(flap(None, [CUT], 5, 0.0, lambda _seconds: None))  # type: ignore[arg-type]
    assert (effect.effect_ns, effect.why) == (None, "packets still pass")
    assert done_steps == ["heal"]


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
