"""clients/: the events of a run's clients that have no row in a table.

There is one file for each client, with one event a line: rebalances, resets, and how each transaction ended. A run is
inconclusive if a client did not do what its scenario is about; these lines say whether it did.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder, own_folder, write_atomically
from ebbtide.untrusted.files import is_folder, read_file
from ebbtide.untrusted.values import decode_json

CLIENTS_DIR = "clients"
"""Folder of a record: the events of each client that has some."""

Event = Literal[
    "transaction",
    "fenced",
    "replaced",
    "assigned",
    "revoked",
    "truncation",
    "out-of-range",
    "no-offset",
]
TxnOutcome = Literal["committed", "aborted", "unknown"]


class ClientEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event of one client; `why` is in the client's words.

    Events of a producer:

    - `transaction`: it ended (`txn` of `records` records, `outcome`).
    - `fenced`: Kafka refused an incarnation because of a newer one.
    - `replaced`: a new incarnation took over.

    Events of a consumer:

    - `assigned`, `revoked`: the group assigned it `partitions`, or revoked them.
    - `truncation`, `out-of-range`, `no-offset`: it moved from `offset` to `to` on the partition.
    """

    event: Event
    at_ns: int
    why: str = ""
    txn: int | None = None
    outcome: TxnOutcome | None = None
    records: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    to: int | None = None
    partitions: tuple[str, ...] = ()


def write_client_events(record: RecordFolder, client: str, events: list[ClientEvent]) -> None:
    """Replace the events of one client, e.g. `producer-1`.

    Raises `UsageError` when the folder is a link.
    """
    lines = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
    write_atomically(own_folder(record, CLIENTS_DIR) / f"{client}.jsonl", lines)


def read_client_events(record: RecordFolder) -> dict[str, list[ClientEvent]] | None:
    """Return the events by client; None when the record has no folder of events.

    Raises `UsageError` when a file is damaged.
    """
    folder = record / CLIENTS_DIR
    if not is_folder(folder):
        return None
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        lines = read_file(path, what="a client's file of events").splitlines()
        try:
            found[path.stem] = [decode_json(line, ClientEvent) for line in lines if line.strip()]
        except msgspec.DecodeError as error:
            raise UsageError("a client's events are damaged", where=str(path), got=str(error)) from None
    return found
