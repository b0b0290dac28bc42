"""Steps made of others: proven only if every part is, and read back by the judge as the steps that they are."""

from __future__ import annotations

import pytest

from cluster.host.namespaces import Cut
from ebbtide.errors import UsageError
from ebbtide.record.steps import StepEntry, split_composed_steps
from faults import network
from faults.base import Effect, Part, compose_effect, proven_effect, unproven_effect
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
