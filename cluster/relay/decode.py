"""The decoder's process, a child of the harness in the clients' network namespace.

`python -m ebbtide.command cluster.relay.decode`. It reads the relay's spool while it is written, writes the table
`wire`, and frees what it read. Until it is far behind, it runs only where nothing else wants a core. When the relay has
ended it reads what is left of the topics, and then says what the table rests on. The key of the digests is in its
memory only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.relay.decoding import Decoder, WireRow
from cluster.relay.final_log import FinalLogs
from cluster.relay.spool import SpoolReader
from ebbtide import run_clock
from ebbtide.record.files import new_file, write_atomically
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.tables import WIRE
from ebbtide.scenario.api_keys import API_NAMES

_ROWS_A_GROUP = 50_000
_NICE = 10


class WireTable:
    """Writes rows to a table, a row group at a time."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._columns: dict[str, list[object]] = {name: [] for name in WIRE.names}
        self._size = 0

    def add(self, rows: Iterable[WireRow]) -> None:
        """Add rows; a column that a row lacks is null."""
        for row in rows:
            for name, column in self._columns.items():
                column.append(row.get(name))
            self._size += 1
            if self._size >= _ROWS_A_GROUP:
                self.flush()

    def flush(self) -> None:
        """Write the rows that are not written yet."""
        if self._size:
            self._writer.write_table(pa.table(self._columns, schema=WIRE))
            self._columns, self._size = {name: [] for name in WIRE.names}, 0


def decode(spool: SpoolReader, table: Path, bootstrap: list[str]) -> WireFacts:
    """Decode a spool to its end into the file `table`, read the topics, and return what the table rests on."""
    key = secrets.token_bytes(32)
    decoder = Decoder(key)
    with new_file(table) as file, pq.ParquetWriter(file, WIRE, compression="zstd") as writer:
        rows = WireTable(writer)
        entries = spool.entries()

        def feed_while(is_behind: bool) -> bool:
            """Return at the first entry after which it is otherwise; false: there are no more entries."""
            for entry in entries:
                rows.add(decoder.feed(entry))
                if spool.is_behind is not is_behind:
                    return True
            return False

        with ThreadPoolExecutor(1, initializer=_run_when_idle) as idle:
            while idle.submit(feed_while, False).result() and feed_while(True):
                pass
        rows.add(decoder.finish())
        final = FinalLogs(bootstrap, key)
        rows.add(final.read(decoder.topics))
        rows.add(final.read_commits(decoder.groups))
        rows.flush()
    end = spool.end
    unread = dict(decoder.undecoded) | ({"connections that are not Kafka's protocol": end.unread} if end.unread else {})
    return WireFacts(
        unrecorded={API_NAMES.get(api, f"API {api}"): count for api, count in sorted(end.unrecorded.items())},
        unread=unread,
        no_final_read=final.unread,
        waited_s=end.waited_s,
    )


def _run_when_idle() -> None:
    """Let this thread run only where nothing else wants the core, if the kernel permits it."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> None:
    """Decode, and write what the table rests on as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spool", nargs=2, type=int, required=True, metavar="FD", help="the relay's spool")
    parser.add_argument("--table", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    parser.add_argument("--facts", type=Path, required=True, metavar="FILE", help="the JSON file to write at the end")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...", help="the brokers to read from")
    parser.add_argument("--clock-base", type=int, required=True, help="the base of the run's clock, in nanoseconds")
    args = parser.parse_args()
    run_clock.use_base(args.clock_base)
    os.nice(_NICE)  # clients and brokers come first; the spool has room meanwhile
    args.table.parent.mkdir(parents=True, exist_ok=True)
    facts = decode(SpoolReader(tuple(args.spool)), args.table, args.bootstrap.split(","))
    write_atomically(args.facts, msgspec.json.encode(facts))


if __name__ == "__main__":
    main()
