"""May a broker be taken down now? The answer is for each partition as it stands, and one thing more may go wrong."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import ELR, brokers, cluster, topic

from analysis.advise.danger import last_holders
from analysis.advise.down import ONE_MORE, DownAnswer, ask_down, controllers_note, parse_down
from analysis.advise.release import release_of
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot

POWER, DISK = ONE_MORE.values()
BEHIND = {"isr": (1, 2)}


def down(snapshot: ClusterSnapshot, named: str) -> DownAnswer:
    return ask_down(snapshot, release_of(snapshot), parse_down(named, snapshot))


def on(minor: str, rf: int, min_isr: int, **more: object) -> ClusterSnapshot:
    features = {ELR: 1} if minor in ("4.1", "4.3") else None
    return cluster(minor, topic("a", rf, min_isr, **more), features=features)


@pytest.mark.parametrize("minor", ["3.9", "4.3"])
def test_one_broker_of_a_whole_partition_may_go(minor: str) -> None:
    answer = down(on(minor, 3, 2), "1")
    assert (answer.says, answer.partitions, answer.at_risk) == ("safe", 1, {})


def test_below_min_isr_acks_stop_and_without_the_elr_a_power_loss_takes_records() -> None:
    answer = down(on("3.9", 3, 2, partition=BEHIND), "1")
    assert answer.says == "not safe"
    assert answer.refused == ("a-0",)
    assert answer.at_risk == {POWER: ("a-0",), DISK: ("a-0",)}


def test_with_the_elr_acks_stop_and_nothing_is_at_risk() -> None:
    answer = down(on("4.3", 3, 2, partition={**BEHIND, "elr": (3,)}), "1")
    assert (answer.refused, answer.at_risk) == (("a-0",), {})


def test_a_new_disk_empties_the_elr_where_the_bug_is() -> None:
    assert down(on("4.1", 3, 2), "1,2").at_risk == {DISK: ("a-0",)}
    assert down(on("4.3", 3, 2), "1,2").at_risk == {}


@pytest.mark.parametrize(
    ("features", "leaderless", "not_to_be_stopped"), [({ELR: 1}, (), []), ({ELR: 0}, ("a-0",), [1])]
)
def test_only_an_elr_that_is_on_has_the_next_leader(
    features: dict[str, int], leaderless: tuple[str, ...], not_to_be_stopped: list[int]
) -> None:
    partition = {"isr": (1,), "elr": (2,)}
    snapshot = cluster("4.3", topic("a", 3, 2, partition=partition), features=features)
    assert down(snapshot, "1").leaderless == leaderless
    assert [one.broker for one in last_holders(snapshot, release_of(snapshot))] == not_to_be_stopped


def test_a_replica_that_is_out_of_the_isr_may_go() -> None:
    assert down(on("3.9", 3, 2, partition=BEHIND), "3").says == "safe"


def test_a_min_isr_of_one_goes_on_acking_what_one_power_loss_takes() -> None:
    answer = down(on("3.9", 2, 1), "2")
    assert (answer.refused, answer.at_risk) == ((), {POWER: ("a-0",), DISK: ("a-0",)})


def test_a_flushed_record_is_not_at_risk_by_a_power_loss() -> None:
    flushed = on("3.9", 2, 1, configs={"flush.messages": "1"})
    assert POWER not in down(flushed, "2").at_risk


def test_the_last_replica_takes_the_leader_along() -> None:
    answer = down(on("3.9", 1, 1), "1")
    assert (answer.says, answer.leaderless, answer.already) == ("not safe", ("a-0",), ())


def test_what_one_replica_loses_is_not_listed_where_it_does_not_lead_either() -> None:
    eligible = {"leader": -1, "isr": (), "elr": (1,)}
    answer = down(cluster("4.3", topic("a", 1, 1, partition=eligible), features={ELR: 1}), "1")
    assert (answer.says, answer.at_risk, answer.already) == ("safe", {}, ("a-0",))


def test_no_other_broker_can_fail_where_all_are_down() -> None:
    assert down(on("3.9", 3, 2), "1,2,3").at_risk == {}


def test_a_partition_without_a_replica_there_is_not_asked_about() -> None:
    assert down(cluster("3.9", topic("a", 2, 1)), "3").partitions == 0


def test_what_is_so_already_does_not_make_it_unsafe() -> None:
    refused = on("3.9", 3, 2, partition={"isr": (1,)})
    answer = down(refused, "3")
    assert (answer.says, answer.already) == ("safe", ("a-0",))
    assert down(refused, "1").leaderless == ("a-0",)


def test_what_is_not_searched_is_unknown_and_never_safe() -> None:
    moving = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "adding": (3,), "removing": (1,)}
    assert down(on("3.9", 3, 2, partition=moving), "1").unknown == {"being reassigned": ("a-0",)}
    silent = on("4.3", 3, 2, partition={**BEHIND, "elr": None})
    answer = down(silent, "3")
    assert (answer.says, list(answer.unknown)) == ("unknown", ["the brokers did not say who is in the ELR"])


def test_an_answer_without_all_states_is_unknown() -> None:
    snapshot = on("3.9", 3, 2)
    answer = ask_down(snapshot, release_of(snapshot), (1,), states_max=5)
    assert answer.says == "unknown"


def test_controllers_among_them_need_a_majority() -> None:
    combined = cluster("3.9", topic("a", 3, 1), controllers=(1, 2, 3))
    assert down(combined, "1").quorum == (
        "broker 1 is a controller, too; 2 of 3 controllers are left, enough if all of them run"
    )
    both = down(combined, "1,2")
    assert both.quorum is not None
    assert both.quorum.endswith("1 of 3 controllers is left: no leader is elected, and no metadata changes")
    alone = down(cluster("3.9", topic("a", 3, 1), controllers=(1,)), "1").quorum
    assert alone is not None
    assert "; no controller is left: no leader" in alone
    apart = cluster("3.9", topic("a", 3, 2), controllers=(101, 102, 103))
    assert down(apart, "1").quorum is None


def test_controllers_that_nobody_named_may_be_among_them() -> None:
    answer = down(cluster("3.9", topic("a", 3, 1), controllers=None), "3")
    assert answer.says == "unknown"
    assert answer.quorum is not None
    assert answer.quorum.startswith("nobody named the controllers, so their majority is unknown; the right DESCRIBE")
    assert down(cluster("3.9", topic("a", 3, 1), controllers=()), "3").says == "safe"


def test_what_the_controllers_can_bear_is_noted() -> None:
    three = controllers_note(cluster("3.9", controllers=(1, 2, 3)))
    assert three.startswith("3 controllers, each also a broker: 1 may be down; one may return empty while the others")
    assert three.endswith("2 that return empty may elect each other, and all topics are gone")
    assert controllers_note(cluster("3.9", controllers=(100,))) == (
        "1 controller: none may be down; if it returns empty, all topics are gone"
    )
    assert (
        controllers_note(cluster("3.9", controllers=None))
        == "nobody named the controllers, so nothing is said about them"
    )


def test_a_rack_stands_for_its_brokers() -> None:
    assert parse_down("rack=r1, 3", cluster("3.9", topic("a", 3, 2), brokers=brokers(5, 21))) == (1, 3, 4)


@pytest.mark.parametrize("named", ["9", "rack=nowhere", "", "1;2", "-1", "one"])
def test_a_broker_that_the_cluster_has_not_is_an_error(named: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_down(named, cluster("3.9", topic("a", 3, 2)))
    assert (
        "allowed: brokers 1, 2 and 3, or a name such as b1:9092, or rack=NAME with r0, r1, r2" in refused.value.render()
    )


@pytest.mark.parametrize("named", ["b2", "b2:9092", "2"])
def test_a_broker_may_be_named_by_its_address_or_host(named: str) -> None:
    assert parse_down(f"1, {named}", on("3.9", 3, 2)) == (1, 2)


def test_an_empty_name_and_a_host_of_several_brokers_name_none() -> None:
    local = tuple(msgspec.structs.replace(one, address=f"local:{one.id}") for one in brokers(3, 21))
    for named in ("", "local"):
        with pytest.raises(UsageError, match="no broker of this cluster"):
            parse_down(named, cluster("3.9", topic("a", 3, 2), brokers=local))
    assert parse_down("local:3", cluster("3.9", topic("a", 3, 2), brokers=local)) == (3,)
