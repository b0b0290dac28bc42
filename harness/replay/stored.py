"""What judging has written into a record, so that it can be put back where judging it anew came to less."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.report.html import REPORT
from ebbtide.record.files import ANOMALIES_DIR, write_atomically
from ebbtide.record.verdict import VERDICT
from ebbtide.scratch import Scratch


@contextmanager
def stored(record: Path) -> Iterator[Callable[[], None]]:
    """A function that makes the record's verdict, report and anomalies what they were at the start of the block."""
    scratch = Scratch()
    try:
        for name in (VERDICT, REPORT):
            if (record / name).is_file():
                shutil.copyfile(record / name, scratch.path / name)
        if (record / ANOMALIES_DIR).is_dir():
            shutil.copytree(record / ANOMALIES_DIR, scratch.path / ANOMALIES_DIR)
        yield lambda: _put_back(scratch.path, record)
    finally:
        scratch.remove()


def _put_back(aside: Path, record: Path) -> None:
    for name in (VERDICT, REPORT):
        if (aside / name).exists():
            write_atomically(record / name, (aside / name).read_bytes())
        else:
            (record / name).unlink(missing_ok=True)
    anomalies = record / ANOMALIES_DIR
    if anomalies.is_symlink():
        return  # judging replaces it: nothing was written
    shutil.rmtree(anomalies, ignore_errors=True)
    if (aside / ANOMALIES_DIR).exists():
        shutil.copytree(aside / ANOMALIES_DIR, anomalies)
