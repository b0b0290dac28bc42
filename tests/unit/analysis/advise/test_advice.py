"""What is said about a cluster, from its snapshot alone."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import ELR, cluster, topic

from analysis.advise.advice import Advice, advise
from analysis.advise.advice_json import advice_output
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.assumption import parse_assumption
from analysis.advise.events import tolerance
from analysis.advise.groups import brokers_in_words
from analysis.advise.measured import range_of_losses
from analysis.advise.page import render_advice
from analysis.advise.release import release_of
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import SnapshotBroker, SnapshotTopic


def line(advised: AdvisedGroup, key: str) -> AdvisedLine:
    return next(one for one in advised.lines if one.today.event.key == key)


def all_says(advice: Advice, key: str) -> str:
    return line(advice.groups[0], key).today.acks_all.says


@pytest.fixture(scope="module")
def on_39() -> Advice:
    return advise(cluster("3.9", topic("orders", 3, 2)), assumed=parse_assumption(f"kafka=4.3.1,{ELR}=1"))


def test_without_the_elr_one_power_loss_at_the_worst_moment_loses(on_39: Advice) -> None:
    assert all_says(on_39, "power-1-worst") == "loses"
    assert all_says(on_39, "power-1") == "survives"


def test_with_the_elr_one_survives_and_two_lose(on_39: Advice) -> None:
    after = {one.today.event.key: one.after for one in on_39.groups[0].lines}
    assert [after[f"power-{count}-worst"].acks_all.says for count in (1, 2)] == ["survives", "loses"]  # type: ignore[union-attr]


def test_all_replicas_at_once_lose_and_one_after_the_other_survive(on_39: Advice) -> None:
    assert all_says(on_39, "power-3") == "loses"
    assert all_says(on_39, "power-in-turn") == "survives"
    assert all_says(on_39, "rolling-restart") == "survives"


def test_acks_1_loses_wherever_a_leader_goes(on_39: Advice) -> None:
    assert all(one.today.acks_1.says == "loses" for one in on_39.groups[0].lines)


def test_what_loses_most_comes_first(on_39: Advice) -> None:
    says = [one.today.acks_all.says for one in on_39.groups[0].lines if one.after is not None]
    first_survivor = next(
        at
        for at, one in enumerate(on_39.groups[0].lines)
        if {one.today.acks_all.says, one.after.acks_all.says} == {"survives"}  # type: ignore[union-attr]
    )
    assert "loses" not in says[first_survivor:]


def test_changes_are_those_that_the_model_confirms(on_39: Advice) -> None:
    changes = {one.assume: one.saves for one in on_39.groups[0].remedies}
    assert any("1 broker loses power, at the worst moment" in saves for saves in changes.values())
    assert "flush.messages=1" in changes
    assert not any(name.startswith("min.insync") for name in changes)


def test_runs_of_the_catalogue_stand_beside_the_model(on_39: Advice) -> None:
    measured = line(on_39.groups[0], "power-1-worst").measured
    assert measured
    assert (
        measured[0]
        == "last-replica-standing on 3.9.1 (docker and local): lost 2,000 with acks=all (last-replica-standing)"
    )


def test_what_was_measured_says_for_which_acks(on_39: Advice) -> None:
    (killed,) = (one for one in line(on_39.groups[0], "kill").measured if one.startswith("acks-matrix-kill"))
    assert killed.endswith("with acks=1 (uncommitted-at-failover), none with acks=all")
    assert line(on_39.groups[0], "kills-worst").measured == (
        "last-known-leader on 3.9.1 (docker and local): lost none with acks=1 or all",
    )


def test_an_uncommitted_loss_of_producers_with_acks_all_alone_names_their_acks() -> None:
    lost = {"3 uncommitted-at-failover"}
    assert range_of_losses(lost, frozenset({"all"})) == "3 with acks=all (uncommitted-at-failover)"
    assert range_of_losses({"5 unexplained"}, frozenset({"all"})) == "5 with acks=all (against the protocol)"
    assert "3 with acks=1 (" in range_of_losses(lost, frozenset({"1", "all"}))


def test_a_run_that_lost_nothing_counts_as_zero() -> None:
    lost = {"none", "3 uncommitted-at-failover", "1,172 uncommitted-at-failover, 5 unexplained"}
    assert range_of_losses(lost, frozenset({"0", "1"})) == (
        "0 to 1,172 with acks=1 (uncommitted-at-failover), 0 to 5 with acks=1 (against the protocol)"
    )
    assert range_of_losses({"none"}, frozenset({"0", "1"})) == "none with acks=1"


def test_no_loss_of_producers_with_acks_0_alone_is_counted() -> None:
    assert range_of_losses({"none"}, frozenset({"0"})) == "none that is counted (acks=0 only)"


def test_a_single_replica_survives_a_kill_and_no_power_loss() -> None:
    advice = advise(cluster("4.3", topic("logs", 1, 1), features={ELR: 1}))
    assert all_says(advice, "power-1") == "loses"
    assert all_says(advice, "kill") == "survives"
    assert line(advice.groups[0], "kill").today.acks_1.says == "survives"


def test_a_flushed_record_survives_the_loss_of_all_power() -> None:
    advice = advise(cluster("4.3", topic("logs", 1, 1, configs={"flush.messages": "1"}), features={ELR: 1}))
    assert all_says(advice, "power-1") == "survives"
    assert all_says(advice, "disk") == "loses"


def test_min_isr_above_rf_refuses_acks_all_before_37() -> None:
    advice = advise(cluster("3.6", topic("logs", 1, 2)))
    assert all_says(advice, "power-1") == "refused"
    assert advice.dangers[0].kind == "below-min-isr"
    assert "every record with acks=all is refused" in (advice.groups[0].min_isr_note or "")


def test_min_isr_above_rf_counts_as_rf_from_37_on() -> None:
    above, equal = (advise(cluster("3.7", topic("logs", 3, min_isr))) for min_isr in (4, 3))
    assert [one.today.acks_all for one in above.groups[0].lines] == [
        one.today.acks_all for one in equal.groups[0].lines
    ]
    assert above.dangers == ()
    assert "it counts as 3" in (above.groups[0].min_isr_note or "")
    assert "it counts as 3" in render_advice(above)
    assert equal.groups[0].min_isr_note is None


def test_a_partition_below_the_min_isr_that_counts_is_in_danger() -> None:
    advice = advise(cluster("4.3", topic("logs", 3, 9, partition={"isr": (1, 2)})))
    assert advice.dangers[0].kind == "below-min-isr"


def test_topics_that_are_alike_are_one_group() -> None:
    snapshot = cluster(
        "3.9", topic("a", 1, 1), topic("b", 1, 1), topic("c", 1, 1, configs={"cleanup.policy": "compact"})
    )
    groups = advise(snapshot).groups
    assert [one.group.topics for one in groups] == [("a", "b"), ("c",)]


def test_a_topic_without_its_own_min_isr_takes_the_weakest_of_the_brokers() -> None:
    bare = SnapshotTopic(name="bare", partitions=topic("x", 1, 1).partitions)
    snapshot = cluster("3.9", bare)
    brokers = tuple(
        SnapshotBroker(
            id=one.id,
            address=one.address,
            configs={"min.insync.replicas": str(one.id)},
            metadata_versions=one.metadata_versions,
        )
        for one in snapshot.brokers
    )
    advice = advise(cluster("3.9", bare, brokers=brokers))
    assert advice.groups[0].group.settings.min_isr == 1
    assert any("brokers differ in min.insync.replicas: 1, 2, 3" in note for note in advice.notes)


def test_the_worst_partitions_come_first() -> None:
    advice = advise(
        cluster(
            "4.3",
            topic("whole", 1, 1),
            topic("behind", 2, 1, partition={"isr": (1,)}),
            topic("refused", 2, 2, partition={"isr": (1,)}),
            topic("dead", 1, 1, partition={"leader": -1, "isr": (), "elr": (2,)}),
            topic("moving", 1, 1, partition={"replicas": (1, 2), "isr": (1, 2), "adding": (2,), "removing": (1,)}),
        )
    )
    assert [(one.kind, one.count) for one in advice.dangers] == [
        ("leaderless", 1),
        ("last-replica-below-min-isr", 1),
        ("last-replica", 1),
        ("reassigned", 1),
    ]
    assert advice.dangers[0].examples == ("dead-0 (on broker 1, ISR none, ELR broker 2)",)


def test_brokers_with_replicas_that_are_not_alive_are_named_and_count() -> None:
    alone = (SnapshotBroker(id=1, address="b:1", metadata_versions=(4, 21)),)
    advice = advise(cluster("3.9", topic("a", 2, 1), topic("b", 1, 1), brokers=alone))
    assert "broker 2 is not alive, but has replicas" in advice.notes
    more = advise(cluster("3.9", topic("a", 3, 1), brokers=alone))
    assert "brokers 2 and 3 are not alive, but have replicas" in more.notes
    assert {one.group.brokers for one in advice.groups} == {2}


def test_brokers_are_named_by_their_ids_however_many_there_are() -> None:
    named = {count: brokers_in_words(range(1, count + 1)) for count in (0, 1, 2, 7)}
    assert named == {
        0: "no brokers",
        1: "broker 1",
        2: "brokers 1 and 2",
        7: "brokers 1, 2, 3, 4, 5 and 2 more",
    }


def test_a_change_and_a_known_bug_have_a_price_under_one_name() -> None:
    output = msgspec.to_builtins(advice_output(advise(cluster("3.4", topic("one", 1, 1)))))
    changes = [change for group in output["groups"] for change in group["changes"]]
    assert changes
    assert output["known_bugs"]
    assert all(one["price"] for one in [*changes, *output["known_bugs"]])


def test_a_rack_counts_as_many_replicas_as_it_has() -> None:
    racks = [SnapshotBroker(id=one, address="b:1", rack="only", metadata_versions=(4, 21)) for one in (1, 2)]
    advice = advise(cluster("3.9", topic("a", 2, 1), brokers=tuple(racks)))
    assert line(advice.groups[0], "rack-power").today.event.count == 2
    assert all_says(advice, "rack-power") == "loses"


def test_without_racks_nothing_is_said_about_them() -> None:
    bare = tuple(SnapshotBroker(id=one, address="b:1", metadata_versions=(4, 21)) for one in (1, 2))
    advice = advise(cluster("3.9", topic("a", 2, 1), brokers=bare))
    assert all(one.today.event.key != "rack-power" for one in advice.groups[0].lines)
    assert any("racks" in note for note in advice.notes)


@pytest.mark.parametrize(
    ("minor", "kafka", "variant"),
    [
        ("3.4", "3.4.1", "kraft"),
        ("3.9", "3.9.1", "strict_min_isr_39"),
        ("4.1", "4.1.0", "elr_410"),
        ("4.3", "4.3.1", "elr_43"),
    ],
)
def test_the_release_follows_from_the_levels_that_brokers_support(minor: str, kafka: str, variant: str) -> None:
    found = release_of(cluster(minor))
    assert (found.kafka, found.variant) == (kafka, variant)


def test_patches_that_differ_are_noted() -> None:
    assert any("--assume kafka=4.1.2" in note for note in release_of(cluster("4.1")).notes)


def test_mixed_releases_count_as_the_oldest() -> None:
    old = SnapshotBroker(id=9, address="b9:9092", metadata_versions=(4, 21))
    found = release_of(cluster("4.3", brokers=(*cluster("4.3").brokers, old)))
    assert found.kafka == "3.9.1"
    assert "different releases (3.9, 4.3)" in found.notes[0]


def test_an_unknown_release_is_refused_unless_it_is_assumed() -> None:
    unknown = cluster("9.9", topic("a", 1, 1))
    with pytest.raises(UsageError, match="the release of the brokers is not known"):
        advise(unknown)
    assert advise(unknown, assumed=parse_assumption("kafka=4.3.1")).release.kafka == "4.3.1"


def test_a_metadata_version_below_kip_903_brings_its_bug_back() -> None:
    names = [one.name for one in advise(cluster("3.9", features={"metadata.version": 8})).defects]
    assert "KAFKA-14139" in names
    assert "KAFKA-14139" not in [one.name for one in advise(cluster("3.9")).defects]


def test_a_bug_that_a_patch_fixed_is_named_while_the_patch_is_unknown() -> None:
    unknown = [one.name for one in advise(cluster("3.9")).defects]
    named = [one.name for one in advise(cluster("9.9"), assumed=parse_assumption("kafka=3.9.1")).defects]
    assert "KAFKA-18991" in unknown
    assert "KAFKA-18991" not in named


def test_a_bug_that_the_model_does_not_have_is_a_loss_until_it_is_fixed() -> None:
    old, fixed = (advise(cluster(minor, topic("a", 2, 2), features={ELR: 1})) for minor in ("4.0", "4.3"))
    assert (all_says(old, "disk-worst"), all_says(fixed, "disk-worst")) == ("loses", "survives")
    assert "20716" in line(old.groups[0], "disk-worst").today.acks_all.within


def test_an_upgrade_alone_leaves_the_elr_off() -> None:
    advice = advise(cluster("3.9", topic("a", 1, 1)), assumed=parse_assumption("kafka=4.3.1"))
    assert advice.after is not None
    assert not advice.after.is_elr_on
    assert any("metadata.version 21 (3.9-IV0), and the ELR is off; an upgrade alone" in note for note in advice.notes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kafka", "not NAME=VALUE"),
        ("kafk=4.3.1", "did you mean"),
        ("enable.idempotence=true", "enable.idempotence is a setting of producers, and not of the cluster"),
        ("compression.type=zstd", "nothing that can be assumed"),
        ("kafka=9.9.9", "does not know"),
        ("kafka=4", "not a Kafka release"),
        ("min.insync.replicas=0", "out of range"),
        ("unclean.leader.election.enable=1", "true or false"),
        ("replication.factor=99", "out of range"),
    ],
)
def test_an_assumption_that_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_assumption(text)


def test_a_downgrade_below_the_metadata_version_is_refused() -> None:
    with pytest.raises(UsageError, match="no downgrade to this release is possible") as refused:
        advise(cluster("4.3", topic("a", 1, 1)), assumed=parse_assumption("kafka=3.9.1"))
    assert refused.value.got == "kafka=3.9.1, which knows metadata.version up to 21; the cluster has 30"
    assert (refused.value.allowed or "").startswith("kafka=4.3")
    advice = advise(cluster("4.3", topic("a", 1, 1)), assumed=parse_assumption("kafka=3.9.1,metadata.version=21"))
    assert list(advice.prices) == ["kafka=3.9.1", "metadata.version=21"]
    assumed = cluster("4.3", topic("a", 1, 1), unsaid=("metadata.version",), kafka="4.3.1", features={})
    with pytest.raises(UsageError, match="no downgrade to this release is possible") as refused:
        advise(assumed, assumed=parse_assumption("kafka=3.9.1"))
    assert "no file says the cluster's, and 30 is assumed" in (refused.value.got or "")
    typed = (refused.value.next or "").split()[1]
    assert typed == "kafka=3.9.1,metadata.version=21"
    assert list(advise(assumed, assumed=parse_assumption(typed)).prices) == ["kafka=3.9.1"]
    low = cluster("4.3", topic("a", 1, 1), features={"metadata.version": 21})
    assert advise(low, assumed=parse_assumption("kafka=3.9.1")).after is not None


def test_the_elr_cannot_be_assumed_on_a_release_without_it() -> None:
    with pytest.raises(UsageError, match="this release has no ELR"):
        advise(cluster("3.9", topic("a", 1, 1)), assumed=parse_assumption(f"{ELR}=1"))


def test_a_pattern_that_no_topic_fits_is_refused_with_some_names() -> None:
    with pytest.raises(UsageError, match="such as orders"):
        advise(cluster("3.9", topic("orders", 1, 1)), pattern="payments*")
    with pytest.raises(UsageError, match="no topic is visible") as refused:
        advise(cluster("3.9"), pattern="payments*")
    assert "such as" not in str(refused.value)


def test_rf_beyond_the_explorer_is_unknown() -> None:
    advice = advise(cluster("3.9", topic("wide", 8, 4)))
    assert {one.today.acks_all.says for one in advice.groups[0].lines} == {"unknown"}


def test_a_search_that_a_limit_ends_is_unknown() -> None:
    advice = advise(cluster("3.9", topic("orders", 3, 2)), states_max=50)
    assert all_says(advice, "kills-worst") == "unknown"


def test_the_search_for_the_tolerance_finds_the_border_from_any_hint() -> None:
    for border in range(6):
        for hint in range(8):
            found = tolerance(1, 5, lambda count, border=border: count > border, hint)
            assert found == (border or None, border + 1 if border < 5 else None)


def test_the_search_for_the_tolerance_ends_where_nothing_is_known() -> None:
    assert tolerance(1, 5, lambda count: None if count > 2 else False, 1) == (2, None)


def test_json_and_page_have_every_line(on_39: Advice) -> None:
    plain = msgspec.to_builtins(advice_output(on_39))
    (group,) = plain["groups"]
    assert [one["key"] for one in group["lines"]] == [one.today.event.key for one in on_39.groups[0].lines]
    assert group["lines"][0]["acks"]["all"]["says"] == "loses"
    page = render_advice(on_39)
    assert page.count("<tr>") == len(on_39.groups[0].lines) + 1
    assert "<script" not in page


def test_a_name_that_is_html_stays_text() -> None:
    note = "<script>alert(1)</script>"
    assert note not in render_advice(advise(cluster("3.9", topic("a", 1, 1), notes=(note,))))
