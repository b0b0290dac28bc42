"""What pytest shows of a run where a test fails."""

from __future__ import annotations

from checkout import DATA

from ebbtide.pytest_plugin.run_record import read_record


def test_a_run_is_shown_in_one_short_line() -> None:
    run = read_record(DATA / "runs" / "last-replica-standing-3.9.1")
    assert repr(run) == f"RunRecord({str(run.path)!r}, as-predicted, lost=2000)"
