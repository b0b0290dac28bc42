"""The table of runs of several scenarios: a row for each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import EbbtideError
from ebbtide.record.folder import RecordFolder

if TYPE_CHECKING:
    from harness.runner.run import RunRequest


def print_run_table(requests: Sequence[RunRequest], ends: Sequence[Path | EbbtideError]) -> None:
    """Print a row for each run: its outcome, its counts, and its record or that it failed."""
    from harness.cli.output import print_table

    print()
    headers = ("scenario", "kafka", "outcome", "acked", "lost", "record")
    rows = [(one.scenario.name, one.kafka, *_cells(end)) for one, end in zip(requests, ends, strict=True)]
    print_table(headers, rows)


def _cells(end: Path | EbbtideError) -> tuple[str, str, str, str]:
    from ebbtide.record.outcomes import outcome_word
    from ebbtide.record.verdict import read_verdict, unfinished_verdict
    from ebbtide.shown_text import shown_path
    from harness.cli.runs import judged_counts, shown_count

    if isinstance(end, EbbtideError):
        return "failed", "-", "-", "-"
    record = RecordFolder(end)
    verdict = read_verdict(record)
    if verdict is None or verdict == unfinished_verdict(verdict.run_id):
        return "not judged", "-", "-", shown_path(end)
    acked, lost = judged_counts(record, verdict)
    return outcome_word(verdict), shown_count(acked), shown_count(lost), shown_path(end)
