"""Run records as arguments of a command."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ebbtide.errors import UsageError
from ebbtide.shown_text import plural

_NAMED_MAX = 3


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


def note_left_out(records: Sequence[Path], *, going: Sequence[Path], plain: Sequence[Path]) -> None:
    """Print one line that names what `analyze` leaves out of a folder.

    It prints nothing if it leaves out nothing. Some of the records are of runs that are `going`, or of `plain`
    clusters. A folder of something else may have been meant as a record; a file, or what is hidden, is not.
    """
    from ebbtide.record.manifest import MANIFEST
    from ebbtide.untrusted.files import is_folder

    known = set(records)
    others = sorted(
        path
        for folder in {record.parent for record in records}
        for path in folder.iterdir()
        if path not in known and not path.name.startswith(".")
    )
    parts = [
        f"{plural(len(paths), noun)}{which} ({_names_of(paths)})"
        for noun, which, paths in (
            ("run", " still running", going),
            ("plain cluster", "", plain),
            ("folder", f" without {MANIFEST}", [path for path in others if is_folder(path)]),
        )
        if paths
    ]
    if parts:
        print(f"left out of {records[0].parent}: {', '.join(parts)}", file=sys.stderr)


def refuse_folder_of_folders(folder: Path) -> None:
    """Raise `UsageError` with the folders to type, if the folders of this folder have records in them."""
    from ebbtide.record.manifest import MANIFEST

    below = sorted({path.parent.parent for path in folder.glob(f"[!.]*/[!.]*/{MANIFEST}")})
    if below:
        raise UsageError(
            "no run record in this folder, but in folders below it",
            where=str(folder),
            got=_names_of(below),
            allowed="run records, or folders of run records",
            next=f"ebbtide analyze {shlex.join(map(str, below[:_NAMED_MAX]))}",
        )


def _names_of(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else ""
    return ", ".join(path.name for path in paths[:_NAMED_MAX]) + more
