"""Says whether a run ended before a client sent a record, so that nothing of it can be judged or shown."""

from __future__ import annotations

from pathlib import Path

from ebbtide.journal.convert import JOURNAL_SUFFIX
from ebbtide.record.files import JOURNAL_DIR
from ebbtide.record.manifest import Manifest
from ebbtide.record.tables import table_files
from ebbtide.untrusted.parquet import footer_of


def ended_before_sending(record: Path, manifest: Manifest) -> bool:
    """Whether the run did not complete, and nothing was sent before.

    A complete run without rows is a copy that lost them, so nothing can be said of its records.
    """
    if manifest.status == "complete" or any((record / JOURNAL_DIR).glob(f"*{JOURNAL_SUFFIX}")):
        return False
    tables = [path for table in ("sends", "polls", "replicas") for path in table_files(record, table)]
    return not any(footer_of(path).num_rows for path in tables)
