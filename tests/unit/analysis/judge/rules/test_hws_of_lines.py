"""The two clauses on the HWs that brokers log: none above a later epoch's start, none below what the leader sent."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from clause_cases import lost_by_an_unknown_election, status_of

from analysis.judge.rules.leaders import follower_takes_over_the_hw as takes_over
from analysis.judge.rules.leaders import no_hw_above_a_later_epoch_start as above


def leads(broker: int, at: float, *, epoch: int, end: int, hw: int, before: int = -1) -> str:
    """The line of a broker that begins to lead."""
    says = f"Leader t-0 starts at leader epoch {epoch} from offset {end} with partition epoch 1, high watermark {hw}."
    return _line(broker, at, says, before)


def follows(broker: int, at: float, *, epoch: int, end: int, hw: int, before: int = -1) -> str:
    """The line of a broker that begins to follow."""
    says = (
        f"Follower t-0 starts at leader epoch {epoch} from offset {end} with partition epoch 1 and high watermark {hw}."
    )
    return _line(broker, at, says, before)


def _line(broker: int, at: float, says: str, before: int) -> str:
    says = f"{says} The previous leader epoch was {before}.".replace(" ", "_")
    return f"node=broker-{broker} at={at} says={says}"


def found(rule: ModuleType, folder: Path, logs: list[str], **rows: str) -> str:
    """What a clause finds."""
    rows = {"partitions": "leader=1; at=40 leader=2 isr=2,3", **rows, "logs": "; ".join(logs)}
    text = "\n".join(f"{table}: {lines}" for table, lines in rows.items())
    return status_of(rule, folder, text)


FIRST = [follows(3, 1, epoch=0, end=0, hw=0), leads(2, 41, epoch=1, end=7, hw=7, before=0)]
TOO_HIGH = follows(3, 50, epoch=1, end=9, hw=8)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (TOO_HIGH, "violated"),
        (follows(3, 42, epoch=1, end=9, hw=8, before=0), "violated"),
        (leads(3, 60, epoch=2, end=9, hw=8), "violated"),
        (follows(3, 50, epoch=1, end=9, hw=7), "holds"),
    ],
    ids=["after-a-start", "in-the-process", "in-a-later-epoch", "at-the-start"],
)
def test_a_hw_of_an_older_epoch_is_not_above_the_start_of_a_newer_one(tmp_path: Path, line: str, status: str) -> None:
    assert found(above, tmp_path, [*FIRST, line]) == status


def test_a_hw_of_the_same_epoch_may_be_above_its_start(tmp_path: Path) -> None:
    again = follows(3, 60, epoch=1, end=99, hw=99)
    assert found(above, tmp_path, [*FIRST, follows(3, 50, epoch=1, end=7, hw=7), again]) == "holds"


def test_the_first_line_of_a_broker_says_nothing_of_where_it_was(tmp_path: Path) -> None:
    assert found(above, tmp_path, [FIRST[1], TOO_HIGH]) == "not-exercised"


@pytest.mark.parametrize(
    ("led", "status"),
    [
        ("at=30 isr=1 elr=2,3; at=40 leader=2 isr=2 elr=3", "not-exercised"),
        ("at=40 leader=2 isr=2,3; at=50 isr=2 elr=3; at=55 leader=3 isr=3 elr=2", "violated"),
    ],
)
def test_starts_of_epochs_count_before_an_election_from_a_wrong_elr(tmp_path: Path, led: str, status: str) -> None:
    rows = f"partitions: leader=1; {led}\nlogs: {'; '.join([*FIRST, TOO_HIGH])}"
    assert status_of(above, tmp_path, rows, [lost_by_an_unknown_election()]) == status


LAGS = [leads(2, 41, epoch=1, end=7, hw=3, before=0)]
SENT = {"sends": "5=1 at=20; 6=2 at=25", "watermarks": "high_watermark=5 at=10"}


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "violated"),
        ({"logs": leads(2, 41, epoch=1, end=7, hw=5, before=0)}, "holds"),
        ({"logs": leads(2, 41, epoch=1, end=7, hw=3)}, "not-exercised"),  # it had started again
        ({"partitions": "leader=1 isr=1,3; at=15 isr=1,2,3; at=40 leader=2 isr=2,3"}, "not-exercised"),
        ({"partitions": "leader=2; at=40 leader=3 isr=2,3"}, "not-exercised"),  # it led itself
        ({"watermarks": "high_watermark=3 at=10"}, "holds"),
        ({"watermarks": "high_watermark=5 at=10 source=checkpoint"}, "holds"),
        ({"watermarks": "high_watermark=5 at=22"}, "holds"),
        ({"sends": "5=1 at=20"}, "holds"),  # the HW may have come with the next fetch only
        ({"sends": "5=1 at=20; 6=2 at=20.001"}, "holds"),  # both may have come with one fetch
        ({"sends": "5=1 at=20 acks=1; 6=2 at=25 acks=1"}, "holds"),
        ({"sends": "5=1 at=20; 6=2 at=39.999"}, "holds"),
    ],
)
def test_a_follower_has_the_hw_that_came_with_what_it_fetched(
    tmp_path: Path, more: dict[str, str], status: str
) -> None:
    rows = {**SENT, **more}
    assert found(takes_over, tmp_path, [rows.pop("logs", LAGS[0])], **rows) == status


@pytest.mark.parametrize(
    ("rule", "logs"), [(above, [*FIRST, TOO_HIGH]), (takes_over, LAGS)], ids=["above", "takes-over"]
)
@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ({"steps": "step=wipe-disk nodes=3 at=45"}, "not-exercised"),
        ({"steps": "step=wipe-disk nodes=100 at=45"}, "unknown"),
        ({"partitions": "leader=1; at=39 leader=-1 isr=3; at=40 leader=2 isr=2"}, "not-exercised"),
    ],
    ids=["a-replica-lost-its-log", "a-controller-lost-its-log", "unclean-election"],
)
def test_what_may_have_taken_committed_records_excuses(
    tmp_path: Path, rule: ModuleType, logs: list[str], rows: dict[str, str], status: str
) -> None:
    more = SENT if rule is takes_over else {}
    assert found(rule, tmp_path, logs, **{**more, **rows}) == status
