"""Reads the clean-shutdown files: which broker epoch a starting broker reports.

KIP-966, KAFKA-15582. The rules are Kafka's, with the quirk that -1 also stands for "no directory
read yet". So the order of the directories counts: -1 then 4 gives 4, 4 then -1 gives -1. The
version field is never checked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from analysis.spec.partition import NO_EPOCH


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
        parsed = json.loads(content or "")
    except ValueError:
        return None
    epoch = parsed.get("brokerEpoch") if isinstance(parsed, dict) else None
    return epoch if type(epoch) is int else None
