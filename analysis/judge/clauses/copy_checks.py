"""Checks KIP-98's promise to copiers: each input has one committed copy, no more and no less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.judge.clauses.findings import Finding, Row, finding
from ebbtide.scenario.model import CopiedOffsets, Scenario

if TYPE_CHECKING:
    from analysis.reconcile.model import WrongCopies

WRONG_COPIES = ("copied-twice", "input-skipped")


def exactly_once_copies(
    copies: Sequence[WrongCopies],
    *,
    sent: Mapping[str, int],
    offsets: Mapping[str, CopiedOffsets] | None,
    why_lossy: str | None,
    unknown_kinds: Mapping[str, str],
) -> Finding:
    """KIP-98: offsets that a transaction commits are committed if and only if its records are.

    So each input below a committed offset has one committed copy. `sent` counts the copies of each group. `offsets`
    says when its copiers commit; None: nobody knows. A group that commits after its transactions was promised nothing.
    `why_lossy`: a log lost records, perhaps a copy, an offset, or what the coordinator knew of a transaction.
    """
    if offsets is None:
        return Finding(status="unknown", evidence=({"why": "scenario.toml cannot be read: how copiers commit"},))
    promised = {group for group, when in offsets.items() if when == "in-transaction"}
    if not promised:
        why = "no copier commits the offsets of its group in its transactions"
        return Finding(status="not-exercised", evidence=({"why": why},))
    rows = [_row(one) for one in copies if one.group in promised]
    unknown: list[Row] = []
    if why_lossy is not None:
        rows, unknown = [], [row | {"why": why_lossy} for row in rows]
    unknown += [{"why": why} for why in sorted({unknown_kinds[kind] for kind in WRONG_COPIES if kind in unknown_kinds})]
    return finding(exercised=sum(sent.get(group, 0) for group in promised), violations=rows, unknown=unknown)


def copied_offsets(scenario: Scenario | None) -> dict[str, CopiedOffsets] | None:
    """Return when the copiers of each group commit its offsets; None without a scenario."""
    if scenario is None:
        return None
    found: dict[str, CopiedOffsets] = {}
    for one in scenario.producers:
        if one.copies is not None and one.group is not None and found.get(one.group) != "after-transaction":
            found[one.group] = one.copied_offsets
    return found


def _row(one: WrongCopies) -> Row:
    return {
        "kind": one.kind,
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "count": one.count,
        **one.first,
    }
