"""What a log has of an idempotent producer says whether its leader checked epochs and sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
from clause_cases import checked, judged
from worked_examples import MadeRule, example_of, record_of

from analysis.judge.rules.appends import idempotent_appends_are_in_order as rule

Log = list[tuple[int, int, int] | str]
"""Of each offset the producer id, its epoch and the sequence. A number as text is a marker; a word is a gap."""


def found(folder: Path, log: Log, steps: str = "") -> tuple[str, str]:
    """What the clause finds in a log: the status, and the offset of the first record that should not be there."""
    rows = []
    for offset, one in enumerate(log):
        if isinstance(one, str):
            if one.isdigit():
                rows.append(f"offset={offset} producer_id=7 producer_epoch={one} sequence=-1 control=true")
        else:
            rows.append(
                f"offset={offset} value={offset} producer_id={one[0]} producer_epoch={one[1]} sequence={one[2]}"
            )
    text = ";\n  ".join(f"broker=1 {row}" for row in rows)
    example = example_of(MadeRule(example=f"Rows.\nsetting: idempotent sends\nreplicas: {text}\n{steps}\ngives:"))
    record_of(example, folder / "record")
    one = checked(rule, judged(folder / "record")).found
    return one.status, str(one.evidence[0].get("offset", "")) if one.evidence else ""


@pytest.mark.parametrize(
    "log",
    [
        [(7, 0, 0), (7, 0, 1), "0", (7, 0, 2)],
        [(7, 0, 0), "1", (7, 1, 0), (7, 1, 1)],
        [(7, 0, 5), (8, 3, 0), (7, 0, 6), (8, 3, 1)],
        [(7, 0, 2**31 - 1), (7, 0, 0)],
        [(7, 0, 0), "missing", (7, 0, 2)],
        [(-1, -1, -1), (-1, -1, -1)],
        [(7, 0, 4), (7, 0, 4)],  # a duplicate
    ],
)
def test_epochs_rise_and_sequences_follow(tmp_path: Path, log: Log) -> None:
    assert found(tmp_path, log)[0] in ("holds", "not-exercised")


@pytest.mark.parametrize("log", [[(7, 1, 0), (7, 0, 4)], [(7, 0, 0), "1", (7, 0, 1)], [(7, 1, 0), (8, 0, 0), "0"]])
def test_an_old_epoch_stands_behind_no_newer_one(tmp_path: Path, log: Log) -> None:
    assert found(tmp_path, log) == ("violated", str(len(log) - 1))


@pytest.mark.parametrize(
    "log", [[(7, 0, 0), (7, 0, 2)], [(7, 0, 0), (8, 0, 0), (7, 0, 9)], [(7, 0, 2**31 - 1), (7, 0, 1)]]
)
def test_no_sequence_is_skipped(tmp_path: Path, log: Log) -> None:
    assert found(tmp_path, log) == ("violated", str(len(log) - 1))


@pytest.mark.parametrize(
    "steps",
    [
        "steps: step=set-clock nodes=1 at=5",
        "steps: step=set-config nodes=1 at=5 config=producer.id.expiration.ms",
    ],
)
def test_what_makes_brokers_forget_producers_accuses_nobody(tmp_path: Path, steps: str) -> None:
    assert found(tmp_path, [(7, 0, 0), (7, 0, 2)], steps)[0] == "unknown"
