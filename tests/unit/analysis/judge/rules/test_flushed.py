"""flushed-before-the-ack: with flush.messages=1, a power loss takes no record that the replica had to ack."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.losses import flushed_before_the_ack as rule

FLUSHED = "resource=topic:t name=flush.messages value=1 at=0.9"
LOSS = "step=power-loss nodes=2 at=30 leo=4,3"


def status(
    folder: Path, *, sent: str = "3=1 at=20", led: str = "leader=1", set_to: str = FLUSHED, steps: str = LOSS
) -> str:
    """What the clause finds: a power loss at 30 s takes offset 3 from broker 2, which was acked at 20 s."""
    rows = f"partitions: {led}\nconfigs: {set_to}\nsends: {sent}\nsteps: {steps}"
    return status_of(rule, folder, rows)


def test_a_power_loss_takes_no_record_that_was_acked(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"


@pytest.mark.parametrize(
    "sent",
    [
        "2=1 at=20",  # below what was taken
        "4=1 at=20",  # it was never there
        "3=1 at=20 acks=1",  # broker 2 need not have had it
        "3=1 at=20 status=unknown",
        "3=1 at=29.9999",  # acked as the process ended
        "3=1 at=1.2",  # when the leader epoch may not have begun everywhere
    ],
)
def test_only_what_the_replica_had_to_ack_was_flushed(tmp_path: Path, sent: str) -> None:
    assert status(tmp_path, sent=sent) == "holds"


@pytest.mark.parametrize(
    "set_to",
    [
        "resource=topic:t name=flush.messages value=2 at=0.9",
        "resource=topic:other name=flush.messages value=1 at=0.9",
        f"{FLUSHED}; resource=topic:t name=flush.messages value=- at=40",
        "resource=topic:t name=flush.messages value=1 at=10",  # nobody knows when broker 2 learnt of it
    ],
)
def test_only_a_topic_that_has_the_config_all_the_time_is_judged(tmp_path: Path, set_to: str) -> None:
    assert status(tmp_path, set_to=set_to) == "not-exercised"


@pytest.mark.parametrize("led", ["leader=1 isr=1,3; at=25 isr=1,2,3", "leader=1 isr=1,3; at=15 leader=3 isr=1,2,3"])
def test_a_replica_that_joined_the_isr_may_have_fetched_the_record_later(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "not-exercised"


@pytest.mark.parametrize(
    "steps",
    [
        "step=torn-write nodes=2 at=30 leo=4,3",
        "step=wipe-disk nodes=2 at=30 leo=4,0",
        "step=power-loss nodes=2 at=30",  # nothing was measured
        f"{LOSS} method=truncate",
    ],
)
def test_only_a_power_loss_that_the_kernel_made_says_what_was_flushed(tmp_path: Path, steps: str) -> None:
    assert status(tmp_path, steps=steps) == "not-exercised"


@pytest.mark.parametrize(
    ("led", "set_to", "before"),
    [
        ("leader=1; at=10 leader=3 isr=1,2,3 leader_recovery_state=1", FLUSHED, ""),
        ("leader=1", FLUSHED, "step=fail-disk nodes=2 at=10; "),
        ("leader=1", FLUSHED, "step=delete-records nodes=1 at=10 partition=t-0; "),
        ("leader=1", FLUSHED, "step=set-clock nodes=1 at=10; "),
        ("leader=1", f"{FLUSHED}; resource=topic:t name=retention.ms value=1 at=0.9", ""),
    ],
)
def test_what_may_have_taken_or_replaced_the_record_leaves_a_doubt(
    tmp_path: Path, led: str, set_to: str, before: str
) -> None:
    assert status(tmp_path, led=led, set_to=set_to, steps=before + LOSS) == "unknown"


def test_trouble_with_another_disk_is_no_doubt(tmp_path: Path) -> None:
    assert status(tmp_path, steps=f"step=fail-disk nodes=3 at=10; {LOSS}") == "violated"
