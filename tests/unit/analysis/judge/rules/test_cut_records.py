"""no-truncation-of-a-committed-record: a follower keeps what was acked with acks=all while it was in the ISR."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import checked, judged, lost_by_an_unknown_election, status_of

from analysis.judge.rules.losses import no_truncation_of_a_committed_record as rule

LED = "leader=1; at=30 leader=3 isr=2,3"


def cut(to: object) -> str:
    """The line of broker 2 that says to which offset it truncated."""
    return f"node=broker-2 at=40 says=[UnifiedLog_partition=t-0,_dir=/kafka]_Truncating_to_offset_{to}"


def status(folder: Path, *, sent: str = "3=1 at=20", led: str = LED, to: object = 3, more: str = "") -> str:
    """What the clause finds: a record is acked at 20 s, and broker 2 cuts it off at 40 s."""
    rows = f"partitions: {led}\nsends: {sent}\nlogs: {cut(to)}\n{more}"
    return status_of(rule, folder, rows)


@pytest.mark.parametrize(("to", "found"), [(0, "violated"), (3, "violated"), (4, "holds")])
def test_a_follower_cuts_no_committed_record_off(tmp_path: Path, to: int, found: str) -> None:
    assert status(tmp_path, to=to) == found


@pytest.mark.parametrize("sent", ["3=1 at=41", "3=1 at=39.95", "3=1 at=20 acks=1", "3=1 at=20 status=unknown"])
def test_only_what_was_acked_by_then_is_committed(tmp_path: Path, sent: str) -> None:
    assert status(tmp_path, sent=sent) == "holds"


@pytest.mark.parametrize(
    "led",
    [
        "leader=1 isr=1,3; at=30 leader=3 isr=2,3",
        "leader=1 isr=1,3; at=15 isr=1,2,3; at=30 leader=3 isr=2,3",  # an older ISR may ack it
        "leader=1; at=20.005 isr=1,3; at=30 leader=3 isr=2,3",
        "leader=1; at=20.5 isr=1,3; at=25 replicas=1,3 isr=1,3; at=26 replicas=1,2,3; at=30 leader=3 isr=2,3",
    ],
)
def test_a_replica_that_need_not_have_the_record_may_truncate(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "holds"


def test_a_replica_that_left_the_isr_keeps_what_it_had(tmp_path: Path) -> None:
    assert status(tmp_path, led="leader=1; at=21 isr=1,3; at=30 leader=3 isr=3") == "violated"


def test_an_unclean_leader_may_lack_the_record(tmp_path: Path) -> None:
    unclean = "leader=1; at=25 leader=-1 isr=1; at=30 leader=3 isr=3 leader_recovery_state=1"
    assert status(tmp_path, led=unclean) == "holds"
    assert status(tmp_path / "later", led=f"{LED}; at=50 leader=1 isr=1 leader_recovery_state=1") == "violated"


ELR = "leader=1; at=25 leader=-1 isr=- elr=3; at=30 leader=3 isr=3 elr=-"


@pytest.mark.parametrize(
    ("led", "partition", "committed", "found"),
    [
        (ELR, 0, True, "holds"),
        (ELR, 1, True, "violated"),
        (ELR, 0, False, "violated"),  # no member of the ELR need have what was never committed
        (
            "leader=1; at=10 leader=-1 isr=- elr=3; at=11 leader=3 isr=2,3 elr=-; at=12 isr=1,2,3; at=30 leader=1",
            0,
            True,
            "violated",
        ),
    ],
)
def test_a_leader_from_a_wrong_elr_that_lost_records_may_lack_this_one(
    tmp_path: Path, led: str, partition: int, committed: bool, found: str
) -> None:
    assert status(tmp_path, led=led) == "violated"
    lost = lost_by_an_unknown_election(partition=partition, committed=committed)
    assert checked(rule, judged(tmp_path / "record", blamed=[lost])).found.status == found


def test_a_leader_whose_disk_lost_the_record_may_lack_it(tmp_path: Path) -> None:
    assert status(tmp_path, more="steps: step=power-loss nodes=3 at=25\n") == "holds"
    assert status(tmp_path / "before", more="steps: step=power-loss nodes=3 at=10\n") == "violated"
    assert status(tmp_path / "kill", more="steps: step=kill nodes=3 at=25\n") == "violated"


def test_before_kip_903_an_empty_replica_may_join_the_isr_late_and_lead(tmp_path: Path) -> None:
    lost = "steps: step=wipe-disk nodes=3 at=10\n"
    assert status(tmp_path, more=f"{lost}setting: kafka=3.4.1\n") == "holds"
    assert status(tmp_path / "later", more=lost) == "violated"


def test_where_a_controller_lost_its_log_the_leader_may_have_been_outside_the_isr(tmp_path: Path) -> None:
    assert status(tmp_path, more="steps: step=wipe-disk nodes=100 at=10\n") == "unknown"


WHOLE = "[LocalLog_partition=t-0,_dir=/kafka/t-0]_Deleting_segments_as_part_of_log_truncation:_LogSegment(baseOffset={}"


@pytest.mark.parametrize(("base", "found"), [(0, "violated"), (3, "violated"), (4, "holds")])
def test_a_follower_deletes_no_segment_with_a_committed_record(tmp_path: Path, base: int, found: str) -> None:
    more = f"setting: sends\nlogs: node=broker-2 at=41 says={WHOLE.format(base)},_size=9)\n"
    assert status(tmp_path, more=more) == found


@pytest.mark.parametrize(
    "moved",
    [
        "steps: step=delete-records nodes=1 at=30 partition=t-0 before=4 log_start=0,4\n",
        "configs: at=1 resource=topic:t name=retention.ms value=9\n",
    ],
)
def test_a_follower_that_is_behind_a_log_start_deletes_its_whole_log(tmp_path: Path, moved: str) -> None:
    more = f"setting: sends\nlogs: node=broker-2 at=41 says={WHOLE.format(0)},_size=9)\n{moved}"
    assert status(tmp_path, more=more) == "not-exercised"


def test_logs_without_a_truncation_say_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, to="none") == "not-exercised"
