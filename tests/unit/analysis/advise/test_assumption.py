"""What may be assumed: what Kafka refuses is an error, and what is so today is said."""

from __future__ import annotations

import pytest
from made_snapshots import ELR, brokers, cluster, topic

from analysis.advise.advice import Advice, advise
from analysis.advise.advice_json import advice_output
from analysis.advise.assumption import parse_assumption
from analysis.advise.headline import headline
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot

ON_43 = cluster("4.3", topic("orders", 3, 2), features={ELR: 1})


def assumed(text: str, snapshot: ClusterSnapshot = ON_43) -> Advice:
    return advise(snapshot, assumed=parse_assumption(text))


def test_more_replicas_than_brokers_are_refused_as_kafka_refuses_them() -> None:
    with pytest.raises(UsageError, match="Kafka refuses more replicas than the cluster has brokers") as refused:
        assumed("replication.factor=5")
    assert refused.value.got == "replication.factor=5 with brokers 1, 2 and 3"
    assert refused.value.allowed == "1 to 3"
    assert (refused.value.next or "").startswith("--assume replication.factor=3 ")


def test_a_broker_that_is_not_alive_may_have_a_replica() -> None:
    snapshot = cluster("3.9", topic("orders", 3, 2), topic("logs", 1, 1), brokers=brokers(2, 21))
    after = assumed("replication.factor=3", snapshot).groups[0].after
    assert after is not None
    assert after.settings.rf == 3


def test_a_snapshot_without_brokers_does_not_say_how_many_there_are() -> None:
    assert assumed("kafka=4.3.1,replication.factor=2", cluster("3.9", brokers=())).groups == ()


@pytest.mark.parametrize(("text", "level"), [("21", 21), ("3.9-IV0", 21), ("4.3-IV0", 30)])
def test_a_metadata_version_is_a_level_or_its_name(text: str, level: int) -> None:
    assert parse_assumption(f"metadata.version={text}").in_words() == f"metadata.version={level}"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("3.9", "21, or its name such as 3.9-IV0"),
        ("4.0.1", "25, or its name such as 4.0-IV3"),
        ("4.0-IV9", "25, or its name such as 4.0-IV3"),
        ("latest", "21, or its name such as 3.9-IV0"),
        ("0", "21, or its name such as 3.9-IV0"),
    ],
)
def test_another_spelling_of_a_metadata_version_is_refused_with_both(text: str, allowed: str) -> None:
    with pytest.raises(UsageError, match=r"not a level of metadata\.version") as refused:
        parse_assumption(f"metadata.version={text}")
    assert refused.value.got == f"metadata.version={text}"
    assert (refused.value.allowed or "").endswith(allowed)
    assert (refused.value.next or "").startswith(f"--assume metadata.version={allowed.partition(',')[0]} ")


def test_a_level_that_the_release_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match=r"this release does not know this metadata\.version") as refused:
        assumed("metadata.version=25", cluster("3.9", topic("orders", 3, 2)))
    assert refused.value.got == "metadata.version 25 (4.0-IV3) with Kafka 3.9.1"
    assert refused.value.next == "--assume metadata.version=21"
    assert assumed("metadata.version=25,kafka=4.0.2", cluster("3.9", topic("orders", 3, 2))).after is not None


def test_the_elr_with_an_older_metadata_version_is_refused() -> None:
    with pytest.raises(UsageError, match="Kafka turns the ELR on only") as refused:
        assumed(f"{ELR}=1,metadata.version=22")
    assert (refused.value.allowed or "").startswith("metadata.version 23")


@pytest.mark.parametrize("level", [22, 20])
def test_an_older_metadata_version_is_refused_while_the_cluster_has_the_elr_on(level: int) -> None:
    with pytest.raises(UsageError, match="the cluster has the ELR on, which needs a later") as refused:
        assumed(f"metadata.version={level},flush.messages=1")
    assert (refused.value.allowed or "").startswith("metadata.version 23")
    assert (refused.value.next or "").startswith(f"--assume {ELR}=0,metadata.version={level},flush.messages=1 ")
    off = assumed(f"{ELR}=0,metadata.version={level}")
    assert off.after is not None
    assert not off.after.is_elr_on
    assert not any("an upgrade alone" in note for note in off.notes)


def test_an_upgrade_alone_says_that_the_elr_stays_off() -> None:
    upgraded = assumed("kafka=4.3.1", cluster("3.9", topic("orders", 3, 2)))
    assert any("an upgrade alone does not turn it on" in note for note in upgraded.notes)


def test_values_of_today_change_nothing_and_the_advice_says_so() -> None:
    same = assumed(f"min.insync.replicas=2,kafka=4.3.1,{ELR}=1,metadata.version=30")
    assert same.changes_nothing
    assert headline(same).more[-1].startswith("Nothing changes: the advice for today has min.insync.replicas=2,kafka=4")
    assert not any("change nothing" in note for note in same.notes)
    (group,) = same.groups
    assert [line.today.acks_all for line in group.lines] == [line.after.acks_all for line in group.lines if line.after]


def test_a_value_of_today_beside_a_change_is_named() -> None:
    some = assumed("min.insync.replicas=2,flush.messages=1")
    assert not some.changes_nothing
    assert advice_output(some).assumed_unchanged == ("min.insync.replicas=2",)
    assert any("these change nothing: min.insync.replicas=2;" in note for note in some.notes)
    assert not any("Nothing changes" in one for one in headline(some).more)


def test_no_elr_on_a_release_without_it_is_a_value_of_today() -> None:
    before = cluster("3.9", topic("orders", 3, 2))
    assert assumed(f"{ELR}=0", before).changes_nothing
    assert assumed(f"{ELR}=0,flush.messages=1", before).unchanged == (f"{ELR}=0",)
    assert not assumed(f"{ELR}=0").unchanged


def test_a_release_that_the_cluster_does_not_say_is_no_change() -> None:
    unknown = cluster("9.9", topic("orders", 3, 2), topic("logs", 3, 1))
    some = assumed("kafka=4.3.1,min.insync.replicas=2", unknown)
    assert (some.unchanged, some.changes_nothing) == ((), False)
    assert not any("change nothing" in note for note in some.notes)
    same = assumed("kafka=4.3.1,min.insync.replicas=2", cluster("9.9", topic("orders", 3, 2)))
    assert same.unchanged == ("min.insync.replicas=2",)
    assert headline(same).more[-1].startswith("Nothing changes: the advice for today has min.insync.replicas=2, and")


def test_what_only_some_topics_have_today_is_a_change() -> None:
    two = cluster("4.3", topic("orders", 3, 2), topic("logs", 3, 1))
    assert not assumed("min.insync.replicas=2", two).changes_nothing
    assert not assumed("min.insync.replicas=2", cluster("4.3")).changes_nothing


def test_a_patch_with_other_rules_is_a_change() -> None:
    first = cluster("4.1", topic("orders", 3, 2), features={ELR: 1})
    assert not assumed("kafka=4.1.2", first).changes_nothing
