"""What the tests of a run share."""

from __future__ import annotations

from pathlib import Path

import pytest
from schedule_bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)
