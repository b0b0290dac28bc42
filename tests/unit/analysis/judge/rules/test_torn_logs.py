"""recovery-cuts-a-torn-log: what a step tore is gone once the broker has started."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import pytest
from clause_cases import checked, judged
from worked_examples import MadeRule, example_of, record_of
from worked_steps import TORN_AT

from analysis.evidence.replicas import write_replicas
from analysis.judge.rules.losses import recovery_cuts_a_torn_log as rule
from ebbtide.record.files import RecordFolder

TORN, START = "step=torn-write nodes=2 at=20", "step=start nodes=2 at=30"
BACK = "at=31 broker=2; at=32 broker=2 event=unfenced"


def status(folder: Path, *, steps: str = f"{TORN}; {START}", brokers: str = BACK, log: bytes | None = None) -> str:
    """What the clause finds; `log`: what raw/ has instead of the torn page."""
    rows = f"Rows.\npartitions: leader=1\nsteps: {steps}\nbrokers: {brokers}\nsetting: torn=2\ngives:"
    record_of(example_of(MadeRule(example=rows)), folder / "record")
    if log is not None:
        build.write_log(folder / "record" / "raw" / "broker-2" / "t-0", log)
        write_replicas(RecordFolder(folder / "record"), lambda _: None)
    return checked(rule, judged(folder / "record")).found.status


def batch(offset: int, size: int) -> bytes:
    """A batch with a payload of so many bytes."""
    return build.batch(offset, [(None, b"y" * size, ())])


def test_a_torn_batch_that_is_there_after_a_start_was_not_cut(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"


@pytest.mark.parametrize(
    "log",
    [
        batch(0, TORN_AT) + batch(1, TORN_AT),  # cut, and replicated again
        batch(0, 5 * TORN_AT)[: 2 * TORN_AT],  # cut, and the end of the process tore the next write
        batch(0, 10) + bytes(2 * TORN_AT),  # a file that was made longer before
        b"",
    ],
    ids=["whole", "torn-anew", "preallocated", "empty"],
)
def test_what_came_after_the_cut_is_not_the_tear(tmp_path: Path, log: bytes) -> None:
    assert status(tmp_path, log=log) == "holds"


@pytest.mark.parametrize(
    ("steps", "brokers"),
    [
        (f"{TORN} effect=-; {START}", BACK),
        (TORN, BACK),
        (f"{TORN}; {START}", "at=31 broker=2"),  # it may load its logs still
        (f"{TORN}; {START}", "at=25 broker=2; at=26 broker=2 event=unfenced"),
        (f"{TORN}; {START}; step=power-loss nodes=2 at=40", BACK),
    ],
    ids=["not-proven", "not-started", "not-unfenced", "unfenced-before", "lost-power-again"],
)
def test_only_a_broker_that_started_on_the_tear_must_have_cut_it(tmp_path: Path, steps: str, brokers: str) -> None:
    assert status(tmp_path, steps=steps, brokers=brokers) == "not-exercised"


def test_without_the_list_of_damages_it_is_unknown(tmp_path: Path) -> None:
    record_of(example_of(rule.RULE), tmp_path / "record")
    (tmp_path / "record" / "evidence.json").unlink()
    assert checked(rule, judged(tmp_path / "record")).found.status == "unknown"
