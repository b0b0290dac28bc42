"""Committed records that are gone though no loss tells of them: read by a consumer, or different in two replicas."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import ELR_ON, Story, by_name, last_replica_standing

from ebbtide.record.tables import ANOMALY_SCHEMA
from ebbtide.record.verdict import Verdict

NO_LOSS = "no-committed-loss-unless-allowed"
PREDICTED_NONE = 'loss = { committed = "none", uncommitted = "none" }'


def failover(record: Path) -> Story:
    """Broker 1 is killed and broker 2 elected from the ISR; nobody's disk loses anything."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.state(1)
    story.step(9, "kill", 1)
    story.broker(10, 1, "fenced")
    story.state(10, leader=2, isr=[2, 3])
    story.predict("")
    return story


def last_one(record: Path, **setup: object) -> Story:
    """The ISR shrinks to broker 1, which loses power and leads again, with nothing acked of what it loses."""
    story = last_replica_standing(record, **setup)
    story.lost, story.anomalies = [], []
    story.predict("")
    return story


def unclean_story(record: Path) -> Story:
    """Broker 3 is elected from outside the ISR."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
    story.config(0.5, "topic:t", "unclean.leader.election.enable", "true")
    story.state(1)
    story.state(3, isr=[1])
    story.step(9, "kill", 1)
    story.broker(10, 1, "fenced")
    story.state(10, leader=-1)
    story.state(11, leader=3, isr=[3], leader_recovery_state=1)
    story.predict("")
    return story


def reasons_of(verdict: Verdict) -> str:
    return " | ".join(verdict.why)


def test_a_read_record_that_a_clean_election_cut_off_is_a_violation_though_no_producer_knew(tmp_path: Path) -> None:
    story = failover(tmp_path)
    story.vanish_range(500, 504, epoch=0, read_s=5)
    verdict = story.judge()
    assert verdict.outcome == "contradicted"
    assert by_name(verdict)[NO_LOSS] == "violated"
    assert "5 read records of t-0 vanished against the protocol" in verdict.why[0]
    assert verdict.losses == []


def test_the_same_run_without_them_is_as_predicted(tmp_path: Path) -> None:
    assert failover(tmp_path).judge().outcome == "as-predicted"


def test_a_read_record_that_went_without_any_election_is_a_violation(tmp_path: Path) -> None:
    story = failover(tmp_path)
    story.vanish_range(500, 504, epoch=1, read_s=15)
    assert story.judge().outcome == "contradicted"


def test_an_unclean_election_before_a_record_was_written_does_not_explain_it(tmp_path: Path) -> None:
    story = unclean_story(tmp_path)
    story.log(3, (0, 0, 49), (2, 50, 199))
    story.vanish_range(200, 204, epoch=2, read_s=20)
    assert story.judge().outcome == "contradicted"


def test_an_unclean_election_explains_what_was_read_before_it(tmp_path: Path) -> None:
    story = unclean_story(tmp_path)
    story.vanish_range(200, 204, epoch=0, read_s=4)
    verdict = story.judge()
    assert verdict.outcome == "as-predicted"
    assert "t-0, 5 records that were read and are gone, unclean-election" in reasons_of(verdict)


def test_an_unclean_election_that_brought_back_an_older_record_explains_it(tmp_path: Path) -> None:
    story = unclean_story(tmp_path)
    story.state(20, leader=2, isr=[2], leader_recovery_state=1)
    story.log(2, (0, 0, 299), (3, 300, 399))
    story.vanish_range(200, 204, epoch=2, read_s=15)
    assert story.judge().outcome == "as-predicted"


def test_a_slow_consumer_that_returned_a_record_after_it_was_cut_off_accuses_nobody(tmp_path: Path) -> None:
    story = last_one(tmp_path)
    story.vanish_range(200, 204, epoch=0, read_s=40)
    verdict = story.judge()
    assert verdict.outcome == "as-predicted"
    assert "5 records that were read and are gone, last-replica-standing" in reasons_of(verdict)


def test_with_elr_the_last_replica_may_not_lose_what_was_read(tmp_path: Path) -> None:
    story = last_one(tmp_path, kafka="4.1.0", features=ELR_ON)
    story.vanish_range(200, 204, epoch=0, read_s=5)
    assert story.judge().outcome == "contradicted"


def test_an_allowed_cause_still_breaks_the_prediction_that_nothing_committed_is_lost(tmp_path: Path) -> None:
    story = last_one(tmp_path)
    story.predict(PREDICTED_NONE)
    story.vanish_range(200, 204, epoch=0, read_s=5)
    verdict = story.judge()
    assert verdict.outcome == "contradicted"
    assert verdict.why[0] == "predicted no loss of committed records, but 5 that a consumer had read vanished"


def test_a_record_that_stands_elsewhere_in_the_partition_is_no_loss(tmp_path: Path) -> None:
    story = last_one(tmp_path)
    story.predict(PREDICTED_NONE)
    story.vanish_range(200, 204, epoch=0, read_s=5, committed=False)
    assert story.judge().outcome == "as-predicted"


def test_another_cause_than_the_predicted_one_breaks_the_prediction(tmp_path: Path) -> None:
    story = last_one(tmp_path)
    story.predict('loss = { committed = "some", cause = "unclean-election" }')
    story.vanish_range(200, 204, epoch=0, read_s=5)
    assert "seen 5 by last-replica-standing" in reasons_of(story.judge())


@pytest.mark.parametrize("missing", ["partitions", "steps"])
def test_without_the_evidence_that_decides_it_is_inconclusive(tmp_path: Path, missing: str) -> None:
    story = failover(tmp_path)
    story.vanish_range(500, 504, epoch=0, read_s=5)
    if missing == "steps":
        story.steps = None
    verdict = story.judge(missing=("partitions",) if missing == "partitions" else ())
    assert verdict.outcome == "inconclusive"
    assert by_name(verdict)[NO_LOSS] == "unknown"


def test_without_its_leader_epoch_a_vanished_record_is_inconclusive_or_explained(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    story = failover(tmp_path / "clean")
    story.vanish_range(500, 504, epoch=None, read_s=5)
    assert story.judge().outcome == "inconclusive"
    (tmp_path / "power").mkdir()
    story = last_one(tmp_path / "power")
    story.vanish_range(500, 504, epoch=None, read_s=5)
    assert story.judge().outcome == "as-predicted"


def test_an_epoch_that_the_timeline_lacks_is_inconclusive(tmp_path: Path) -> None:
    story = failover(tmp_path)
    story.vanish_range(500, 504, epoch=7, read_s=15)
    assert story.judge().outcome == "inconclusive"


def test_a_topic_that_was_made_again_accuses_nobody(tmp_path: Path) -> None:
    story = failover(tmp_path)
    story.state(20, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3])
    story.vanish_range(500, 504, epoch=0, read_s=5)
    verdict = story.judge()
    assert (
        "t-0, 5 records that were read and are gone, cause not known: its topic was deleted and made again"
        in verdict.why
    )


def test_the_gravest_end_of_a_range_with_gaps_decides(tmp_path: Path) -> None:
    story = last_one(tmp_path)
    assert story.steps is not None
    story.steps.pop()
    story.power_loss(12, 1, end=300)
    story.vanish_range(200, 400, epoch=0, read_s=5, count=7)
    assert story.judge().outcome == "contradicted"


@pytest.mark.parametrize(
    ("first", "last", "count", "outcome"),
    [
        (200, 340, 9, "as-predicted"),
        (500, 600, 9, "as-predicted"),
        (200, 400, 9, "contradicted"),
        (200, 600, 9, "as-predicted"),
        (200, 600, 401, "contradicted"),
    ],
)
def test_one_that_only_a_clean_election_cut_off_accuses_whatever_else_its_range_has(
    tmp_path: Path, first: int, last: int, count: int, outcome: str
) -> None:
    story = three_elections(tmp_path)
    story.vanish_range(first, last, epoch=0, read_s=4, count=count)
    assert story.judge().outcome == outcome


def three_elections(record: Path) -> Story:
    """Only the one in the middle is clean: what it cut off, from 350 up to 499, nothing explains."""
    story = unclean_story(record)  # broker 3, leader epoch 2, cuts off what stood at 500 and above
    story.state(20, leader=3, isr=[3, 2], leader_recovery_state=0)
    story.state(30, leader=2, isr=[2])  # cleanly, and cuts off what stood at 350 and above
    story.power_loss(35, 1, end=150)
    story.broker(38, 1)
    story.state(
        40, leader=1, isr=[1], leader_recovery_state=1
    )  # uncleanly, after a power loss, and the rest from 150 on
    epochs = [row["leader_epoch"] for row in story.tables["partitions"]][-3:]
    story.log(1, (0, 0, 149), (epochs[2], 150, 160))
    story.log(2, (0, 0, 349), (epochs[1], 350, 360))
    story.log(3, (0, 0, 499), (2, 500, 510))
    return story


@pytest.mark.parametrize(
    ("offsets", "outcome"),
    [
        ([200, *range(500, 507), 600], "as-predicted"),
        ([200, *range(340, 347), 600], "as-predicted"),
        ([200, *range(494, 501), 600], "contradicted"),
        ([200, 250, 360, 370, 380, 390, 400, 500, 600], "contradicted"),
    ],
)
def test_every_stretch_of_a_range_with_gaps_that_has_an_item_decides(
    tmp_path: Path, offsets: list[int], outcome: str
) -> None:
    story = three_elections(tmp_path)
    story.vanish_range(200, 600, epoch=0, read_s=4, count=len(offsets))
    details = {"committed": True, "leader_epoch": 0}
    others = [{"committed": True, "leader_epoch": 1}, {"committed": False, "leader_epoch": 0}]
    others.append({**details, "also_lost": True})
    rows = [(offset, details) for offset in offsets] + [(400, other) for other in others]
    item = {"kind": "vanished", "topic": "t", "partition": 0, "value": 1}
    table = [{**item, "offset": offset, "details": msgspec.json.encode(told).decode()} for offset, told in rows]
    (tmp_path / "anomalies").mkdir()
    pq.write_table(pa.Table.from_pylist(table, schema=ANOMALY_SCHEMA), tmp_path / "anomalies" / "part.parquet")
    assert story.judge().outcome == outcome


def test_replicas_that_differ_below_both_hws_without_an_election_to_blame_are_inconclusive(tmp_path: Path) -> None:
    story = failover(tmp_path)
    story.diverge(500, 504, epoch=0)
    verdict = story.judge()
    assert verdict.outcome == "inconclusive"
    assert by_name(verdict)[NO_LOSS] == "unknown"
    assert "t-0, 5 offsets at which replicas differ, cause not known" in reasons_of(verdict)


def test_different_records_of_one_leader_epoch_are_inconclusive(tmp_path: Path) -> None:
    story = unclean_story(tmp_path)
    story.diverge(500, 504, epoch=None)
    assert story.judge().outcome == "inconclusive"


def test_an_unclean_election_explains_replicas_that_differ(tmp_path: Path) -> None:
    story = unclean_story(tmp_path)
    story.diverge(500, 504, epoch=0)
    assert story.judge().outcome == "as-predicted"
