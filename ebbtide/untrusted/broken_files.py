"""Says where a file breaks the format that its name or its beginning promises, before anybody asks what it is about."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import msgspec

from ebbtide.errors import UsageError
from ebbtide.properties_file import properties_in
from ebbtide.untrusted.values import CORRECT_IT
from ebbtide.untrusted.yaml_files import read_documents


def broken_file_error(path: Path, content: bytes) -> UsageError | None:
    """Return what is wrong with a broken YAML, JSON or properties file, with its line; None for any other file."""
    error: UsageError | None = None
    try:
        if path.suffix in (".yaml", ".yml"):
            deque(read_documents(path, content), maxlen=0)
        elif path.suffix == ".properties":
            deque(properties_in(content.decode("latin-1")), maxlen=0)
        elif content.lstrip().startswith(b"{"):
            msgspec.json.decode(content)
    except UsageError as broken:
        error = broken
    except msgspec.DecodeError as broken:
        what, _, byte = str(broken).partition(" (byte ")
        before = content[: int(byte.rstrip(")") or len(content))]
        place = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        error = UsageError("broken JSON", got=what).at_line(*place)
    except (ValueError, RecursionError):
        pass
    if error is not None:
        error.add_where(str(path))
        error.add_next(CORRECT_IT)
    return error
