"""Notes which records a test has handled, from the test's own process or from one that it started.

`chaos.handled(record)` does so in a test. A program that the test starts does it by what its environment has:

    from ebbtide.handled import handled
    handled(record)                             # once the program is done with the record

A program in another language appends a line of JSON to the file EBBTIDE_HANDLED, in one write:

    {"topic": "orders", "partition": 0, "offset": 12, "group": "g", "at_ns": 1700000000000000000}

`at_ns` is CLOCK_MONOTONIC (in Java `System.nanoTime()`) plus EBBTIDE_CLOCK_BASE_NS, taken once the record is handled.
`group` and `at_ns` may be left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from ebbtide.errors import HarnessError, UsageError
from ebbtide.record.files import JOURNAL_DIR

HANDLED_FILE = "handled.jsonl"
FILE_VARIABLE, CLOCK_VARIABLE = "EBBTIDE_HANDLED", "EBBTIDE_CLOCK_BASE_NS"


class HandledRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record that was handled, as a line of the file has it."""

    topic: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    group: str | None = None
    at_ns: int | None = None


class HandledRecords:
    """Appends to the file of a run; several processes may do so at once."""

    def __init__(self, record: Path, clock_base_ns: int) -> None:
        """Open the file of the run that is recorded in a folder. Raises `HarnessError` if it has ended."""
        self._clock_base_ns, path = clock_base_ns, record / JOURNAL_DIR / HANDLED_FILE
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise HarnessError(
                "cannot note that a record was handled",
                where=str(path),
                got=error.strerror,
                allowed="calls while the test runs",
            ) from None

    def note(self, record: object, group: str | None = None) -> None:
        """Note that a record is handled now. Raises `UsageError` for what has no topic, partition and offset."""
        at_ns = time.monotonic_ns() + self._clock_base_ns
        try:
            topic, partition, offset = _place_of(record)
            line = msgspec.convert(
                {"topic": topic, "partition": partition, "offset": offset, "group": group, "at_ns": at_ns},
                HandledRecord,
            )
        except (AttributeError, ValueError, TypeError, msgspec.ValidationError):
            raise UsageError(
                "handled needs a record",
                got=repr(record)[:100],
                allowed="a record with topic, partition and offset, as your client returned it, or these three",
            ) from None
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def _place_of(record: object) -> Sequence[object]:
    """Return topic, partition and offset: attributes of a record of kafka-python, methods of one of confluent-kafka.

    A record of kafka-python is a tuple, too.
    """
    if isinstance(record, tuple | list) and not hasattr(record, "offset"):
        return record
    values = (getattr(record, name) for name in ("topic", "partition", "offset"))
    return [value() if callable(value) else value for value in values]


def handled(record: object, group: str | None = None) -> None:
    """Note in a program that a test started that it has handled a record. Raises `UsageError` in any other program."""
    _of_environment().note(record, group)


@lru_cache(maxsize=1)
def _of_environment() -> HandledRecords:
    if FILE_VARIABLE not in os.environ or CLOCK_VARIABLE not in os.environ:
        raise UsageError(
            "nobody asks which records were handled",
            got=f"no {FILE_VARIABLE} and {CLOCK_VARIABLE} in the environment",
            allowed="a program that a test with @pytest.mark.chaos(publish=True) starts",
        )
    return HandledRecords(Path(os.environ[FILE_VARIABLE]).parent.parent, int(os.environ[CLOCK_VARIABLE]))


def environment_of(record: Path, clock_base_ns: int) -> Mapping[str, str]:
    """Return what the environment of the programs of a test has, for a run that is recorded in a folder."""
    return {FILE_VARIABLE: str(record / JOURNAL_DIR / HANDLED_FILE), CLOCK_VARIABLE: str(clock_base_ns)}
