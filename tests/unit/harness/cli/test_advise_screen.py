"""The advice on one screen: 80 columns, 60 lines, the worst first, and nothing that contradicts itself."""

from __future__ import annotations

import msgspec
import pytest
from made_snapshots import brokers, cluster, topic

from analysis.advise.advice import Advice, advise
from ebbtide.snapshot.model import SnapshotTopic
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
    named = sum(line.endswith(": orders") for line in lines)
    assert f"and {90 - named} topics that lose less, or rarer" in lines


def test_what_a_change_makes_of_a_loss_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from analysis.advise.assumption import parse_assumption

    advice = advise(cluster("3.9", topic("logs", 1, 1)), assumed=parse_assumption("flush.messages=1"))
    lines = screen_of(advice, monkeypatch, capsys)
    assert "  loses, then survives: 1 broker loses power, in sync (common)" in lines
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
