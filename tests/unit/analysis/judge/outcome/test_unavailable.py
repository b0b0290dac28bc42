"""The time without service in a verdict: known, or null with the reason, and never 0 by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from judge_records import Story, ns, whole_log
from metadata_rows import order_by_time

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import ProducerSetup, TopicSetup
from ebbtide.record.outages import leaderless_text, oldest_text, outage_text
from ebbtide.record.tables import SENDS
from ebbtide.record.verdict import Outage, Unavailability, Verdict, read_verdict, write_verdict


def send(sent_s: float, done_s: float, status: str = "acked", **fields: Any) -> dict[str, Any]:
    """A row of sends with acks=all."""
    usual = {"topic": "t", "partition": 0, "value": 1, "producer": 1, "sequence": 0, "acks": -1, "status": status}
    return dict.fromkeys(SENDS.names) | usual | {"sent_ns": ns(sent_s), "done_ns": ns(done_s)} | fields


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A run without a leader from 10 s to 14 s, and without an ack from 9 s to 15 s."""
    story = Story(tmp_path)
    whole_log(story)
    story.change(producers={"1": ProducerSetup(acks=-1)})
    story.broker(0, 1)
    story.state(1)
    story.state(10, leader=-1)
    story.state(14, leader=1)
    story.tables["sends"] = [send(2, 2.01), send(8, 9), send(8.5, 15)]
    return story


def only(verdict: Verdict) -> Unavailability:
    (found,) = verdict.unavailable
    return found


def test_a_verdict_says_how_long_a_partition_had_no_leader_and_no_ack(story: Story) -> None:
    found = only(story.judge())
    assert found.no_leader == Outage(longest_s=4, total_s=4, spells=1, from_ns=ns(10), to_ns=ns(14))
    assert found.no_ack == Outage(longest_s=6, total_s=7, spells=2, from_ns=ns(9), to_ns=ns(15))
    assert found.unknown == {"no_service": "polls is missing"}


def test_a_partition_with_a_leader_all_the_time_was_without_one_for_0_s(story: Story) -> None:
    story.tables["partitions"] = story.tables["partitions"][:1]
    verdict = story.judge()
    assert only(verdict).no_leader == Outage(longest_s=0, total_s=0, spells=0)
    assert outage_text(verdict, "no_leader") == "none"


@pytest.mark.parametrize(
    ("missing", "service", "why"),
    [
        ("partitions", "no_leader", "the metadata timeline is missing (partitions.parquet)"),
        ("sends", "no_ack", "sends is missing"),
    ],
)
def test_a_missing_table_leaves_its_service_unknown(story: Story, missing: str, service: str, why: str) -> None:
    verdict = story.judge(missing=(missing,))
    assert getattr(only(verdict), service) is None
    assert only(verdict).unknown[service] == why
    assert outage_text(verdict, "no_leader" if service == "no_leader" else "no_ack") == "?"


def test_a_torn_journal_leaves_the_acks_unknown(story: Story) -> None:
    story.change(torn_journal_bytes=3)
    assert only(story.judge()).no_ack is None


def test_a_metadata_log_with_gaps_leaves_the_leaders_unknown(story: Story) -> None:
    (story.record / "evidence.json").unlink()
    assert only(story.judge()).no_leader is None


def test_where_nobody_waits_for_acks_all_there_is_nothing_to_measure(story: Story) -> None:
    story.tables["sends"] = [send(2, 15, acks=1)]
    story.change(producers={"1": ProducerSetup(acks=1)})
    verdict = story.judge()
    assert only(verdict).no_ack is None
    assert only(verdict).unknown["no_ack"] == "no producer sent with acks=all"
    assert outage_text(verdict, "no_ack") == "-"


def test_the_texts_name_the_worst_partition_and_say_at_least(story: Story) -> None:
    verdict = story.judge()
    assert (outage_text(verdict, "no_leader"), outage_text(verdict, "no_ack")) == (
        "4.0 s (t-0)",
        "6.0 s (t-0), 7.0 s in 2 spells",
    )
    story.tables["sends"].append(send(15, 40, "failed"))
    assert outage_text(story.judge(), "no_ack") == "at least 25.0 s (t-0), 32.0 s in 3 spells"
    partly = [*verdict.unavailable, Unavailability(topic="u", partition=0, unknown={"no_leader": "a reason"})]
    more = msgspec.structs.replace(verdict, unavailable=partly)
    assert outage_text(more, "no_leader") == "at least 4.0 s (t-0)"


@pytest.fixture
def unserved(story: Story) -> Story:
    """The log always has a leader, and no client is served from 5 s to 16 s."""
    story.tables["partitions"] = story.tables["partitions"][:1]
    story.tables["sends"] = [send(4, 4.01), send(5, 16)]
    for tenth in (*range(10, 50), *range(160, 180)):
        story.hw(tenth / 10, 1, 0, 5)
    story.tables["polls"] = [
        {"topic": "t", "partition": 0, "offset": 0, "consumer": 1, "session": 1, "polled_ns": ns(18)}
        | {"isolation": "read_uncommitted"}
    ]
    return story


def test_a_dead_leader_that_the_log_still_names_serves_nobody(unserved: Story) -> None:
    verdict = unserved.judge()
    assert only(verdict).no_service == Outage(longest_s=11, total_s=11, spells=1, from_ns=ns(5), to_ns=ns(16))
    assert leaderless_text(verdict) == "the metadata log had a leader; no broker served t-0 for 11.0 s"


def test_a_time_without_a_leader_is_shown_beside_a_longer_time_without_service(unserved: Story) -> None:
    unserved.state(10, leader=-1)
    unserved.state(14, leader=1)
    assert leaderless_text(unserved.judge()) == "4.0 s (t-0); no broker served t-0 for 11.0 s"
    unserved.tables["sends"] = [send(4, 4.01)]
    assert leaderless_text(unserved.judge()) == "4.0 s (t-0)"


def test_only_a_partition_that_was_served_all_the_time_was_never_without_a_leader(unserved: Story) -> None:
    unserved.tables["sends"] = [send(4, 4.01), send(16.95, 17)]
    assert leaderless_text(unserved.judge(missing=("watermarks",))) == "none in the metadata log"
    assert leaderless_text(unserved.judge()) == "none"


def test_clients_that_a_step_cut_off_say_nothing_of_the_brokers(unserved: Story) -> None:
    unserved.step(6, "partition", 0, 1, cuts=["0>1", "1>0"])
    verdict = unserved.judge()
    assert only(verdict).no_service is None
    assert only(verdict).unknown == {"no_service": "step 0 (partition) hit the clients then"}
    assert leaderless_text(verdict) == "none in the metadata log"


def test_waits_too_short_to_tell_apart_are_shown_as_an_upper_bound(story: Story) -> None:
    story.tables["sends"] = [send(at, at + 0.01) for at in range(9)]
    verdict = story.judge()
    assert only(verdict).no_ack == Outage(longest_s=0.1, total_s=0, spells=0)
    assert outage_text(verdict, "no_ack") == "at most 0.1 s"


def test_a_verdict_of_before_is_still_read(story: Story) -> None:
    write_verdict(RecordFolder(story.record), story.judge())
    path = story.record / "verdict.json"
    old = msgspec.json.decode(path.read_bytes())
    del old["unavailable"]
    path.write_bytes(msgspec.json.encode(old))
    verdict = read_verdict(RecordFolder(story.record))
    assert verdict is not None
    assert (outage_text(verdict, "no_leader"), oldest_text(verdict)) == ("?", "-")


def test_a_partition_that_a_step_added_is_judged_like_the_others(story: Story) -> None:
    story.change(topics={"t": TopicSetup(partitions=1, replication_factor=3, min_isr=2)})
    story.state(11, partition=1)
    story.state(12, partition=1, leader=-1)
    story.state(13, partition=1, leader=1)
    order_by_time(story.tables)
    found = {one.partition: one.no_leader for one in story.judge().unavailable}
    assert found[1] == Outage(longest_s=1, total_s=1, spells=1, from_ns=ns(12), to_ns=ns(13))


@pytest.mark.parametrize(
    ("client", "killed_s", "started_s", "hits"),
    [("producer(1)", 9.5, 14, True), ("producer(1)", 2.1, 3, False), ("consumer(1)", 9.5, 14, False)],
)
def test_a_producer_that_was_down_says_nothing_of_the_brokers(
    story: Story, client: str, killed_s: float, started_s: float, *, hits: bool
) -> None:
    assert story.steps is not None
    story.step(killed_s, "kill-client")
    story.step(started_s, "start-client")
    story.steps = [msgspec.structs.replace(one, parameters={"client": client}) for one in story.steps]
    found = only(story.judge())
    assert (found.no_ack is None) == hits
    assert (found.unknown.get("no_ack") == "step 0 (kill-client) took producer(1) down then") == hits
