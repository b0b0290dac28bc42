"""The folders of a record, and writing its files so that a reader, or a killed writer, never meets half of one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

RAW_DIR = "raw"
"""Folder of a record: metadata logs, replica segments and checkpoints as they were on the nodes' disks."""

JOURNAL_DIR = "journal"
"""Folder of a record: what the clients write while they run; gone once it has become tables."""

ANOMALIES_DIR = "anomalies"
"""Folder of a record: every anomaly that reconciling found."""

WIRE_FILE = "wire.jsonl"
"""File of a record: what the wire proxies held, let go, delayed and dropped, one event a line."""

LOGS_DIR = "logs"
"""Folder of a record: what each node and each client printed."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and rename it into place.

    In a folder that somebody else filled, what lies there under the name of the part may be a link to anywhere: the
    part is always a file of this call's own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
