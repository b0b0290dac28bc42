"""The judge on top of the model: the clause on transitions, tolerance, dead leaders, and elections read aright."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from judge_records import ELR_ON, TRANSITIONS, Story, by_name, cause_and_leader, last_replica_standing, whole_log
from metadata_rows import order_by_time
from tolerance import tolerated_losses

from analysis.record.elections import Road, road_of
from analysis.spec.variants import VARIANTS
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Verdict


def churn(record: Path, *, kafka: str = "3.9.1") -> Story:
    """Broker 2 is killed, fenced, and comes back into the ISR."""
    story = Story(record, kafka=kafka)
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(1, broker, "unfenced")
    story.config(2, "topic:t", "min.insync.replicas", "2")
    story.state(3)
    story.step(5, "kill", 2)
    story.state(9, isr=[1, 3])
    story.broker(9, 2, "fenced")
    story.tables["brokers"][-1]["metadata_offset"] = story.tables["partitions"][-1]["metadata_offset"] + 1
    story.broker(12, 2)
    story.broker(13, 2, "unfenced")
    story.state(15, isr=[1, 2, 3])
    story.predict('loss = { committed = "none" }')
    return story


def evidence_of(verdict: Verdict) -> dict[str, object]:
    row: dict[str, object] = next(one for one in verdict.properties if one.name == TRANSITIONS).evidence[0]
    return row


def test_a_run_whose_transitions_are_all_allowed_holds_and_counts_them(tmp_path: Path) -> None:
    story = churn(tmp_path)
    whole_log(story)
    verdict = story.judge()
    assert by_name(verdict)[TRANSITIONS] == "holds"
    counted = {
        name: count for name, count in verdict.coverage.items() if count and name.startswith(("action", "transition"))
    }
    assert counted == {
        "transitions-explained": 3,
        "action-create": 1,
        "action-fence": 1,
        "action-isr-expand": 1,
    }


@pytest.mark.parametrize(
    ("kafka", "action", "outcome"),
    [
        ("3.9.1", "unclean-election", "as-predicted"),
        ("3.9.1", "fence", "contradicted"),
        ("3.9.1", "elect_unclean", "inconclusive"),
        ("3.2.0", "unclean-election", "inconclusive"),
    ],
    ids=["never seen", "seen", "no such action", "release not modelled"],
)
def test_an_action_is_ruled_out_only_where_transitions_were_checked(
    tmp_path: Path, kafka: str, action: str, outcome: str
) -> None:
    story = churn(tmp_path, kafka=kafka)
    whole_log(story)
    story.predict(f'never = ["action-{action}"]')
    assert story.judge().outcome == outcome


def test_a_transition_that_is_not_allowed_contradicts_and_shows_the_nearest_that_is(tmp_path: Path) -> None:
    story = churn(tmp_path)
    story.tables["partitions"][1]["isr"] = [1]
    story.tables["partitions"][1]["leader"] = 3
    whole_log(story)
    verdict = story.judge()
    assert (verdict.outcome, by_name(verdict)[TRANSITIONS]) == ("contradicted", "violated")
    row = evidence_of(verdict)
    offset = story.tables["partitions"][1]["metadata_offset"]
    assert row["metadata_offset"] == offset
    nearest = row["nearest_allowed"]
    assert isinstance(nearest, list)
    assert nearest[0]["action"] in ("fence", "isr-shrink")
    assert f"metadata offset {offset}" in verdict.why[0]


def test_where_nothing_says_that_the_log_is_whole_a_strange_transition_is_unknown(tmp_path: Path) -> None:
    story = churn(tmp_path)
    story.tables["partitions"][1]["elr"] = [2]
    verdict = story.judge()
    assert by_name(verdict)[TRANSITIONS] == "unknown"


def test_a_release_newer_than_the_model_is_judged_by_the_newest_rules(tmp_path: Path) -> None:
    story = churn(tmp_path, kafka="9.1.0")
    story.tables["partitions"][1]["elr"] = [2]
    whole_log(story)
    assert by_name(story.judge())[TRANSITIONS] == "violated"
    story.tables["partitions"][1]["elr"] = []
    verdict = story.judge()
    assert (by_name(verdict)[TRANSITIONS], verdict.outcome) == ("holds", "as-predicted")


def test_a_leader_that_was_dead_for_the_whole_of_its_epoch_is_not_blamed(tmp_path: Path) -> None:
    """The session of broker 2 outlives it: it is elected when it has lost its log already, and never leads."""
    story = last_replica_standing(tmp_path)
    rows = story.tables["partitions"]
    shrink = next(index for index, row in enumerate(rows) if row["leader"] == 1 and row["isr"] == [1])
    before = rows[shrink]
    story.power_loss(before["at_ns"] / 1e9 - 1_700_000_000 - 2, 2)
    dead = {**before, "leader": 2, "isr": [1, 2], "leader_epoch": before["leader_epoch"] + 1}
    again = {**before, "leader": 1, "isr": [1], "leader_epoch": before["leader_epoch"] + 2}
    for row, half in ((dead, 0), (again, 500_000_000)):
        row["at_ns"] += half
    rows[shrink : shrink + 1] = [dead, again]
    for index, row in enumerate(rows):
        row["metadata_offset"] = 100 + index
        row["partition_epoch"] = index
        if index > shrink + 1:
            row["leader_epoch"] += 2
    story.broker(20, 2)
    order_by_time(story.tables)
    cause, leader, _ = cause_and_leader(story.judge())
    assert (cause, leader) == ("last-replica-standing", 1)


@pytest.mark.parametrize(("replication_factor", "min_isr", "tolerated"), [(3, 2, 1), (5, 3, 2), (6, 4, 3), (2, 3, 1)])
def test_with_elr_min_isr_less_one_losses_are_tolerated(replication_factor: int, min_isr: int, tolerated: int) -> None:
    for variant in ("elr_40", "elr_410", "elr_41", "elr_43"):
        assert tolerated_losses(replication_factor, min_isr, variant) == tolerated
    for variant in (name for name, one in VARIANTS.items() if not one.has_elr):
        assert tolerated_losses(replication_factor, min_isr, variant, elr=False) == 0


def state(**fields: object) -> PartitionState:
    standing = {"metadata_offset": 1, "at_ns": 0, "topic": "t", "partition": 0, "leader": -1, "leader_epoch": 1}
    return PartitionState(**{**standing, "partition_epoch": 1, "replicas": (1, 2, 3), **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "road"),
    [
        ({"elr": (3,), "last_known_elr": (3,)}, {"leader": 3, "leader_recovery_state": 1}, "last-known-leader"),
        ({"elr": (2, 3), "last_known_elr": (3,)}, {"leader": 3, "leader_recovery_state": 1}, "unclean"),
        ({"last_known_elr": (3,)}, {"leader": 2, "leader_recovery_state": 1}, "unclean"),
        ({"isr": (1,), "removing": (1, 2)}, {"leader": 3, "isr": (3,), "replicas": (3,)}, "reassignment"),
        ({"isr": (1,)}, {"leader": 3, "isr": (3,), "replicas": (3,)}, "unclean"),
    ],
)
def test_the_road_of_an_election(before: dict[str, object], after: dict[str, object], road: Road) -> None:
    """The first is Kafka 4.0's (KAFKA-19522), the fourth a leader that joins the ISR as the reassignment completes."""
    assert road_of(state(**before), state(**after, leader_epoch=2, partition_epoch=2), ()) == road


def test_the_elr_that_a_completed_reassignment_leaves_counts_the_replicas_before_it(tmp_path: Path) -> None:
    story = Story(tmp_path, kafka="4.3.1", features=ELR_ON)
    story.state(1)
    story.state(2, isr=[1], elr=[2], removing=[2, 3])
    story.state(3, isr=[1], elr=[2], replicas=[1], removing=[])
    assert by_name(story.judge())["elr-only-below-min-isr"] == "holds"
    story.state(4, isr=[1], elr=[2], replicas=[1])
    assert by_name(story.judge())["elr-only-below-min-isr"] == "violated"


def directory_fails(record: Path, log_dirs: int | None, *, failed: int = 1) -> Story:
    """Broker 1 leads and a step makes a log directory of `failed` fail: broker 2 leads, and nobody is fenced."""
    story = Story(record)
    for broker in (1, 2, 3):
        story.broker(0, broker)
        story.broker(1, broker, "unfenced")
    story.config(2, "topic:t", "min.insync.replicas", "2")
    story.state(3)
    story.step(5, "fail-disk", failed)
    story.state(6, leader=2, isr=[2, 3])
    story.manifest = msgspec.structs.replace(story.manifest, log_dirs=log_dirs)
    story.predict('loss = { committed = "none" }')
    whole_log(story)
    return story


def test_a_log_directory_that_fails_alone_is_an_action_of_kip_858(tmp_path: Path) -> None:
    verdict = directory_fails(tmp_path, log_dirs=2).judge()
    assert by_name(verdict)[TRANSITIONS] == "holds"
    assert verdict.coverage["action-directory-offline"] == 1


def test_a_log_directory_that_no_step_touched_explains_nothing(tmp_path: Path) -> None:
    verdict = directory_fails(tmp_path, log_dirs=2, failed=3).judge()
    assert by_name(verdict)[TRANSITIONS] == "unknown"


def test_a_broker_with_one_log_directory_cannot_lose_it_and_go_on(tmp_path: Path) -> None:
    verdict = directory_fails(tmp_path, log_dirs=None).judge()
    assert by_name(verdict)[TRANSITIONS] == "unknown"
