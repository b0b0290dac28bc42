"""The advice on one screen: 80 columns, 60 lines, the worst first, and nothing that contradicts itself."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import brokers, cluster, topic

from analysis.advise.advice import Advice, advise
from ebbtide.snapshot.model import SnapshotTopic
from ebbtide.snapshot.planned import NEXT_TOPIC
from harness.cli.advise_screen import LINES_MAX, print_screen

UNCLEAN = "unclean.leader.election.enable"


def screen_of(advice: Advice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    print_screen(advice)
    return capsys.readouterr().out.splitlines()


def eleven() -> tuple[SnapshotTopic, ...]:
    compact, flushed = {"cleanup.policy": "compact"}, {"flush.messages": "1"}
    return (
        *(topic(name, 3, 2) for name in ("orders", "payments")),
        *(topic(name, 3, 2, configs=compact) for name in ("state", "__consumer_offsets")),
        topic("ledger", 3, 2, configs=flushed),
        topic("clicks", 3, 1, configs={UNCLEAN: "true"}),
        topic("events", 3, 1),
        topic("audit", 3, 3),
        topic("metrics", 2, 1),
        topic("cache", 2, 2),
        topic("logs", 1, 1),
    )


def test_eleven_topics_fit_one_screen_and_each_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = advise(cluster("3.9", *eleven(), brokers=brokers(5, 21)))
    lines = screen_of(advice, monkeypatch, capsys)
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert text.startswith("2 of 11 topics can lose records acked with acks=all by one common event: ")
    assert all(one.name in text for one in eleven())
    assert [line[0] for line in lines if line[:2] in ("1.", "2.", "3.", "4.")] == ["1", "2", "3"]


def test_the_likeliest_loss_of_the_worst_topic_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = screen_of(advise(cluster("3.9", topic("orders", 3, 2), topic("logs", 1, 1))), monkeypatch, capsys)
    at = lines.index("RF 1, min ISR 1: logs")
    assert lines[at + 1] == "  loses: 1 broker loses power, in sync (common)"
    assert at < lines.index("RF 3, min ISR 2: orders")


def test_more_groups_than_fit_are_counted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (group,) = advise(cluster("3.9", topic("orders", 3, 2))).groups
    advice = msgspec.structs.replace(advise(cluster("3.9", topic("orders", 3, 2))), groups=(group,) * 90)
    lines = screen_of(advice, monkeypatch, capsys)
    assert len(lines) <= LINES_MAX
    named = sum(line.startswith("RF ") for line in lines)
    assert any(line.startswith(f"and {90 - named} topics that lose less, or rarer: orders, ") for line in lines)


def test_what_a_change_makes_of_a_loss_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from analysis.advise.assumption import parse_assumption

    advice = advise(cluster("3.9", topic("logs", 1, 1)), assumed=parse_assumption("flush.messages=1"))
    lines = screen_of(advice, monkeypatch, capsys)
    assert "  today     after     event" in lines
    assert "  loses     survives  1 broker loses power, in sync (common)" in lines
    assert not any(line.startswith("What to change") for line in lines)


def test_numbers_agree_with_their_verbs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    dead = {"leader": -1, "isr": ()}
    for dying, says in (
        (1, "- 1 partition has no leader: nobody can read or write it:"),
        (2, "- 2 partitions have no"),
    ):
        topics = [topic(f"t{one}", 2, 1, partition=dead) for one in range(dying)]
        lines = screen_of(advise(cluster("3.9", *topics)), monkeypatch, capsys)
        assert any(line.startswith(says) for line in lines)


def test_racks_of_dead_brokers_are_unknown_and_those_of_live_ones_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = topic("left", 2, 2, partition={"replicas": (1, 5), "isr": (1,)})
    advice = advise(cluster("3.9", topic("whole", 3, 2), left))
    text = " ".join(" ".join(screen_of(advice, monkeypatch, capsys)).split())
    assert "the rack of broker 5 is unknown: lines about racks leave out partitions there" in text
    assert "nothing is said about racks" not in text
    assert "- do not stop broker 1: only it is in sync for left-0" in text


def test_a_change_is_shown_with_what_it_makes_worse_and_starred_lines_do_not_mix_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ELR on: two events lose records that lose none today."""
    from analysis.advise.assumption import parse_assumption

    off = cluster(
        "4.0", topic("orders", 3, 2), features={"metadata.version": 25, "eligible.leader.replicas.version": 0}
    )
    (change, *_) = advise(off).changes
    assert change.change.startswith("turn the ELR on")
    assert len(change.worse) == 2
    text = " ".join(" ".join(screen_of(advise(off), monkeypatch, capsys)).split())
    worse = "; ".join(one.removesuffix(", at the worst moment") for one in change.worse)
    assert f"but then these lose records: {worse} (at the worst moment)" in text
    after = advise(off, assumed=parse_assumption("eligible.leader.replicas.version=1"))
    (group,) = after.groups
    lines = screen_of(after, monkeypatch, capsys)
    first, *rest = lines[lines.index("  today     after     event") + 1 :]
    assert first == "  loses     survives  1 broker loses power, at the worst moment (rare)"
    assert sum(line.startswith("  survives  loses") for line in rest) == 2
    same = {
        line.what
        for line in group.lines
        if line.only_for_after and line.after and line.today.acks_all.says == line.after.acks_all.says
    }
    assert same
    assert not any(what in line for what in same for line in lines)


def test_what_two_listed_changes_save_together_is_said_of_the_second() -> None:
    """A topic of one replica needs both: three replicas, and the ELR."""
    changes = advise(cluster("3.9", topic("orders", 3, 2), topic("logs", 1, 1))).changes
    assert all(one.change and one.costs for one in changes)
    assert changes[1].topics == ("orders", "logs")


def test_a_price_names_the_topics_that_pay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = advise(cluster("3.9", topic("orders", 3, 2), topic("events", 3, 1)))
    text = " ".join(" ".join(screen_of(advice, monkeypatch, capsys)).split())
    assert "acks=all is refused while 2 of 3 replicas are out of the ISR (events)" in text
    assert "out of the ISR (orders" not in text


def test_dead_brokers_are_brought_back_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = topic("left", 2, 2, partition={"replicas": (1, 5), "isr": (1,)})
    lines = screen_of(advise(cluster("3.9", left)), monkeypatch, capsys)
    first = next(line for line in lines if line.startswith("- "))
    assert first == "- first bring broker 5 back, with its disk: it has replicas of 1 partition"
    assert not any(
        "- first" in line for line in screen_of(advise(cluster("3.9", topic("t", 3, 2))), monkeypatch, capsys)
    )


def test_known_bugs_have_their_titles(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    advice = advise(cluster("3.9", topic("orders", 3, 2)))
    text = " ".join(" ".join(screen_of(advice, monkeypatch, capsys)).split())
    assert all(f"{one.name}: {one.what}" in text for one in advice.defects[:3])


def test_no_note_that_an_answer_may_be_wrong_is_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doubts = tuple(f"the env_file of broker-{one} was not read" for one in range(7))
    advice = advise(cluster("3.9", topic("orders", 3, 2), assumed=doubts, controllers=(1,)))
    text = " ".join(" ".join(screen_of(advice, monkeypatch, capsys)).split())
    assert all(one in text for one in advice.notes[: advice.doubts])
    assert set(doubts) < set(advice.notes[: advice.doubts])
    assert advice.notes[0].endswith("if it returns empty, all topics are gone")
    assert "more note" not in text, "one note more is shown as well as counted"
    many = msgspec.structs.replace(advice, notes=tuple(f"note {one}" for one in range(15)), doubts=14)
    lines = screen_of(many, monkeypatch, capsys)
    assert [line for line in lines if "note" in line][-1] == "5 more notes: --all prints them"


def test_an_answer_with_all_that_may_be_said_is_one_screen_and_names_the_worst_topics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = {"replicas": (1, 2, 7), "isr": (1,)}
    topics = (topic("dead", 2, 1, partition={"leader": -1, "isr": ()}), topic("left", 3, 2, partition=out))
    doubts = tuple(f"the env_file of {'broker-' * 9}{one} was not read" for one in range(8))
    advice = advise(cluster("3.9", *topics, topic("orders", 3, 2), assumed=doubts))
    (danger, *_), (holder, *_), (change, *_) = advice.dangers, advice.last_holders, advice.changes
    long = msgspec.structs.replace(change, topics=("t" * 70,) * 3)
    for dangers, holders, changes in ((1, 1, 3), (4, 4, 3), (9, 4, 3), (30, 30, 30)):
        many = msgspec.structs.replace(
            advice, dangers=(danger,) * dangers, last_holders=(holder,) * holders, changes=(long,) * changes
        )
        lines = screen_of(many, monkeypatch, capsys)
        assert len(lines) <= LINES_MAX
        assert lines[-1].startswith("more: --all prints each event")
        assert any(line.startswith("RF ") for line in lines) or dangers == 30


def test_brokers_on_one_host_commonly_lose_power_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for on_one_host, likely in ((True, "common"), (False, "rare")):
        advice = advise(cluster("3.9", topic("orders", 3, 2), on_one_host=on_one_host))
        lines = screen_of(advice, monkeypatch, capsys)
        assert f"  loses: all 3 brokers lose power together, in sync ({likely})" in lines
        assert f"by one {likely} event" in " ".join(lines)


def test_the_topic_that_stands_for_others_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = advise(cluster("3.9", topic(NEXT_TOPIC, 3, 2), is_planned=True))
    text = " ".join(" ".join(screen_of(advice, monkeypatch, capsys)).split())
    assert "the-next-topic is any topic that is made with the brokers' defaults." in text
