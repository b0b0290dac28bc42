"""What a manifest says of its run."""

from __future__ import annotations

from ebbtide.errors import UsageError
from ebbtide.record.manifest import Manifest


def test_an_old_record_says_why_its_run_is_incomplete_without_the_advice() -> None:
    error = UsageError("no such setting", where="topics.t.config", allowed="a topic setting", next="correct it")
    manifest = Manifest(run_id="old", status="failed", failure=str(error))
    assert manifest.why_incomplete == "no such setting where: topics.t.config"
    assert Manifest(run_id="new", failure_clause="no such setting (a.b)", failure=str(error)).why_incomplete == (
        "no such setting (a.b)"
    )
    assert Manifest(run_id="whole").why_incomplete is None


def test_a_long_reason_keeps_its_beginning_and_its_end() -> None:
    log = "broker-1 died by itself (" + "a line of its log " * 100 + "FATAL: why)"
    reason = Manifest(run_id="long", failure_clause=log).why_incomplete or ""
    assert reason.startswith("broker-1 died by itself (a line")
    assert reason.endswith(f"FATAL: why) ({len(log):,} characters)")
    assert len(reason) < 700
