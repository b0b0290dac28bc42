"""Reads the clean-shutdown files: which broker epoch a starting broker reports.

KIP-966, KAFKA-15582. The rules are Kafka's, with the quirk that -1 also stands for "no directory
read yet". So the order of the directories counts: -1 then 4 gives 4, 4 then -1 gives -1.

Kafka decodes the JSON text with Jackson, which converts some values: "10" and 10.9 are 10. The
version may have any value that is a number then, or be absent. Text after the object is ignored.
The CleanShutdownFileHandler of 3.9.1 and 4.3.1 was executed on each case of
tests/spec/test_shutdown_file.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from analysis.spec.partition import NO_EPOCH

_INT_BITS = 32
_LONG_BITS = 64
_WHITESPACE = "".join(map(chr, range(33)))
"""What Java's String.trim removes."""


def previous_broker_epoch(log_dirs: Sequence[str | None], offline_dirs: int = 0) -> int:
    """Return the epoch in `.kafka_cleanshutdown` of all `log_dirs`, or `NO_EPOCH`.

    `None` in `log_dirs`: no such file.
    """
    if offline_dirs:
        return NO_EPOCH
    agreed = NO_EPOCH
    for content in log_dirs:
        epoch = _epoch_in(content)
        if epoch is None or agreed not in (NO_EPOCH, epoch):
            return NO_EPOCH
        agreed = epoch
    return agreed


def _epoch_in(content: str | None) -> int | None:
    """Return the `brokerEpoch` of one file, if it has one.

    The marker of Kafka 3.6 and older is empty and has none.
    """
    try:
        parsed, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode((content or "").lstrip(" \t\r\n"))
    except ValueError:
        return None
    if not isinstance(parsed, dict):
        return None
    version = parsed.get("version")
    is_blank = isinstance(version, str) and not version.strip(_WHITESPACE)
    if version is not None and not is_blank and _number(version, _INT_BITS) is None:
        return None
    return _number(parsed.get("brokerEpoch"), _LONG_BITS)


def _number(value: Any, bits: int) -> int | None:
    """Return the signed integer of `bits` that Jackson makes of a JSON value; None if it refuses."""
    if isinstance(value, str):
        digits = value.strip(_WHITESPACE)
        value = int(digits) if re.fullmatch(r"[+-]?\d{1,4000}", digits) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    number = int(value)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
