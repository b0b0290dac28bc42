"""KIP-98, idempotent producer: a record that a client of the user's own sent is written to the log once.

Two records of the final log are one send if producer id, epoch, sequence and digest are equal. A digest alone says
nothing: the client may have sent one payload twice. A retry repeats all four, and is one send.
"""

from __future__ import annotations

from collections import defaultdict

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.record.traffic import FinalLog, Place, WireRow
from ebbtide.shown_text import plural

_Send = tuple[int | None, int | None, int | None, int | None]


def _check(judged: Judged) -> Finding:
    traffic = judged.record.traffic
    assert traffic is not None
    places = [place for place, sends in sorted(traffic.sends.items()) if any(_is_idempotent(row) for row in sends)]
    violations, unknown = list[Row](), list[Row]()
    for place in places:
        if (why := traffic.why_no_final_log(place)) is not None:
            unknown.append({"why": why})
            continue
        clients = {row.producer_id: row.client for row in traffic.sends[place]}
        violations += _twice(place, traffic.final[place], clients)
    cases = sum(int(str(row["count"])) for row in violations)
    return finding(exercised=len(places), violations=violations, unknown=unknown, cases=cases)


def _is_idempotent(row: WireRow) -> bool:
    return row.producer_id is not None and row.sequence is not None


def _twice(place: Place, log: FinalLog, clients: dict[int | None, str | None]) -> list[Row]:
    """Return the producers whose records are in a log more than once."""
    offsets: dict[_Send, list[int]] = defaultdict(list)
    for offset, row in log.records.items():
        if _is_idempotent(row) and row.producer_id in clients:
            offsets[row.producer_id, row.producer_epoch, row.sequence, row.digest].append(offset)
    repeated: dict[int | None, list[list[int]]] = defaultdict(list)
    for (producer, *_), found in offsets.items():
        if len(found) > 1:
            repeated[producer].append(sorted(found))
    rows: list[Row] = []
    for producer, sends in repeated.items():
        first, second = min(sends)[:2]
        says = (
            f"your idempotent producer (client.id {clients[producer]}) sent {plural(len(sends), 'record')} of "
            f"{place[0]}-{place[1]} once, and the log has {'them' if len(sends) > 1 else 'it'} more than once, the "
            f"first at the offsets {first:,} and {second:,}"
        )
        at: Row = {"topic": place[0], "partition": place[1], "producer_id": producer}
        rows.append(at | {"count": len(sends), "offset": first, "again_at": second, "says": says})
    return rows


RULE = Clause(
    kip="KIP-98",
    check=_check,
    applies=lambda judged: judged.record.traffic is not None and bool(judged.record.traffic.idempotent),
    reads_timeline=False,
    parts=("wire",),
    unknown_when=(
        "a partition has no final read. Only with idempotent producers on [published ports](record.md#your-own-clients)"
    ),
    example="""
        The final log has one send of an idempotent producer of the user's own at two offsets.
        setting: published=Heartbeat
        wire: kind=produce status=acked acks=-1 offset=0 digest=5 producer_id=7 producer_epoch=0 sequence=0;
          kind=final offset=0 digest=5 producer_id=7 producer_epoch=0 sequence=0;
          kind=final offset=1 digest=5 producer_id=7 producer_epoch=0 sequence=0;
          kind=final-log offset=0 high_watermark=2
        gives: offset=0 again_at=1 count=1
    """,
)
