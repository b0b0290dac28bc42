"""hw-is-in-each-log-of-the-isr: the HW of a follower is not above the end of another one's log."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import status_of

from analysis.judge.rules.leaders import hw_is_in_each_log_of_the_isr as rule

LED = "leader=1; at=40 leader=2 isr=2,3"
KILLED = "step=kill nodes=1 at=30"


def line(broker: int, end: int, hw: int, at: int = 41, epoch: int = 1, before: int = 0) -> str:
    """What a broker writes as an epoch begins."""
    says = (
        f"Follower t-0 starts at leader epoch {epoch} from offset {end} with partition epoch 1 and high watermark {hw}."
    )
    says += f" Current leader is 2. Previous leader Some(1) and previous leader epoch was {before}."
    return f"node=broker-{broker} at={at} says={says.replace(' ', '_')}"


def status(folder: Path, *lines: str, led: str = LED, steps: str = KILLED) -> str:
    """What the clause finds: broker 1 is killed at 30 s, and the next epoch begins at 40 s."""
    rows = f"partitions: {led}\nsteps: {steps}\nlogs: {'; '.join(lines)}"
    return status_of(rule, folder, rows)


@pytest.mark.parametrize(("hw", "found"), [(8, "violated"), (7, "holds")])
def test_a_hw_is_not_above_the_end_of_another_log(tmp_path: Path, hw: int, found: str) -> None:
    assert status(tmp_path, line(2, 9, hw), line(3, 7, 5)) == found


def test_the_line_of_a_leader_counts_too(tmp_path: Path) -> None:
    says = "Leader t-0 with topic id Some(x) starts at leader epoch 1 from offset 7 with partition epoch 1,"
    leads = f"{says} high watermark 7, ISR [2,3]. Previous leader Some(1) and previous leader epoch was 0.".replace(
        " ", "_"
    )
    assert status(tmp_path, f"node=broker-2 at=41 says={leads}", line(3, 9, 9)) == "violated"


@pytest.mark.parametrize(
    "other",
    [
        line(3, 7, 5, epoch=2),
        line(3, 7, 5, before=-1),  # its process began after the old epoch
        line(3, 7, 5, at=29),  # the old leader was still there
        line(1, 7, 5),
    ],
)
def test_only_lines_between_which_nothing_changed_are_compared(tmp_path: Path, other: str) -> None:
    led = LED if other != line(1, 7, 5) else "leader=1; at=20 isr=2,3; at=40 leader=2"
    assert status(tmp_path, line(2, 9, 9), other, led=led) == "not-exercised"


def test_the_old_leader_that_starts_again_at_once_may_have_lost_its_log(tmp_path: Path) -> None:
    assert status(tmp_path, line(2, 9, 9), line(1, 0, 0)) == "not-exercised"


def test_a_replica_outside_the_isr_may_lack_the_record(tmp_path: Path) -> None:
    led = "leader=1; at=20 isr=1,2; at=40 leader=2 isr=2"
    assert status(tmp_path, line(2, 9, 9), line(3, 7, 5), led=led) == "not-exercised"


@pytest.mark.parametrize(
    ("led", "steps"),
    [
        (LED, "step=stop nodes=3 at=30"),  # the old leader may have gone on
        (LED, f"step=power-loss nodes=3 at=20; {KILLED}"),
        ("leader=3; at=20 leader=1 isr=1 leader_recovery_state=1; at=25 isr=1,2,3; at=40 leader=2 isr=2,3", KILLED),
    ],
)
def test_where_a_log_may_lack_records_nothing_is_compared(tmp_path: Path, led: str, steps: str) -> None:
    lines = line(2, 9, 9), line(3, 7, 5)
    assert status(tmp_path, *lines, led=led, steps=steps) == "not-exercised"


def test_where_a_controller_lost_its_log_the_isr_may_be_an_older_one(tmp_path: Path) -> None:
    steps = f"{KILLED}; step=wipe-disk nodes=100 at=60"
    assert status(tmp_path, line(2, 9, 8), line(3, 7, 5), steps=steps) == "unknown"


def test_what_the_old_leader_itself_lost_does_not_matter(tmp_path: Path) -> None:
    assert status(tmp_path, line(2, 9, 9), line(3, 7, 5), steps="step=power-loss nodes=1 at=30") == "violated"
