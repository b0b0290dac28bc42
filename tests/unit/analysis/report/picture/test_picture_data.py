"""The picture's spans, marks and series say what the record says, and nothing that it does not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from checkout import DATA
from judge_records import ELR_ON, Story, last_replica_standing, ns
from records import RecordBuilder, as_record

from analysis.record.timeline import load_timeline
from analysis.report.picture.building import picture_of
from analysis.report.picture.model import BIN_NS, NodeLane, PartitionPicture, RunPicture, StateSpan
from analysis.report.picture.series import counts_of, log_ends_of, read_series
from analysis.sentences.elections import Blame
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest
from ebbtide.record.steps import StepEntry, read_steps
from ebbtide.record.verdict import Verdict, read_verdict

NOT_JUDGED = Verdict(run_id="run-1", outcome="inconclusive")


def drawn(story: Story, verdict: Verdict | None = None) -> RunPicture:
    verdict = verdict if verdict is not None else story.judge()
    story.write()
    picture = picture_of(as_record(story.record, story.manifest), verdict)
    assert picture is not None
    return picture


def lane(picture: RunPicture, node: int) -> NodeLane:
    return next(one for one in picture.lanes if one.node == node)


def spans(found: tuple[StateSpan, ...]) -> list[tuple[str, float, float | None]]:
    """State, begin and end in seconds since the story began."""
    return [
        (span.state, (span.begin_ns - ns(0)) / 1e9, None if span.end_ns is None else (span.end_ns - ns(0)) / 1e9)
        for span in found
    ]


@pytest.fixture(scope="module")
def recorded() -> tuple[RunPicture, PartitionPicture, Path]:
    record = DATA / "runs" / "last-replica-standing-3.9.1"
    verdict = read_verdict(RecordFolder(record))
    assert verdict is not None
    picture = picture_of(as_record(record, read_manifest(RecordFolder(record))), verdict)
    assert picture is not None
    return picture, picture.partitions[0], record


def test_the_guilty_election_is_marked_with_what_it_lost(tmp_path: Path) -> None:
    (partition,) = drawn(last_replica_standing(tmp_path)).partitions
    (election,) = partition.elections
    assert (election.leader, election.leader_epoch) == (1, 2)
    assert election.blame == Blame(cause="last-replica-standing", lost=1000, is_guilty=True)
    assert election.at_ns == ns(21)
    assert partition.is_blamed
    (band,) = partition.lost
    assert (band.first_offset, band.last_offset, band.since_ns) == (0, 999, ns(21))


def test_an_election_that_lost_nothing_is_not_guilty(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.lost.clear()
    story.anomalies.clear()
    (partition,) = drawn(story).partitions
    assert [one.blame for one in partition.elections] == [None]
    assert not partition.lost
    assert not partition.is_blamed


def test_an_election_that_lost_only_uncommitted_records_is_not_guilty(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    losses = [
        msgspec.structs.replace(one, committed=False, acks=1, cause="uncommitted-at-failover") for one in verdict.losses
    ]
    lost = msgspec.structs.replace(verdict, losses=losses, regressions=[], blamed=[])
    (partition,) = drawn(story, lost).partitions
    assert [one.blame for one in partition.elections] == [
        Blame(cause="uncommitted-at-failover", lost=1000, is_guilty=False)
    ]


def test_an_election_that_lost_both_kinds_is_guilty_by_the_committed_ones(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    (committed,) = verdict.losses
    other = msgspec.structs.replace(committed, committed=False, count=7, cause="uncommitted-at-failover")
    lost = msgspec.structs.replace(verdict, losses=[other, committed], regressions=[], blamed=[])
    (partition,) = drawn(story, lost).partitions
    assert [one.blame for one in partition.elections] == [
        Blame(cause="last-replica-standing", lost=1007, is_guilty=True)
    ]


def test_an_election_that_cost_only_records_that_were_read_is_guilty(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    verdict = story.judge()
    vanished = [msgspec.structs.replace(one, kind="vanished") for one in verdict.blamed]
    lost = msgspec.structs.replace(verdict, losses=[], regressions=[], blamed=vanished)
    (partition,) = drawn(story, lost).partitions
    assert [one.blame for one in partition.elections] == [Blame(cause="last-replica-standing", lost=0, is_guilty=True)]


def test_a_deleted_topic_has_no_state_from_then_on_until_it_is_created_again(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.step(16, "delete-topic")
    *others, deletion = story.steps or []
    story.steps = [*others, msgspec.structs.replace(deletion, effect_ns=ns(17), parameters={"topic": "t"})]
    (partition,) = drawn(story).partitions
    assert spans(partition.roles[1]) == [("leader", 1, 15), ("isr", 15, 17), ("leader", 21, None)]
    assert partition.leaderless == ((ns(15), ns(17)),)


def test_a_broker_goes_through_its_parts_in_the_partition(tmp_path: Path) -> None:
    (partition,) = drawn(last_replica_standing(tmp_path)).partitions
    assert spans(partition.roles[1]) == [("leader", 1, 15), ("isr", 15, 21), ("leader", 21, None)]
    assert spans(partition.roles[3]) == [("isr", 1, 10), ("replica", 10, 30), ("isr", 30, None)]
    assert partition.leaderless == ((ns(15), ns(21)),)


def test_a_broker_without_power_is_down_until_it_was_started(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    story.steps = [msgspec.structs.replace(one, healed_ns=ns(19)) for one in story.steps or []]
    picture = drawn(story)
    states = spans(lane(picture, 1).condition)
    assert ("down", 12, 19) in states
    assert ("cut", 9, 19) in states
    (cut, power) = picture.steps
    assert (cut.index, cut.is_fault, power.name, power.end_ns) == (0, True, "power-loss", ns(19))


def test_a_broker_that_returns_from_a_power_loss_is_marked_as_registered_uncleanly(tmp_path: Path) -> None:
    picture = drawn(last_replica_standing(tmp_path))
    assert [mark.kind for mark in lane(picture, 1).marks] == ["registered", "registered-unclean"]
    assert [mark.kind for mark in lane(picture, 2).marks] == ["registered"]


def test_a_broker_is_fenced_until_it_is_unfenced(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.broker(0, 1)
    story.broker(1, 1, "unfenced")
    story.state(2)
    story.broker(5, 1, "fenced")
    story.broker(6, 1, "fenced")
    story.broker(8, 1, "unfenced")
    assert spans(lane(drawn(story, NOT_JUDGED), 1).registration) == [("fenced", 0, 1), ("fenced", 5, 8)]


def test_a_node_that_no_controller_reaches_is_cut_off_and_others_are_only_cut(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "partition", 1, 2, 100, cuts=["1>2", "2>1", "2>100", "100>2"])
    picture = drawn(story, NOT_JUDGED)
    (off,) = lane(picture, 2).condition
    (cut,) = lane(picture, 1).condition
    assert (off.state, off.text) == ("cut-off", "cut from broker 1, controller 100")
    assert (cut.state, cut.text) == ("cut", "cut from broker 2")
    assert not lane(picture, 3).condition


def test_cuts_that_overlap_are_one_span_for_each_set_of_nodes(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "partition", 1, 2, cuts=["1>2", "2>1"])
    story.step(7, "partition", 1, 3, cuts=["1>3", "3>1"])
    assert story.steps is not None
    story.steps = [msgspec.structs.replace(one, healed_ns=ns(9)) for one in story.steps]
    found = lane(drawn(story, NOT_JUDGED), 1).condition
    assert spans(found) == [("cut", 5, 7), ("cut", 7, 9)]
    assert [span.text for span in found] == ["cut from broker 2", "cut from broker 2, broker 3"]


def test_a_fault_that_nobody_healed_lasts_to_the_end_of_the_run(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "pause", 1)
    story.step(6, "partition", 2, 3, cuts=["2>3"])
    picture = drawn(story, NOT_JUDGED)
    assert spans(lane(picture, 1).condition) == [("paused", 5, None)]
    assert spans(lane(picture, 3).condition) == [("cut", 6, None)]
    assert [step.end_ns for step in picture.steps] == [None, None]


def test_waits_and_healers_are_no_faults_and_a_step_that_never_fired_is_not_there(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.state(1)
    story.step(5, "wait")
    story.step(6, "heal")
    story.step(7, "reassign", 1, 2)
    assert story.steps is not None
    story.steps.append(StepEntry(index=3, step="kill", why="waited 30 s"))
    found = drawn(story, NOT_JUDGED).steps
    assert [(step.kind, step.is_fault, step.end_ns == step.begin_ns) for step in found] == [
        ("wait", False, True),
        ("heal", False, True),
        ("reassign", True, True),
    ]


def test_records_are_counted_per_100_ms_and_the_final_read_is_not_consumption(tmp_path: Path) -> None:
    record = RecordBuilder()
    for value, done_ms in enumerate((10, 20, 120, 310)):
        record.send(value, at=value, done_ns=done_ms * 1_000_000)
    record.send(9, status="failed", done_ns=10_000_000)
    record.read(0, 1, at=0, polled_ns=150_000_000)
    record.final(0, 1, 2, 3, polled_ns=200_000_000)
    record.write(tmp_path / "run")
    series = read_series(as_record(tmp_path / "run"))["t", 0]
    counts = counts_of(series, 0, 4 * BIN_NS)
    assert counts is not None
    assert counts.acked == (2, 1, 0, 1, 0)
    assert counts.consumed == (0, 2, 0, 0, 0)
    assert counts.acked_end == (2, 3, 3, 4, 4)


def test_a_damaged_record_with_a_time_of_long_ago_has_no_counts_instead_of_billions(tmp_path: Path) -> None:
    record = RecordBuilder()
    record.send(0, at=0, done_ns=1_700_000_000_000_000_000)
    record.write(tmp_path / "run")
    series = read_series(as_record(tmp_path / "run"))["t", 0]
    assert counts_of(series, 0, 1_700_000_000_000_000_000) is None
    one_day_ns = 86_400 * 1_000_000_000
    assert counts_of(series, 1_700_000_000_000_000_000 - one_day_ns, 1_700_000_000_000_000_000) is not None


def test_log_ends_come_from_the_proof_of_a_power_loss_for_its_own_broker_only() -> None:
    logs = {"t-0": {"leo_before": 1000, "leo_after": 0}, "u-0": {"leo_before": 7, "leo_after": 7}}
    one = StepEntry(index=0, step="power-loss", nodes=(2,), fired_ns=5, effect_ns=6, proof={"logs": logs})
    each = {"1": {"logs": {"t-0": {"leo_before": 3, "leo_after": 1}}}, "2": {}}
    two = StepEntry(index=1, step="power-loss", nodes=(1, 2), fired_ns=8, effect_ns=9, proof={"nodes": each})
    found = {
        ends.broker: [tuple(p)[:2] for p in map(msgspec.structs.astuple, ends.points)]
        for ends in log_ends_of({}, [one, two], "t-0")
    }
    assert found == {1: [(8, 3), (9, 1)], 2: [(5, 1000), (6, 0)]}


def test_a_recorded_run_is_pictured_as_its_tables_say(
    recorded: tuple[RunPicture, PartitionPicture, Path],
) -> None:
    picture, partition, record = recorded
    steps = read_steps(RecordFolder(record)) or []
    assert [(one.begin_ns, one.kind) for one in picture.steps] == [(one.fired_ns, one.step) for one in steps]
    states = load_timeline(as_record(record)).states("t", 0)
    assert [(one.at_ns, one.metadata_offset) for one in partition.records] == [
        (one.at_ns, one.metadata_offset) for one in states
    ]
    counts = partition.counts
    assert counts is not None
    assert sum(counts.acked) == 2000
    assert counts.acked_end[-1] == 2000
    assert picture.begin_ns < states[0].at_ns < picture.end_ns


def test_a_record_in_which_nothing_has_a_time_has_no_picture(tmp_path: Path) -> None:
    story = Story(tmp_path, features=ELR_ON)
    story.write()
    assert picture_of(as_record(story.record, story.manifest), NOT_JUDGED) is None


def test_partitions_with_a_loss_come_first_and_at_most_six_are_pictured(tmp_path: Path) -> None:
    story = last_replica_standing(tmp_path)
    for at in range(1, 9):
        story.tables["partitions"].append({**story.tables["partitions"][0], "topic": "a", "partition": at})
    picture = drawn(story)
    assert picture.partitions[0].name == "t-0"
    assert (len(picture.partitions), picture.partitions_omitted) == (6, 3)
