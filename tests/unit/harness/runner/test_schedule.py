"""The schedule: steps in order, each with its trigger, its resolved nodes, its proof and its end."""

from __future__ import annotations

import pytest
from plain_steps import step_of, trigger_of
from schedule_bench import Bench

from cluster.kafka_api.admin_requests import Reassign
from ebbtide.record.steps import CutSides
from ebbtide.scenario.steps.step import StepSpec
from ebbtide.scenario.words import CLIENTS, Duration, Rate


def test_a_trigger_that_never_fires_ends_the_schedule_and_says_what_was_seen(bench: Bench) -> None:
    trigger = trigger_of(isr={"partition": "t-0", "size": 1})
    _, finished = bench.run(
        step_of("kill", target="broker(1)", trigger=trigger, deadline_s=0.05),
        step_of("start", target="broker(1)"),
    )
    assert not finished
    first, second = bench.entries()
    assert first.why is not None
    assert "isr of t-0: size 1" in first.why
    assert "ISR [1, 2, 3]" in first.why
    assert (first.fired_ns, second.fired_ns) == (None, None)
    assert bench.done == []


def test_targets_are_recorded_as_resolved_and_named_steps_can_be_referred_to(bench: Bench) -> None:
    bench.run(
        step_of("power-loss", name="dark", target="leader(t-0)"),
        step_of("start", target="step(dark)"),
    )
    assert bench.done == [("power-loss", 2), ("start", 2)]
    loss, start = bench.entries()
    assert (loss.nodes, start.nodes) == ((2,), (2,))
    assert loss.parameters["target"] == "leader(t-0)"


def test_a_fault_of_several_nodes_is_healed_with_the_last_of_them(bench: Bench) -> None:
    bench.run(step_of("kill", target="followers(t-0)"), step_of("start", target="broker(1)"))
    assert bench.entries()[0].healed_ns is None
    bench.run(
        step_of("kill", target="followers(t-0)"),
        step_of("start", target="broker(1)"),
        step_of("start", target="broker(3)"),
    )
    assert bench.entries()[0].healed_ns is not None


def test_a_wait_that_is_over_names_its_trigger(bench: Bench) -> None:
    bench.run(step_of("wait", trigger=trigger_of(after=Duration("1ms"))))
    assert bench.display.notes == ["the wait is over: after 1ms"]


def test_a_fault_without_proof_is_recorded_as_such_and_the_run_goes_on(bench: Bench) -> None:
    bench.fails.add("power-loss")
    _, finished = bench.run(step_of("power-loss", target="broker(1)"), step_of("start", target="broker(1)"))
    assert finished
    loss, start = bench.entries()
    assert (loss.effect_ns, loss.why) == (None, "it did not")
    assert start.effect_ns is not None
    assert "power-loss broker-1: NO PROOF that it took effect: it did not" in bench.display.notes


def test_a_step_on_several_nodes_is_proven_only_if_each_is_and_adds_up_what_they_lost(bench: Bench) -> None:
    bench.run(step_of("power-loss", target="followers(t-0)"))
    (entry,) = bench.entries()
    assert entry.nodes == (1, 3)
    assert entry.proof["lost_bytes"] == 10
    assert set(entry.proof["nodes"]) == {"1", "3"}


def test_groups_are_cut_both_ways_and_one_way_cuts_one_way(bench: Bench) -> None:
    bench.run(
        step_of("partition", groups=(("broker(1)",), ("leader(t-0)", "clients"))),
        step_of("partition", from_=("broker(1)",), to=("broker(3)",)),
    )
    both_ways = {(1, 2), (2, 1), (1, CLIENTS), (CLIENTS, 1)}
    assert [cuts for kind, cuts in (one for one in bench.done if len(one) == 2)] == [both_ways, {(1, 3)}]  # type: ignore[misc, arg-type]


def test_restoring_heals_resumes_and_starts_what_the_steps_left_broken(bench: Bench) -> None:
    schedule, _ = bench.run(
        step_of("partition", groups=(("broker(1)",), ("broker(2)",))),
        step_of("pause", target="broker(1)"),
        step_of("kill", target="broker(3)"),
    )
    schedule.restore()
    assert ("start", 3) in bench.done
    assert ("heal",) in bench.done
    assert ("resume", 1) in bench.done
    assert all(entry.healed_ns is not None for entry in bench.entries())
    assert (schedule.down, schedule.paused_nodes) == (set(), set())


def test_the_sides_of_cuts_are_recorded_as_nodes(bench: Bench) -> None:
    bench.run(
        step_of("partition", groups=(("broker(1)",), ("broker(2)", "clients"))),
        step_of("limit-bandwidth", from_=("broker(1)",), to=("broker(2)", "broker(3)"), rate=Rate("1mbit")),
        step_of("kill", target="broker(3)"),
    )
    assert [entry.sides for entry in bench.entries()] == [
        CutSides(nodes=((1,), (0, 2))),
        CutSides(nodes=((1,), (2, 3)), one_way=True),
        None,
    ]
    words = ["broker-1 | clients, broker-2", "1mbit broker-1 > broker-2, broker-3", "broker-3"]
    assert [entry.whom for entry in bench.entries()] == words


def test_faults_on_top_of_each_other_are_undone_from_the_wire_down_to_the_processes(bench: Bench) -> None:
    schedule, _ = bench.run(
        step_of("hold-request", target="broker(1)", api="Fetch"),
        step_of("power-loss", target="broker(3)"),
        step_of("partition", groups=(("broker(1)",), ("broker(2)",))),
        step_of("limit-bandwidth", from_=("broker(1)",), to=("broker(3)",), rate=Rate("1mbit")),
        step_of("pause", target="broker(1)"),
        step_of("fail-disk", target="broker(2)"),
    )
    bench.done.clear()
    schedule.restore()
    assert bench.done == [
        ("release", 1),
        ("heal",),
        ("resume", 1),
        "mend",
        ("start", 2),
        ("start", 3),
    ]
    held, *lasting = bench.entries()
    assert held.effect_ns is None
    assert all(entry.healed_ns is not None for entry in (held, *lasting))


def test_a_paused_node_that_was_killed_is_started_and_not_resumed(bench: Bench) -> None:
    schedule, _ = bench.run(step_of("pause", target="broker(1)"), step_of("kill", target="broker(1)"))
    assert schedule.paused_nodes == set()
    bench.done.clear()
    schedule.restore()
    assert bench.done == [("start", 1)]


def test_an_administrative_step_that_kafka_refuses_is_not_proven(bench: Bench) -> None:
    bench.run(step_of("reassign", partition="t-0", replicas=("broker(3)", "leader(t-0)")))
    (entry,) = bench.entries()
    assert bench.done == [Reassign(topic="t", partition=0, replicas=(3, 2))]
    assert (entry.nodes, entry.effect_ns) == ((3, 2), None)
    assert "Kafka refused: NOT_CONTROLLER" in str(entry.why)


@pytest.mark.parametrize(
    "step",
    [
        step_of("unregister", target="followers(t-0)"),
        step_of("set-config", resource="broker:followers(t-0)", config="x", value="1"),
    ],
)
def test_a_request_about_one_broker_does_not_fire_where_its_role_stands_for_several(
    bench: Bench, step: StepSpec
) -> None:
    _, finished = bench.run(step)
    (entry,) = bench.entries()
    assert (finished, entry.fired_ns, bench.done) == (False, None, [])
    assert "followers(t-0) stands for several nodes" in str(entry.why)


def test_an_isolation_cuts_a_node_from_everyone_or_from_some(bench: Bench) -> None:
    bench.run(
        step_of("isolate", target="broker(1)"),
        step_of("isolate", target="leader(t-0)", from_=("broker(3)", "clients")),
    )
    everyone = {(1, CLIENTS), (CLIENTS, 1), (1, 2), (2, 1), (1, 3), (3, 1)}
    cuts = [cuts for kind, cuts in (one for one in bench.done if len(one) == 2)]  # type: ignore[misc, arg-type]
    assert cuts == [everyone, {(2, 3), (3, 2), (2, CLIENTS), (CLIENTS, 2)}]


def test_an_isolated_node_is_whom_its_step_stands_for_and_not_those_it_was_cut_off_from(bench: Bench) -> None:
    bench.run(
        step_of("isolate", name="dark", target="leader(t-0)", from_=("broker(3)",)),
        step_of("kill", target="step(dark)"),
    )
    isolation, kill = bench.entries()
    assert (isolation.nodes, kill.nodes) == ((2, 3), (2,))


def test_a_rolling_step_takes_one_broker_after_the_other_and_waits_for_the_whole_isr(bench: Bench) -> None:
    schedule, _ = bench.run(step_of("rolling", mode="kill"))
    order = [("kill", 1), ("start", 1), ("kill", 2), ("start", 2), ("kill", 3), ("start", 3)]
    assert bench.done == order
    (entry,) = bench.entries()
    assert entry.effect_ns is not None
    assert [(one["step"], *one["nodes"]) for one in entry.proof["parts"]] == order
    assert schedule.down == set()


def test_a_rolling_step_ends_unproven_at_the_first_broker_that_is_not_back_in_full(bench: Bench) -> None:
    bench.runtime.ready = False
    bench.run(step_of("rolling", mode="power-loss", deadline_s=0.05))
    assert bench.done == [("power-loss", 1), ("start", 1)]
    (entry,) = bench.entries()
    assert entry.effect_ns is None
    assert "after broker-1: waited 0.05 s" in str(entry.why)


def test_what_a_volume_lost_is_noted_in_the_fault_once_it_is_mended(bench: Bench) -> None:
    schedule, _ = bench.run(
        step_of("fail-disk", target="followers(t-0)"),
        step_of("mend-disk", target="broker(1)"),
        step_of("start", target="broker(1)"),
    )
    fault = bench.entries()[0]
    assert (fault.proof["lost_bytes"], fault.proof["nodes"]["1"]["logs"]["t-0"]["leo_after"]) == (9, 0)
    assert schedule.down == {3}
    bench.done.clear()
    schedule.restore()
    assert bench.done == ["mend", ("start", 3)]
    fault = bench.entries()[0]
    assert (fault.proof["lost_bytes"], fault.proof["nodes"]["3"]["lost_bytes"]) == (18, 9)


def test_a_volume_in_trouble_takes_no_second_one_and_a_sound_one_is_not_mended(bench: Bench) -> None:
    bench.run(
        step_of("fill-disk", target="broker(1)"),
        step_of("power-loss", target="leader(t-0)"),
        step_of("power-loss", target="broker(1)"),
        step_of("mend-disk", target="broker(3)"),
    )
    why = [entry.why for entry in bench.entries()]
    assert why[:2] == [None, None]
    assert "in trouble already" in str(why[2])
    assert "nothing is wrong with the volume of broker-3" in str(why[3])
