"""What `ebbtide analyze -` answers for each record."""

from __future__ import annotations

import msgspec

from ebbtide.record.verdict import Outcome


class AnalyzedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was judged, or why it was not: `failure`, with the exit code that `ebbtide analyze` gives it.

    `can_judge` is false if no record can be judged, because Spark does not start.
    """

    record: str
    outcome: Outcome | None = None
    exit_code: int
    failure: str | None = None
    can_judge: bool = True
