"""What judging has written into a record, so that it can be put back where judging it anew came to less."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.report.html import REPORT
from analysis.verdict import VERDICT
from harness.record.files import ANOMALIES_DIR, write_atomically


@contextmanager
def stored(record: Path) -> Iterator[Callable[[], None]]:
    """A function that makes the record's verdict, report and anomalies what they were at the start of the block."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        aside = Path(folder)
        for name in (VERDICT, REPORT):
            if (record / name).is_file():
                shutil.copyfile(record / name, aside / name)
        if (record / ANOMALIES_DIR).is_dir():
            shutil.copytree(record / ANOMALIES_DIR, aside / ANOMALIES_DIR)

        def put_back() -> None:
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

        yield put_back
