"""What root tests share: a run id of their own, and a ledger whose test must leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_state import HostState

from cluster.host.ledger import Ledger


@pytest.fixture
def run_id() -> str:
    """A run id that no other test on this host uses at the same time."""
    return f"test-{os.getpid()}-{os.urandom(3).hex()}"


@pytest.fixture
def ledger(run_id: str, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger whose test must leave nothing on the host."""
    before = HostState.now()
    with Ledger.open(run_id, tmp_path, ledgers=tmp_path / "ledger") as opened:
        yield opened
    assert HostState.now().left_since(before, run_id, str(tmp_path)) == []
