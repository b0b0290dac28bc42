"""Mixed releases: the controller's rules follow the active controller's release, a leader's rules its broker's."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from analysis.record.protocol import RulesInForce, Software
from analysis.record.timeline import Timeline
from ebbtide.record.manifest import Manifest, NodeRelease, Topology
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.releases.known_releases import ELR_VERSION

S = 1_000_000_000
CONTROLLERS = (100, 101, 102)


def ran(*releases: tuple[str, float]) -> tuple[NodeRelease, ...]:
    return tuple(NodeRelease(kafka=kafka, started_ns=int(at_s * S)) for kafka, at_s in releases)


def manifest(releases: Mapping[int, tuple[NodeRelease, ...]], kafka: str = "3.6.2", controllers: int = 1) -> Manifest:
    return Manifest(
        run_id="r",
        kafka=kafka,
        topology=Topology(controllers=CONTROLLERS[:controllers], brokers=(1, 2)),
        releases={str(node): each for node, each in releases.items()},
    )


def state(offset: int) -> PartitionState:
    return PartitionState(
        metadata_offset=offset,
        at_ns=offset * S,
        topic="t",
        partition=0,
        leader=1,
        leader_epoch=0,
        partition_epoch=offset,
        replicas=(1, 2),
        isr=(1, 2),
    )


def level(offset: int, name: str, value: int) -> ConfigChange:
    return ConfigChange(
        metadata_offset=offset, at_ns=offset * S, resource=f"feature:{name}", name="level", value=str(value)
    )


TIMELINE = Timeline(
    partitions={("t", 0): tuple(state(offset) for offset in (10, 20, 30, 40))},
    brokers=(BrokerEvent(metadata_offset=15, at_ns=15 * S, broker=1, broker_epoch=15, event="registered"),),
    configs=(level(1, "metadata.version", 8), level(35, "metadata.version", 14)),
)
ALL_NODES = {
    100: ran(("3.6.2", 0), ("3.9.1", 22)),
    1: ran(("3.6.2", 0), ("3.9.1", 25)),
    2: ran(("3.6.2", 0), ("3.9.1", 33)),
}


def test_a_run_without_an_upgrade_has_one_release_everywhere() -> None:
    software = Software(manifest({}), TIMELINE)
    assert software.every_release == ("3.6.2",)
    assert software.release_of(1, 99 * S) == "3.6.2"
    assert software.controller_releases(40) == ("3.6.2",)
    assert not software.is_mixed(40 * S)


def test_a_record_was_written_by_the_release_that_the_controller_ran_then() -> None:
    software = Software(manifest(ALL_NODES), TIMELINE)
    assert [software.controller_releases(offset) for offset in (10, 20, 30)] == [("3.6.2",), ("3.6.2",), ("3.9.1",)]
    assert software.controller_releases(25) == ("3.9.1",), "the next record that has a time"
    assert software.controller_releases(99) == ("3.9.1",)


def test_of_several_controllers_each_may_have_written_a_record() -> None:
    mixed = {100: ran(("3.6.2", 0), ("3.9.1", 22)), 101: ran(("3.6.2", 0), ("3.9.1", 35)), 102: ran(("3.6.2", 0))}
    software = Software(manifest(mixed, controllers=3), TIMELINE)
    assert software.controller_releases(20) == ("3.6.2",)
    assert set(software.controller_releases(30)) == {"3.6.2", "3.9.1"}


def test_a_node_runs_a_release_from_its_start_on() -> None:
    software = Software(manifest(ALL_NODES), TIMELINE)
    assert [software.release_of(1, at * S) for at in (24, 25, 26)] == ["3.6.2", "3.9.1", "3.9.1"]
    assert [software.is_mixed(at * S) for at in (20, 24, 32, 33)] == [False, True, True, False]
    assert software.every_release == ("3.6.2", "3.9.1")


@pytest.mark.parametrize(("leader", "at_s", "waits"), [(1, 24, False), (1, 26, True), (2, 26, False), (2, 34, True)])
def test_the_hw_waits_for_min_isr_where_the_leader_runs_3_7_or_newer(leader: int, at_s: int, waits: bool) -> None:
    assert RulesInForce(manifest(ALL_NODES), TIMELINE).hw_waits_for_min_isr(leader, at_s * S) is waits


def test_kip_903_follows_metadata_version_and_not_the_new_software() -> None:
    rules = RulesInForce(manifest(ALL_NODES), TIMELINE)
    assert [rules.has_kip_903(offset) for offset in (20, 30, 40)] == [False, False, True]


def test_a_feature_that_was_raised_during_the_run_was_off_before() -> None:
    levels = (level(1, "metadata.version", 21), level(25, ELR_VERSION, 1))
    raised = Timeline(partitions=TIMELINE.partitions, configs=levels)
    at_the_end = msgspec.structs.replace(manifest({}, kafka="4.3.1"), features={"metadata.version": 30, ELR_VERSION: 1})
    rules = RulesInForce(at_the_end, raised)
    assert [rules.is_elr_on(offset) for offset in (20, 25, 30)] == [False, True, True]
    assert RulesInForce(at_the_end, msgspec.structs.replace(raised, gaps=True)).is_elr_on(20) is None
    never = Timeline(partitions=TIMELINE.partitions, configs=levels[:1])
    assert RulesInForce(at_the_end, never).is_elr_on(20) is True, "the log has no record: the manifest's level holds"


def test_the_controllers_release_decides_whether_the_config_of_unclean_elections_counts() -> None:
    enabled = ConfigChange(
        metadata_offset=2, at_ns=2 * S, resource="topic:t", name="unclean.leader.election.enable", value="true"
    )
    timeline = Timeline(partitions=TIMELINE.partitions, brokers=TIMELINE.brokers, configs=(enabled,))
    rules = RulesInForce(manifest(ALL_NODES), timeline)
    assert [rules.elects_uncleanly("t", offset, {}) for offset in (20, 30)] == [False, True]
    mixed = {100: ran(("3.6.2", 0), ("3.9.1", 22)), 101: ran(("3.6.2", 0))}
    two = RulesInForce(manifest(mixed, controllers=2), timeline)
    assert [two.elects_uncleanly("t", offset, {}) for offset in (20, 30)] == [False, None]


def test_an_unknown_release_leaves_its_rules_unknown() -> None:
    rules = RulesInForce(manifest({100: ran(("3.6.2", 0), ("trunk", 22)), 1: ran(("trunk", 0))}), TIMELINE)
    assert rules.newest_release is None
    assert rules.has_kip_903(20) is False
    assert rules.has_kip_903(40) is None
    assert rules.hw_waits_for_min_isr(1, 30 * S) is None


def test_the_newest_release_is_by_version_and_not_by_time() -> None:
    back = {1: ran(("3.9.1", 0), ("3.10.0", 5), ("3.9.1", 9))}
    assert str(RulesInForce(manifest(back, kafka="3.9.1"), TIMELINE).newest_release) == "3.10.0"
    assert manifest(back, kafka="3.9.1").release_path == ("3.9.1", "3.10.0")
    assert manifest({}).release_path == ("3.6.2",)
