"""acked-under-the-epoch-in-force: no acked record has a leader epoch that was over when it was sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.appends import acked_under_the_epoch_in_force as rule

LED = "leader=1; at=5 leader=2"
ANSWERED = "broker=2 leader_epoch=1 high_watermark=0 at=10"
SENT = "at=20 value=1 offset=0"
STORED = "broker=1 value=1 offset=0"


def status(folder: Path, *, led: str = LED, answered: str = ANSWERED, sent: str = SENT, stored: str = STORED) -> str:
    """What the clause finds: broker 2 led from 5 s on and answered at 10 s; a record was sent at 20 s, to epoch 0."""
    rows = f"partitions: {led}\nwatermarks: {answered}\nsends: {sent}\nreplicas: {stored}"
    return status_of(rule, folder, rows)


def test_a_record_sent_after_a_newer_leader_answered_is_not_of_the_old_epoch(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"


@pytest.mark.parametrize(
    "sent",
    [
        "at=9 value=1 offset=0",  # before the new leader answered: the old leader may still have committed it
        "at=20 value=1 offset=0 acks=1",  # a deposed leader acks it alone
        "at=20 value=1 offset=0 status=unknown",
        "at=20 value=2 offset=0",  # it is lost, and an old record has its offset
    ],
)
def test_a_record_that_the_old_leader_may_have_acked_is_none(tmp_path: Path, sent: str) -> None:
    assert status(tmp_path, sent=sent) == "holds"


@pytest.mark.parametrize(
    "led",
    [
        "leader=1 isr=1; at=5 leader=2",  # the old leader did not wait for it
        "leader=1; at=3 isr=1,3; at=5 leader=2",
    ],
)
def test_a_new_leader_that_was_outside_the_isr_says_nothing(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "not-exercised"


def test_a_new_leader_that_was_restarted_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, answered=f"{ANSWERED}\nbrokers: broker=2 at=12") == "not-exercised"


def test_a_log_outside_the_last_isr_may_have_the_copy_of_a_deposed_leader(tmp_path: Path) -> None:
    assert status(tmp_path, led=f"{LED}; at=30 leader=2 isr=2,3") == "holds"
    assert status(tmp_path / "isr", led=f"{LED}; at=30 leader=2 isr=1,2") == "violated"


def test_an_old_epoch_whose_last_states_may_be_missing_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, led="leader=1") == "not-exercised"


@pytest.mark.parametrize(
    "doubt",
    [
        "\nsteps: step=wipe-disk nodes=2 at=25",
        "; at=26 leader=1 isr=1 leader_recovery_state=1",
    ],
)
def test_a_copy_that_survived_a_loss_leaves_the_clause_unknown(tmp_path: Path, doubt: str) -> None:
    assert status(tmp_path, led=LED + doubt) == "unknown"


@pytest.mark.parametrize("source", ["fetch", "checkpoint"])
def test_only_an_answer_for_the_latest_offset_shows_the_epoch_of_a_leader(tmp_path: Path, source: str) -> None:
    assert status(tmp_path, answered=f"{ANSWERED} source={source}") == "not-exercised"


def test_a_record_of_the_new_epoch_is_as_it_must_be(tmp_path: Path) -> None:
    early = "at=2 value=1 offset=0; at=20 value=2 offset=1"
    assert status(tmp_path, sent=early, stored=f"{STORED}; broker=1 value=2 offset=1 leader_epoch=1") == "holds"


def test_a_late_record_is_found_beside_blocks_of_the_new_epoch(tmp_path: Path) -> None:
    stored = f"{STORED}; broker=1 value=2 offset=64 leader_epoch=1"
    assert status(tmp_path, sent=f"{SENT}; at=21 value=2 offset=64", stored=stored) == "violated"


def test_a_late_record_is_found_behind_many_that_others_took_the_place_of(tmp_path: Path) -> None:
    replaced = "; ".join(f"at=20 value={100 + offset} offset={offset}" for offset in range(30))
    stored = "; ".join(f"broker=1 value={offset} offset={offset}" for offset in range(30))
    sent = f"{replaced}; at=20 value=30 offset=30"
    assert status(tmp_path, sent=sent, stored=f"{stored}; broker=1 value=30 offset=30") == "violated"
