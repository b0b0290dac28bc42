"""Brokers are seen to describe an ELR, where one stands for many sampling intervals."""

from __future__ import annotations

from pathlib import Path

import pytest
from live.commands import ebbtide, records_in

from ebbtide.record.verdict import read_verdict

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_an_elr_that_stands_for_a_second_is_described_as_the_metadata_log_has_it(tmp_path: Path) -> None:
    done = ebbtide("run", "api-agrees-with-log", "--kafka", "4.3.1", "--runs", tmp_path / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = records_in(tmp_path / "runs")
    verdict = read_verdict(record)
    assert verdict is not None
    (agrees,) = [one for one in verdict.properties if one.name == "api-agrees-with-log"]
    assert agrees.status == "holds", agrees.evidence
    assert verdict.coverage["described-elr"] > 0
    assert verdict.coverage["described-last-known-elr"] > 0
