"""The values of --rule, which judges records with rules of the user, too."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ebbtide.record.folder import RecordFolder
from ebbtide.untrusted.files import path_from

_paths: tuple[Path, ...] = ()


@contextmanager
def judged_with(files: Sequence[str]) -> Iterator[None]:
    """Judge all records of the block with the rules in some files, too. Raises `UsageError` for a wrong file."""
    global _paths
    if not files:
        yield
        return
    from analysis.judge.rules.own import own_rules

    paths = tuple(path_from(file).absolute() for file in files)
    with own_rules(paths):
        before, _paths = _paths, paths
        try:
            yield
        finally:
            _paths = before


def judging_options() -> list[str]:
    """Return the options of `ebbtide analyze` with which it judges as this command does."""
    return [word for path in _paths for word in ("--rule", str(path))]


def note_missing_rules(records: Sequence[Path]) -> None:
    """Print a note for each record that was judged before with rules which are not given now."""
    from ebbtide.record.verdict import read_verdict

    given = {path.stem.replace("_", "-") for path in _paths}
    for record in records:
        verdict = read_verdict(RecordFolder(record))
        if missing := [one.file for one in verdict.own_rules if one.name not in given] if verdict is not None else []:
            files = " ".join(f"--rule {shlex.quote(file)}" for file in missing)
            print(
                f"note: {record} was judged with {', '.join(missing)} before; without {files} it is judged by the "
                "other rules alone",
                file=sys.stderr,
            )
