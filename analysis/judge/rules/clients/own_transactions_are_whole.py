"""KIP-98: a transaction is there whole once its commit was answered, and not at all once its abort was.

What the coordinator answered to EndTxn is held against the final log of each partition, as a read_committed consumer
gets it: a record counts if the next marker of its producer id behind it says COMMIT. A record of a committed
transaction must be there and count; a record of an aborted one must not.

An EndTxn that failed, or got no answer, says nothing: the one after it does, unless the producer began anew before. No
record below the log start is judged. Where a log lost records, or an election left ISR and ELR, nothing is violated:
records, markers, and what the coordinator knew may be lost as Kafka allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.lossy import why_lossy
from analysis.record.traffic import FinalLog, WireRow
from ebbtide.shown_text import plural

_WRONG = {True: ("lost", "aborted"), False: ("shown",)}
"""The fates that records of committed and of aborted transactions must not have."""


class _Fates:
    """What became of the records of the committed, or of the aborted, transactions of one producer."""

    def __init__(self) -> None:
        self.ends: set[int] = set()
        self.fates: Counter[str] = Counter()
        self.first: Row | None = None
        """The place of the first record with a wrong fate."""


def _check(judged: Judged) -> Finding:
    traffic = judged.record.traffic
    assert traffic is not None
    found: dict[tuple[str, bool], _Fates] = {}
    unknown: list[Row] = []
    for place, sends in sorted(traffic.sends.items()):
        ended = [(row, end) for row in sends if row.transactional_id and (end := traffic.end_of(row)) is not None]
        if ended and (why := judged.record.why_gone_unknown(traffic, place)) is not None:
            unknown.append({"why": why})
            continue
        for row, end in ended:
            fate = _fate(row, traffic.final[place])
            one = found.setdefault((row.transactional_id or "", end.commits is True), _Fates())
            one.ends.add(end.since_ns)
            one.fates[fate] += 1
            if fate in _WRONG[end.commits is True] and one.first is None:
                one.first = {"topic": place[0], "partition": place[1], "offset": row.offset}
            if fate == "open":
                unknown.append(
                    {"why": f"a transaction of {row.transactional_id} has no marker in {place[0]}-{place[1]}"}
                )
    if not found and not unknown:
        unknown.append({"why": "no end of a transaction with an acked record was answered"})
    exercised = sum(one.fates.total() for one in found.values())
    violations = [*_rows(found)]
    if (lossy := why_lossy(judged.record)) is not None:
        unknown += [row | {"why": f"{row['says']}; {lossy}"} for row in violations]
        violations = []
    return finding(exercised=exercised, violations=violations, unknown=unknown, doubt=next(iter(traffic.unread), None))


def _fate(row: WireRow, log: FinalLog) -> str:
    """Return what a read_committed consumer gets of an acked record: lost, deleted, shown, aborted or open."""
    if row.offset is not None and row.offset < (log.start or 0):
        return "deleted"
    there = log.records.get(row.offset or 0)
    if there is None or there.digest != row.digest:
        # A retry of a batch that another leader lost is elsewhere.
        there = log.by_sequence.get((row.producer_id, row.producer_epoch, row.sequence))
    return "lost" if there is None else log.fate(there)


def _rows(found: dict[tuple[str, bool], _Fates]) -> Iterator[Row]:
    for (name, commits), one in sorted(found.items()):
        if one.first is None:
            continue
        wrong = {fate: count for fate in _WRONG[commits] if (count := one.fates[fate])}
        many, of = plural(len(one.ends), "transaction"), f"{one.fates.total():,}"
        at = f"the first is offset {one.first['offset']:,} of {one.first['topic']}-{one.first['partition']}"
        fates = " and ".join(f"{count:,} {'are' if count > 1 else 'is'} {fate}" for fate, count in wrong.items())
        says = (
            f"your transactional producer {name} got the answer that {many} with {of} records were committed, of which "
            f"read_committed consumers miss {sum(wrong.values()):,}: {fates}; {at}"
            if commits
            else f"your transactional producer {name} got the answer that {many} were aborted, of whose {of} records "
            f"read_committed consumers get {sum(wrong.values()):,}; {at}"
        )
        answered = "committed" if commits else "aborted"
        yield {"transactional_id": name, "answered": answered, **wrong, **one.first, "says": says}


RULE = Clause(
    kip="KIP-98",
    check=_check,
    applies=lambda judged: judged.record.traffic is not None and bool(judged.record.traffic.transactional_ids),
    reads_timeline=False,
    parts=("wire",),
    unknown_when=(
        "a partition has no final read, is compacted or was made again; a transaction has no marker; something is "
        "missing that may be lost as Kafka allows; or not all that clients sent could be read. Only with transactional "
        "clients on [published ports](record.md#your-own-clients)"
    ),
    example="""
        The coordinator confirmed a commit to a client of the user's own. The marker behind its record says ABORT.
        setting: published=Heartbeat
        partitions: leader=1
        wire: kind=produce status=acked acks=-1 offset=0 digest=5 transactional_id=c producer_id=7 at=20;
          kind=end-txn status=acked commits=true transactional_id=c producer_id=7 at=21;
          kind=final offset=0 digest=5 producer_id=7 transactional=true;
          kind=final-marker offset=1 producer_id=7 commits=false; kind=final-log offset=0 high_watermark=2
        gives: transactional_id=c answered=committed aborted=1
    """,
)
