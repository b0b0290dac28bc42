"""Says whether a run ended before a client sent a record, so that nothing of it can be judged or shown."""

from __future__ import annotations

from pathlib import Path

from analysis.record.files import RecordFiles
from ebbtide.journal.convert import has_journals
from ebbtide.record.verdict import Counts

_TABLES = ("sends", "polls", "replicas")
"""The tables that have a row for a record that a client sent."""


def ended_before_sending(record: RecordFiles, counts: Counts) -> bool:
    """Whether the run did not complete, and nothing was sent before.

    `counts` are those of its judgement. A record that lost its tables has no rows either: then the counts or SHA256SUMS
    may have what was there. A complete run without rows is such a copy too, so nothing can be said of its records.
    """
    if record.manifest.status == "complete" or counts.sends or counts.polls:
        return False
    if has_journals(record.folder):
        return False
    left = (name for name in record.sums or {} if Path(name).parts[0].partition(".")[0] in _TABLES)
    if record.folder.missing(left):
        return False
    return not any(file.footer.num_rows for table in _TABLES for file in record.files(table))
