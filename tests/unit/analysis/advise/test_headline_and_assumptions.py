"""What is said first about a cluster, also beside an assumption, and what may be assumed."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import ELR, NEWEST, brokers, cluster, topic, without_answers
from markupsafe import escape

from analysis.advise.advice import Advice, advise
from analysis.advise.advice_json import advice_output
from analysis.advise.assumption import parse_assumption
from analysis.advise.headline import MARK_MEANS, headline
from analysis.advise.page import render_advice
from ebbtide.errors import UsageError
from ebbtide.snapshot.model import ClusterSnapshot
from harness.cli.advise_table import print_advice


@pytest.fixture(scope="module")
def changed() -> Advice:
    return advise(
        cluster("3.9", topic("orders", 3, 2), topic("logs", 1, 1)), assumed=parse_assumption(f"kafka=4.3.1,{ELR}=1")
    )


def test_danger_comes_before_losses() -> None:
    single = advise(cluster("4.3", topic("logs", 3, 2, partition={"isr": (1, 2)})))
    assert "<h1>1 partition in danger when the cluster was read</h1>" in render_advice(single)


def test_a_cluster_without_danger_is_never_called_safe(capsys: pytest.CaptureFixture[str]) -> None:
    losing = cluster("3.9", topic("orders", 3, 2))
    for snapshot, says in (
        (losing, "1 of 1 topic can lose records acked with acks=all by one rare event: all 3 brokers lose power"),
        (cluster("3.9", topic("wide", 8, 4)), "No event is known to lose records with acks=all, but "),
        (msgspec.structs.replace(losing, topics=()), "No topic is visible"),
    ):
        advice = advise(snapshot)
        print_advice(advice)
        first = headline(advice)
        assert says in first.text
        for shown in (" ".join(capsys.readouterr().out.split()), render_advice(advice)):
            assert all(one in shown for one in (first.text, *first.more))
            assert "in danger" not in shown


def test_an_assumption_does_not_change_how_many_topics_lose_today(changed: Advice) -> None:
    today = headline(advise(changed.snapshot))
    assert today.text == headline(changed).text
    assert today.text == (
        "1 of 2 topics can lose records acked with acks=all by one common event: 1 broker loses power, in sync"
    )
    rarer = "By one rare event: 2 of 2, such as a broker dies, and returns with an empty disk, at the worst moment."
    assert today.more == ("When it was read, each partition had a leader, and all replicas in the ISR.", rarer)


def test_the_count_is_that_of_the_lines_without_a_mark(changed: Advice, capsys: pytest.CaptureFixture[str]) -> None:
    print_advice(changed)
    shown = capsys.readouterr().out.splitlines()
    rows = [line for line in shown if line.endswith(("/loses", "/survives"))]
    counted = [row for row in rows if row.split()[-2] == "loses" and " * " not in row]
    assert len(counted) == 8
    assert len([row for row in rows if " * " in row]) == 5
    assert "2 brokers lose power together *</td>" in render_advice(changed)
    assert f"*: {MARK_MEANS}" in shown
    assert f"<dt><b>*</b></dt><dd>{escape(MARK_MEANS)}</dd>" in render_advice(changed)
    (_, orders) = advice_output(changed).groups
    assert next(one.key for one in orders.lines if one.only_for_after) == "power-2-worst"


def test_a_mark_without_a_line_is_not_explained(changed: Advice, capsys: pytest.CaptureFixture[str]) -> None:
    today = advise(changed.snapshot)
    print_advice(today)
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("*")]
    assert "<dt><b>*</b></dt>" not in render_advice(today)


def test_answers_that_the_change_takes_away_are_counted() -> None:
    snapshot = cluster("3.9", topic("orders", 3, 2), brokers=brokers(5, 21))
    wider = advise(snapshot, assumed=parse_assumption("replication.factor=5"), states_max=1000)
    says = [
        (line.today.acks_all.says, line.after.acks_all.says) for line in wider.groups[0].lines if line.after is not None
    ]
    assert sum(today != "unknown" and after == "unknown" for today, after in says) == 5
    assert "For 5 events that the model answers today, it has no answer after the change." in headline(wider).more


def test_the_change_is_summed_up_for_the_same_events(changed: Advice) -> None:
    assert headline(changed).more[2:] == (
        "Of the events that lose records today, the change saves 2 of 8.",
        "Of the events that lose none today, the change makes 2 lose records.",
    )


def test_a_broker_without_an_answer_stands_in_the_headline(capsys: pytest.CaptureFixture[str]) -> None:
    for snapshot, says in (
        (
            cluster("3.9", topic("orders", 3, 2)),
            "1 of 1 topic can lose records acked with acks=all by one rare event: all 3 brokers lose power together, "
            "in sync",
        ),
        (
            cluster("4.3", topic("a", 3, 2, partition={"isr": (1, 2)})),
            "1 partition in danger when the cluster was read",
        ),
        (cluster("3.9"), "No topic is visible"),
    ):
        advice = advise(without_answers(snapshot, 2))
        print_advice(advice)
        first = headline(advice)
        assert first.text == f"{says}; broker 2 could not be asked"
        shown = capsys.readouterr().out
        assert first.text in " ".join(shown.split())
        assert "more events lose records" in " ".join(shown.split())
        assert advice_output(advice).headline == first.text
        assert advice_output(advice).brokers_not_asked == (2,)


def test_no_answer_is_a_good_one_while_a_broker_was_not_asked() -> None:
    snapshot = cluster("4.3", topic("safe", 3, 2))
    advice = advise(snapshot)
    lines = tuple(one for one in advice.groups[0].lines if one.today.acks_all.says == "survives")
    good = msgspec.structs.replace(advice, groups=(msgspec.structs.replace(advice.groups[0], lines=lines),))
    assert headline(good).look == "as-predicted"
    silent = msgspec.structs.replace(good, snapshot=without_answers(snapshot, 1, 3))
    assert headline(silent).look == "inconclusive"
    assert headline(silent).text.endswith("; brokers 1 and 3 could not be asked")


def test_where_no_broker_was_asked_the_headline_names_no_others() -> None:
    snapshot = cluster("3.9", topic("orders", 3, 2), metadata_versions=(4, 21))
    first = headline(advise(without_answers(snapshot, 1, 2, 3)))
    assert first.text.endswith("; brokers 1, 2 and 3 could not be asked")
    assert first.more[-1].endswith("If they are weaker than what the advice takes, more events lose records.")


def test_many_brokers_without_an_answer_are_counted() -> None:
    many = cluster("3.9", topic("orders", 3, 2), brokers=brokers(9, 21))
    assert (
        "; brokers 1, 2, 3, 4, 5 and 3 more could not be asked"
        in headline(advise(without_answers(many, *range(1, 9)))).text
    )


def test_another_part_that_could_not_be_read_stands_in_the_headline() -> None:
    note = "reassignments under way are unknown: the right is missing (DESCRIBE on the cluster)"
    first = headline(advise(cluster("3.9", topic("orders", 3, 2), notes=(note,))))
    assert first.text.endswith("; reassignments under way are unknown")
    assert not any("configs" in one for one in first.more)


def test_a_long_note_is_cut_in_the_headline() -> None:
    note = f"the topics {', '.join(f'orders-{one}' for one in range(50))} could not be read"
    first = headline(advise(cluster("3.9", topic("orders", 3, 2), notes=(note,))))
    clause = first.text.rpartition("; ")[2]
    assert clause.startswith("the topics orders-0, ")
    assert clause.endswith("...")
    assert len(clause) <= 80


# An event says the numbers of brokers of the topics that it is about, before and after another RF.


@pytest.fixture(scope="module")
def raised() -> Advice:
    five = brokers(5, NEWEST["3.9"])
    snapshot = cluster("3.9", topic("orders", 3, 2), brokers=five)
    return advise(snapshot, assumed=parse_assumption("replication.factor=5"))


def test_no_event_of_today_takes_down_more_brokers_than_there_are_replicas(raised: Advice) -> None:
    (group,) = raised.groups
    assert max(line.today.event.count for line in group.lines) == 3
    assert not any("5" in line.today.event.what for line in group.lines)


def test_a_line_says_both_numbers_where_they_differ(raised: Advice) -> None:
    shown = {line.key: line.what for line in raised.groups[0].lines}
    assert shown["power-5"] == "all 3 brokers lose power together; after the change: all 5 brokers lose power together"
    assert shown["power-3"] == "all 3 brokers lose power together; after the change: 3 brokers lose power together"
    assert (
        shown["kills-worst"]
        == "any number of broker processes are killed; after the change: a broker process is killed"
    )
    assert shown["rolling-restart"] == "a clean rolling restart"
    assert f"{shown['power-5']} *</td>" in render_advice(raised)
    assert {one.key: one.what for one in advice_output(raised).groups[0].lines} == shown


def test_a_change_to_more_replicas_names_their_number() -> None:
    two = advise(cluster("4.3", topic("logs", 2, 1)))
    saves = next(one.saves for one in two.groups[0].remedies if one.assume.startswith("replication.factor=3"))
    assert "2 brokers lose power together, in sync" in saves
    assert not any(one.startswith("all 2") for one in saves)


def test_an_event_that_needs_a_broker_without_a_replica_has_no_answer_where_there_is_none() -> None:
    snapshot = cluster("4.3", topic("orders", 2, 1), brokers=brokers(3, NEWEST["4.3"]))
    advice = advise(snapshot, assumed=parse_assumption("replication.factor=3,min.insync.replicas=2"))
    moves = next(line for line in advice.groups[0].lines if line.key == "moves-worst")
    assert moves.today.acks_all.says != "unknown"
    assert moves.after is not None
    assert moves.after.acks_all.says == "unknown"
    assert "needs a broker without a replica" in moves.after.acks_all.within


# What may be assumed: what Kafka refuses is an error, and what is so today is said.


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


@pytest.mark.parametrize(("text", "release"), [("3.9", "3.9.2"), ("4.4", "4.4.0"), ("4.1.1", "4.1.1")])
def test_a_minor_release_is_its_newest_patch(text: str, release: str) -> None:
    assert parse_assumption(f"kafka={text}").values == {"kafka": release}


def test_a_minor_release_that_the_specification_does_not_know_is_refused_with_both_forms() -> None:
    with pytest.raises(UsageError) as refused:
        parse_assumption("kafka=4.7")
    assert refused.value.allowed == "3.3 to 4.4, such as 4.3 for its newest patch, or 4.3.1"


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
    assert (refused.value.next or "").startswith(f"--assume metadata.version={level},flush.messages=1,{ELR}=0 ")
    off = assumed(f"{ELR}=0,metadata.version={level}")
    assert off.after is not None
    assert not off.after.is_elr_on
    assert not any("an upgrade alone" in note for note in off.notes)


def test_an_upgrade_alone_says_that_the_elr_stays_off() -> None:
    upgraded = assumed("kafka=4.3.1", cluster("3.9", topic("orders", 3, 2)))
    assert any("an upgrade alone changes neither" in note for note in upgraded.notes[: upgraded.doubts])


def test_values_of_today_change_nothing_and_the_advice_says_so() -> None:
    same = assumed(f"min.insync.replicas=2,kafka=4.3.1,{ELR}=1,metadata.version=30")
    assert same.changes_nothing
    assert headline(same).more[-1].startswith("Nothing changes: the cluster has min.insync.replicas=2,kafka=4")
    assert not any("change nothing" in note for note in same.notes)
    (group,) = same.groups
    assert [line.today.acks_all for line in group.lines] == [line.after.acks_all for line in group.lines if line.after]


def test_a_value_of_today_beside_a_change_is_named() -> None:
    some = assumed("min.insync.replicas=2,flush.messages=1")
    assert not some.changes_nothing
    assert advice_output(some).assumed_unchanged == ("min.insync.replicas=2",)
    assert any("they change nothing: min.insync.replicas=2" in note for note in some.notes)
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
    assert headline(same).more[-1].startswith("Nothing changes: the cluster has min.insync.replicas=2 today, so")


def test_what_only_some_topics_have_today_is_a_change() -> None:
    two = cluster("4.3", topic("orders", 3, 2), topic("logs", 3, 1))
    assert not assumed("min.insync.replicas=2", two).changes_nothing
    assert not assumed("min.insync.replicas=2", cluster("4.3")).changes_nothing


def test_a_patch_with_other_rules_is_a_change() -> None:
    first = cluster("4.1", topic("orders", 3, 2), features={ELR: 1})
    assert not assumed("kafka=4.1.2", first).changes_nothing
