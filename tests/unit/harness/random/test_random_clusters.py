"""The clusters that random schedules have, and the generator's guess of who leads and stands in ISR and ELR."""

from __future__ import annotations

from collections.abc import Set
from random import Random

import msgspec
import pytest
from plain_steps import step_of

from analysis.spec.invariants import invariants_of
from analysis.spec.partition import NO_LEADER
from ebbtide.scenario.model import ClusterSpec, Quorum
from ebbtide.scenario.steps.admin import VoterStep
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.step import StepSpec
from harness.random.drawing import GENERATORS, draw, with_steps, world_of
from harness.random.replication import Replication, final_replicas, healthy_replication


def clusters(kafka: str, **levels: int) -> list[ClusterSpec]:
    return [draw(seed, kafka=kafka, features=levels).cluster for seed in range(150)]


@pytest.mark.parametrize(
    ("kafka", "features", "dynamic", "several"),
    [
        ("3.4.1", {}, False, False),
        ("3.7.2", {}, False, True),
        ("3.9.1", {}, True, True),
        ("3.9.1", {"metadata.version": 14}, False, False),
        ("4.3.1", {}, True, True),
    ],
)
def test_quorums_and_log_directories_are_drawn_where_the_release_and_its_levels_have_them(
    kafka: str, features: dict[str, int], dynamic: bool, several: bool
) -> None:
    drawn = clusters(kafka, **features)
    assert any(one.quorum == "dynamic" for one in drawn) == dynamic
    assert any(one.log_dirs is not None for one in drawn) == several


def test_one_log_directory_is_named_only_where_brokers_have_several() -> None:
    faults = [
        step_of("wipe-disk", target="broker(2)", directory=3),
        step_of("fail-disk", target="broker(1)", directory=1),
    ]

    def directories(log_dirs: int | None) -> list[int | None]:
        setting = draw(1, kafka="4.3.1")
        cluster = msgspec.structs.replace(setting.cluster, log_dirs=log_dirs)
        steps = with_steps(msgspec.structs.replace(setting, cluster=cluster), [*faults], Random(1)).steps
        return [step.directory for step in steps if isinstance(step, DirectoryStep)]

    assert directories(None) == [None, None]
    assert directories(2) == [None, 1]
    assert directories(3) == [3, 1]


def test_a_voter_is_removed_and_added_only_in_a_dynamic_quorum_and_never_the_last() -> None:
    remove, add = step_of("remove-voter", target="controller(100)"), step_of("add-voter", target="controller(100)")

    def kept(*slots: StepSpec, quorum: Quorum | None = "dynamic", initial: int | None = None) -> list[str]:
        setting = draw(1, kafka="4.3.1")
        cluster = msgspec.structs.replace(setting.cluster, controllers=3, quorum=quorum, initial_voters=initial)
        steps = with_steps(msgspec.structs.replace(setting, cluster=cluster), [*slots], Random(1)).steps
        return [one.step for one in steps if isinstance(one, VoterStep)]

    assert kept(remove, add, quorum=None) == []
    assert kept(add, remove, add) == ["remove-voter", "add-voter"]
    assert kept(remove, initial=1) == []
    assert kept(step_of("add-voter", target="controller(101)"), remove, initial=1) == ["add-voter", "remove-voter"]


# The generator's guess of who leads and who stands in ISR and ELR: what the specification says.


ALL = frozenset({1, 2, 3})


def replication_on(kafka: str, *, min_isr: int = 2, brokers: int = 3, **features: int) -> Replication:
    return healthy_replication({"t-0": (1, 2, 3)}, brokers=brokers, kafka=kafka, features=features, min_isr=min_isr)


def settle(replication: Replication, heard: Set[int], *, apart: Set[int] = frozenset()) -> None:
    """`apart`: followers whose requests do not reach their leader."""
    replication.settle(heard, lambda follower, _leader: follower not in apart)


def state(replication: Replication) -> tuple[int, set[int], set[int]]:
    partition = replication.partitions["t-0"]
    return partition.leader, set(partition.isr), set(partition.elr)


@pytest.mark.parametrize(
    ("kafka", "alone", "nobody"),
    [("3.9.1", (1, {1}, set()), (NO_LEADER, {1}, set())), ("4.3.1", (1, {1}, {3}), (NO_LEADER, set(), {1, 3}))],
)
def test_the_last_isr_member_stays_in_the_isr_or_goes_into_the_elr(
    kafka: str, alone: tuple[int, set[int], set[int]], nobody: tuple[int, set[int], set[int]]
) -> None:
    replication = replication_on(kafka)
    settle(replication, ALL, apart={2})
    settle(replication, ALL, apart={2, 3})
    assert state(replication) == alone
    settle(replication, frozenset())
    assert state(replication) == nobody


@pytest.mark.parametrize(("clean", "elr"), [(True, {2}), (False, set())])
def test_only_a_clean_stop_keeps_a_broker_in_the_elr_when_it_registers(clean: bool, elr: set[int]) -> None:
    replication = replication_on("4.3.1", min_isr=3)
    replication.ended[2] = clean
    settle(replication, ALL - {2})
    assert state(replication) == (1, {1, 3}, {2})
    settle(replication, ALL, apart={2})
    assert state(replication) == (1, {1, 3}, elr)
    settle(replication, ALL)
    assert state(replication) == (1, {1, 2, 3}, set())


def test_a_restart_moves_the_leader_and_a_preferred_election_moves_it_back() -> None:
    replication = replication_on("4.3.1")
    replication.ended[1] = True
    settle(replication, ALL)
    assert state(replication) == (2, {1, 2, 3}, set())
    replication.apply_to("t-0", replication.protocol.balance)
    assert state(replication) == (1, {1, 2, 3}, set())


def test_a_reassignment_ends_when_what_it_adds_is_in_the_isr() -> None:
    replication = replication_on("4.3.1", brokers=4)
    replication.apply_to("t-0", lambda partition, cluster: replication.protocol.reassign(partition, cluster, (4, 1, 2)))
    assert final_replicas(replication.partitions["t-0"]) == (4, 1, 2)
    settle(replication, ALL)
    assert replication.partitions["t-0"].replicas == (4, 1, 2, 3)
    settle(replication, ALL | {4})
    assert replication.partitions["t-0"].replicas == (4, 1, 2)


@pytest.mark.parametrize(
    ("kafka", "variant"), [("3.4.1", "kraft"), ("4.0.2", "elr_40"), ("4.3.1", "elr_43"), ("5.1.0", "elr_43")]
)
def test_the_rules_are_those_of_the_release_or_the_newest_known(kafka: str, variant: str) -> None:
    assert replication_on(kafka).protocol.name == variant


@pytest.mark.parametrize(("kafka", "elr"), [("3.9.1", False), ("4.0.2", False), ("4.1.0", True), ("4.3.1", True)])
def test_the_elr_is_on_where_the_release_or_its_feature_level_has_it(kafka: str, elr: bool) -> None:
    assert replication_on(kafka).cluster.elr == elr


def test_a_feature_level_turns_the_elr_on_or_off() -> None:
    assert replication_on("4.0.2", **{"eligible.leader.replicas.version": 1}).cluster.elr
    assert not replication_on("4.3.1", **{"eligible.leader.replicas.version": 0}).cluster.elr


@pytest.mark.parametrize("kafka", ["3.4.1", "3.9.1", "4.0.2", "4.3.1"])
def test_no_schedule_leads_to_a_state_that_the_variant_forbids(kafka: str) -> None:
    for seed in range(60):
        scenario = draw(seed, kafka=kafka, steps=25)
        world = world_of(scenario)
        rules = invariants_of(world.replication.protocol.name)
        switched = False
        for step in scenario.steps[1:]:
            GENERATORS[step.step].carry_out(world, step)
            switched |= step.step == "set-feature"
            for partition in world.partitions.values():
                broken = [
                    one.name
                    for one in rules
                    if not one.holds(partition, world.replication.cluster) and (one.across_features or not switched)
                ]
                assert broken == [], (seed, step.step, partition)
