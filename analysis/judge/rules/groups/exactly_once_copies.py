"""KIP-98: offsets that a transaction commits are committed if and only if its records are.

So each input below a committed offset has one committed copy. A group whose copiers commit after their transactions was
promised nothing. If a log lost records, perhaps it lost a copy, an offset, or what the coordinator knew of a
transaction. An input that was copied again is allowed if an election lost the offset after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.judge.history.evidence import AttributedAnomaly, Row
from analysis.judge.rules.clause import Clause, Finding, Judged, finding
from analysis.judge.rules.groups import copied_twice, input_skipped
from analysis.judge.rules.groups.copied_offsets import copied_offsets, promised_groups
from analysis.judge.rules.lossy import why_lossy
from analysis.reconcile.model import WrongCopies
from analysis.record.whole import OF_LOSSES

_KINDS = (copied_twice.RULE.name, input_skipped.RULE.name)


def _check(judged: Judged) -> Finding:
    offsets = copied_offsets(judged.record.readable_scenario)
    if offsets is None:
        return Finding(status="unknown", evidence=({"why": "scenario.toml cannot be read: how copiers commit"},))
    promised = promised_groups(offsets)
    if not promised:
        why = "no copier commits the offsets of its group in its transactions"
        return Finding(status="not-exercised", evidence=({"why": why},))
    wrong = [one for one in judged.found.groups_of(WrongCopies) if one.group in promised]
    rows, unknown = [_row(one) for one in wrong], list[Row]()
    lossy = why_lossy(judged.record)
    if lossy is not None:
        whys = [(one, _why_unknown(one, judged.blamed_of(WrongCopies), lossy)) for one in wrong]
        rows, unknown = [], [_row(one) | {"why": why} for one, why in whys if why is not None]
    whys_unknown = {judged.unknown[kind] for kind in _KINDS if kind in judged.unknown}
    unknown += [{"why": why} for why in sorted(whys_unknown)]
    return finding(
        exercised=sum(judged.copies_sent.get(group, 0) for group in promised), violations=rows, unknown=unknown
    )


def _why_unknown(one: WrongCopies, repeats: Sequence[AttributedAnomaly[WrongCopies]], why_lossy: str) -> str | None:
    """Return why nobody knows whether the items are allowed; None: elections that lost offsets explain all of them."""
    place = (one.group, one.topic, one.partition)
    repeats = repeats if one.kind == copied_twice.RULE.name else ()
    mine = [repeat for repeat in repeats if (repeat.items.group, repeat.items.topic, repeat.items.partition) == place]
    if sum(repeat.items.count for repeat in mine) != one.count:
        return why_lossy
    open_ = next((repeat.attribution.why for repeat in mine if repeat.attribution.cause is None), None)
    return None if open_ is None else f"{why_lossy}; {open_}"


def _row(one: WrongCopies) -> Row:
    return {
        "kind": one.kind,
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "count": one.count,
        **one.first,
    }


RULE = Clause(
    kip="KIP-98",
    check=_check,
    applies=lambda judged: judged.record.has("copies") or bool(copied_offsets(judged.record.readable_scenario)),
    reads_timeline=False,
    parts=(*OF_LOSSES, "copies", "commits"),
    unknown_when=(
        "one of the kinds about [copiers](groups.md#is-each-input-copied-exactly-once) is unknown; or there are "
        "such items, a log lost records or an election left ISR and ELR, and no [lost "
        "offset](groups.md#whose-fault-is-a-wrong-copy) explains them. Only in runs with copiers"
    ),
    example="""
        A group commits its offsets in transactions, and an input has two committed copies.
        sends: offset=0 value=1 producer=2; topic=copies offset=0 value=11 txn=1 txn_outcome=committed;
          topic=copies offset=1 value=12 txn=2 txn_outcome=committed
        copies: 0=11 0=12
        polls: final 0=1; final topic=copies 0=11 1=12; topic=copies isolation=read_committed 0=11 1=12
        setting: copiers transactional
        gives: kind=copied-twice group=g
    """,
)
