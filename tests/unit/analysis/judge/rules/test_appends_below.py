"""no-acks-all-append-below-min-isr: what a leader must refuse below min ISR is in no log."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.appends import no_acks_all_append_below_min_isr as rule

ALONE = "leader=1; at=5 isr=1"
GROWN = f"{ALONE}; at=30 isr=1,2"
BEGINS = "2=2 acks=1 at=10"
ENDS = "4=4 acks=1 at=20"
FIRST = "broker=1 2=2"
REST = "broker=1 4=4"


def status(
    folder: Path,
    *,
    led: str = GROWN,
    sent: str = "value=3 status=unknown at=12",
    others: tuple[str, str] = (BEGINS, ENDS),
    stands: str = f"{FIRST}; broker=1 3=3; {REST}",
    more: str = "",
) -> str:
    """What the clause finds: broker 1 leads alone from 5 s to 30 s. A record of acks=all stands between two others."""
    rows = f"partitions: {led}\nsends: {'; '.join([sent, *others])}\nreplicas: {stands}\n{more}"
    return status_of(rule, folder, rows)


def test_a_record_that_stands_between_others_of_the_stretch_was_appended_in_it(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"
    assert status(tmp_path / "acks-1", sent="value=3 acks=1 status=unknown at=12; value=9 at=12") == "holds"


def test_a_record_that_was_sent_before_and_again_in_the_stretch_counts_by_its_place(tmp_path: Path) -> None:
    assert status(tmp_path, sent="value=3 status=unknown at=4; value=9 status=failed at=12") == "violated"


def test_a_record_may_have_been_appended_before_the_leader_knew(tmp_path: Path) -> None:
    early = "value=3 status=unknown at=4; value=9 status=failed at=12"
    assert status(tmp_path, sent=early, stands=f"broker=1 1=3; {FIRST}; {REST}") == "holds"


@pytest.mark.parametrize(
    "ends",
    [
        "4=4 acks=1 at=31",
        "4=4 acks=0 at=20",  # no broker acked it
        "4=4 acks=1 status=failed at=20",
        "1=4 acks=1 at=20",  # a copy of it was acked, the one at offset 4 perhaps later
    ],
)
def test_a_record_may_have_been_appended_once_the_isr_had_grown(tmp_path: Path, ends: str) -> None:
    assert status(tmp_path, others=(BEGINS, ends)) == "holds"


def test_a_hw_above_the_record_shows_that_it_was_there(tmp_path: Path) -> None:
    served = "watermarks: high_watermark=4 at=20\n"
    assert status(tmp_path, others=(BEGINS, BEGINS), stands=f"{FIRST}; broker=1 3=3", more=served) == "violated"
    late = "watermarks: high_watermark=4 at=31\n"
    assert status(tmp_path / "late", others=(BEGINS, BEGINS), stands=f"{FIRST}; broker=1 3=3", more=late) == "holds"


def test_where_the_isr_never_grew_nobody_need_have_answered(tmp_path: Path) -> None:
    assert status(tmp_path, led=ALONE, others=(BEGINS, BEGINS), stands="broker=1 3=3") == "violated"
    assert status(tmp_path / "grew", others=(BEGINS, BEGINS), stands="broker=1 3=3") == "holds"


def test_a_record_that_another_leader_appended_was_not_appended_below_min_isr(tmp_path: Path) -> None:
    led = f"{ALONE}; at=30 leader=2 isr=1,2"
    stands = f"{FIRST}; broker=2 3=3 leader_epoch=1"
    assert status(tmp_path, led=led, stands=stands) == "holds"


def test_a_leader_that_registered_again_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, more="brokers: broker=1 at=15\n") == "not-exercised"


def test_where_a_controller_lost_its_log_another_leader_may_have_had_that_epoch(tmp_path: Path) -> None:
    assert status(tmp_path, more="steps: step=wipe-disk nodes=100 at=40\n") == "unknown"


def test_an_isr_of_min_isr_takes_the_record(tmp_path: Path) -> None:
    assert status(tmp_path, led="leader=1; at=5 isr=1,2") == "not-exercised"


def test_a_record_that_is_sent_before_the_leader_surely_knew_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, sent="value=3 at=5.3", others=(), stands="broker=1 3=3") == "not-exercised"
