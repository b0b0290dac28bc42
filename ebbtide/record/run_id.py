"""What a run id may be: it names folders, files, namespaces and containers, also when a record brings it along."""

from __future__ import annotations

import re

RUN_ID_ALLOWED = "1 to 128 of A-Z a-z 0-9 . _ -, a letter or a digit first"

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run; no path out of a folder can."""
    return _RUN_ID.fullmatch(text) is not None
