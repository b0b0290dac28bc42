"""bench.kill_harnesses takes no ledger of somebody else for a leftover of its own kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kill_harnesses import is_of_another
from cluster.host.ledger import Ledger


def ledger_of(run_folder: Path, home: Path) -> Path:
    """The bytes of a ledger whose run is in `run_folder`, as a killed harness leaves it."""
    with Ledger.open("a-run", run_folder, ledgers=home / "ledger") as ledger:
        left = home / "left.jsonl"
        left.write_bytes(ledger.path.read_bytes())
    return left


@pytest.mark.parametrize(
    ("run", "is_other"),
    [("kills/runs/one", False), ("kills/tmp/scratch", False), ("elsewhere/runs/one", True), ("kills-2/runs", True)],
)
def test_a_ledger_is_somebody_elses_if_its_run_lies_elsewhere(run: str, is_other: bool, tmp_path: Path) -> None:
    assert is_of_another(ledger_of(tmp_path / run, tmp_path), tmp_path / "kills") is is_other


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"line":"made","number":1}\n', bytes(range(128, 192))],
    ids=["empty", "cut", "no first line", "noise"],
)
def test_a_ledger_that_cannot_be_read_counts_as_a_leftover(content: bytes, tmp_path: Path) -> None:
    damaged = tmp_path / "a-run.damaged"
    damaged.write_bytes(content)
    assert not is_of_another(damaged, tmp_path / "kills")
    assert not is_of_another(tmp_path / "gone.jsonl", tmp_path / "kills")
