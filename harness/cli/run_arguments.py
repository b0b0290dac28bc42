"""Run records as arguments of a command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def without_files_beside(paths: Sequence[Path]) -> list[Path]:
    """Return the paths without the files that lie beside a run record of the list; a note names each.

    `runs/*` also names the pages of comparisons, which lie there. A file anywhere else is a mistake, and stays.
    """
    from ebbtide.record.manifest import is_record

    folders = {path.parent for path in paths if is_record(path)}
    kept = []
    for path in paths:
        if path.parent in folders and path.is_file():
            print(f"{path}: a file, and not a run record, so it is skipped", file=sys.stderr)
        else:
            kept.append(path)
    return kept
