"""What a gate does not wait for: a state of brokers to which, in this run, the steps have not done the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from plain_steps import step_of
from test_gates import Counters, GatedSchedule
from test_gates import bench as bench
from test_gates_awaited import EVERYBODY, T_ALONE, U_ALONE, Live, _fired_step
from test_gates_awaited import live as live

from ebbtide.record.rows import PartitionState
from harness.runner.gates import Gate, GateWatch, RecordedPartition
from harness.runner.view import ClusterView

OTHERS_KILLED = {0: (frozenset({1}),), 1: (frozenset({2}),)}
"""In the record broker 1 was killed, then broker 2."""
ONE_TWICE = (_fired_step("kill", 1, index=0), _fired_step("kill", 1, index=1))
"""Here broker 1 was killed both times."""
BY_THE_FIRST = RecordedPartition(partition="t-0", leader=3, isr=(1, 3))


def watch(live: Live, gate: Gate) -> GateWatch:
    return GateWatch(gate, live.view, live.counters, ONE_TWICE)


def test_a_state_of_a_broker_that_only_another_step_killed_is_not_waited_for(live: Live) -> None:
    gate = watch(live, Gate(partitions=(BY_THE_FIRST,), alike=EVERYBODY, acted=OTHERS_KILLED))
    seen = gate.look()
    assert (gate.has_departed, seen.fired) == (True, True)
    assert seen.what == (
        "t-0 leader 1 epoch 0 ISR [1, 2, 3], not t-0 leader 3 ISR [1, 3], which cannot come: "
        "in the record broker 1 was hit by steps that hit no such broker, or too few, here; 0 acked"
    )


def test_a_state_of_brokers_that_no_step_touched_may_still_come(live: Live) -> None:
    alone = RecordedPartition(partition="t-0", leader=3, isr=(3,))
    gate = watch(live, Gate(partitions=(alone,), alike=EVERYBODY, acted=OTHERS_KILLED))
    assert (gate.has_departed, gate.look().fired) == (False, False)
    live.isr("t", 2, leader=2)
    assert gate.look().fired


def test_a_broker_that_stood_so_is_not_waited_for_where_none_is_like_it(live: Live) -> None:
    gate = watch(live, Gate(broker_states={2: "fenced", 3: "fenced"}, alike=EVERYBODY, acted=OTHERS_KILLED))
    seen = gate.look()
    assert (gate.has_departed, seen.fired) == (True, False)
    assert seen.what == (
        "broker 2 fenced cannot come: "
        "in the record broker 2 was hit by steps that hit no such broker, or too few, here; "
        "broker 3 unfenced, not fenced"
    )
    live.fence(2)
    assert gate.look().fired


def test_the_other_partitions_are_waited_for_all_the_same(live: Live) -> None:
    of_another = RecordedPartition(partition="u-0", leader=3, isr=(3,))
    gate = watch(live, Gate(partitions=(BY_THE_FIRST, of_another), alike=EVERYBODY, acted=OTHERS_KILLED))
    assert not gate.look().fired
    live.isr("u", 2, leader=2)
    assert gate.look().fired


def test_records_are_waited_for_all_the_same(live: Live) -> None:
    gate = watch(live, Gate(partitions=(BY_THE_FIRST,), alike=EVERYBODY, acted=OTHERS_KILLED, acked=10))
    assert not gate.look().fired
    # That it goes on is no state that begins to pass.
    live.isr("t", 1)
    assert not gate.look().fired
    live.counters.now(10)
    assert gate.look().fired


def test_a_time_that_the_state_stood_in_for_is_waited_out(live: Live) -> None:
    gate = Gate(partitions=(BY_THE_FIRST,), alike=EVERYBODY, acted=OTHERS_KILLED, lasted_s=1.0, instead_s=9.0)
    timed = watch(live, gate)
    assert not timed.look().fired
    live.now_s += 8.9
    assert timed.look().what.endswith("0 acked, 8.9 s after the step before, not 9.0 s")
    live.now_s += 0.2
    assert timed.look().fired


def test_a_state_that_came_goes_on_for_as_long_as_it_stood_and_no_longer(live: Live) -> None:
    opened = live.watch(Gate(partitions=(T_ALONE, U_ALONE), lasted_s=1.0, instead_s=9.0))
    live.isr("t", 1)
    live.isr("u", 1)
    assert not opened()
    live.now_s += 1.1
    assert opened()


NOWHERE = Path("nowhere")
BROKERS = st.frozensets(st.sampled_from(sorted(EVERYBODY)))


@given(
    there=st.lists(BROKERS, min_size=2, max_size=2),
    here=st.lists(BROKERS, min_size=2, max_size=2),
    leader=st.sampled_from([-1, 1, 2, 3]),
    isr=BROKERS,
    elr=st.none() | BROKERS,
    alike=BROKERS,
)
@settings(max_examples=300)
def test_not_waited_for_is_what_no_state_of_the_partition_could_be(
    there: list[frozenset[int]],
    here: list[frozenset[int]],
    leader: int,
    isr: frozenset[int],
    elr: frozenset[int] | None,
    alike: frozenset[int],
) -> None:
    """Among all leaders, ISRs and ELRs, possible in Kafka or not."""
    was = RecordedPartition(partition="t-0", leader=leader, isr=tuple(isr), elr=None if elr is None else tuple(elr))
    gate = Gate(partitions=(was,), alike=alike, acted={index: (side,) for index, side in enumerate(there)})
    before = [_fired_step("kill", *nodes, index=index) for index, nodes in enumerate(here)]
    gate_watch = GateWatch(gate, ClusterView({100: NOWHERE}, {100: NOWHERE}, (1, 2, 3)), Counters(0), before)
    wanted = was.shape(gate_watch._then)
    groups = [group for size in range(4) for group in combinations(sorted(EVERYBODY), size)]
    could_be = any(
        was.shape_of(_row(one, now_isr, now_elr), gate_watch._now) == wanted
        for one in (-1, 1, 2, 3)
        for now_isr in groups
        for now_elr in groups
    )
    assert gate_watch.has_departed is not could_be


def _row(leader: int, isr: tuple[int, ...], elr: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        metadata_offset=0,
        at_ns=0,
        topic="t",
        partition=0,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        replicas=(1, 2, 3),
        isr=isr,
        elr=elr,
    )


def test_a_step_after_a_departure_fires_without_waiting_in_vain_and_the_record_says_why(bench: GatedSchedule) -> None:
    steps = [step_of("kill", target="leader(t-0)")] * 3
    acted = {0: (frozenset({2}),), 1: (frozenset({1}),)}
    gate = Gate(partitions=(BY_THE_FIRST,), acted=acted, alike=EVERYBODY, patience_s=5.0)
    *_, last = bench.run_gated({2: gate}, *steps)
    assert last.state["reached"] is False
    assert last.state["waited_s"] < 1.0
    assert "cannot come: in the record broker 1 was hit by steps that hit no such broker" in str(last.state["seen"])
    assert last.effect_ns is not None
    [departed] = [note for note in bench.display.notes if note.startswith("departed before step 2")]
    assert "cannot come" in departed
