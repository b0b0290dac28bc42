"""Checks KIP-98's promise to copiers: each input has one committed copy, no more and no less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analysis.judge.clauses.findings import Finding, Row, finding
from analysis.reconcile.model import COPIED_TWICE
from ebbtide.scenario.model import CopiedOffsets, Scenario

if TYPE_CHECKING:
    from analysis.judge.clauses.outcome_checks import AttributedAnomaly, RepeatedInput
    from analysis.reconcile.model import WrongCopies

WRONG_COPIES = (COPIED_TWICE, "input-skipped")


def exactly_once_copies(
    copies: Sequence[WrongCopies],
    *,
    sent: Mapping[str, int],
    offsets: Mapping[str, CopiedOffsets] | None,
    why_lossy: str | None,
    repeats: Sequence[AttributedAnomaly[RepeatedInput]] = (),
    unknown_kinds: Mapping[str, str],
) -> Finding:
    """KIP-98: offsets that a transaction commits are committed if and only if its records are.

    So each input below a committed offset has one committed copy. `sent` counts the copies of each group. `offsets`
    says when its copiers commit; None: nobody knows. A group that commits after its transactions was promised nothing.
    `why_lossy`: a log lost records, perhaps a copy, an offset, or what the coordinator knew of a transaction. `repeats`
    are the inputs that were copied again, with what explains that: an election that lost the offset after them allows
    it.
    """
    if offsets is None:
        return Finding(status="unknown", evidence=({"why": "scenario.toml cannot be read: how copiers commit"},))
    promised = promised_groups(offsets)
    if not promised:
        why = "no copier commits the offsets of its group in its transactions"
        return Finding(status="not-exercised", evidence=({"why": why},))
    wrong = [one for one in copies if one.group in promised]
    rows, unknown = [_row(one) for one in wrong], list[Row]()
    if why_lossy is not None:
        whys = [(one, _why_unknown(one, repeats, why_lossy)) for one in wrong]
        rows, unknown = [], [_row(one) | {"why": why} for one, why in whys if why is not None]
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


def promised_groups(offsets: Mapping[str, CopiedOffsets] | None) -> set[str]:
    """Return the groups whose copiers all commit their offsets in their transactions."""
    return {group for group, when in (offsets or {}).items() if when == "in-transaction"}


def _why_unknown(one: WrongCopies, repeats: Sequence[AttributedAnomaly[RepeatedInput]], why_lossy: str) -> str | None:
    """Return why nobody knows whether the items are allowed; None: elections that lost offsets explain all of them."""
    place = (one.group, f"{one.topic}-{one.partition}")
    mine = [repeat for repeat in repeats if one.kind == COPIED_TWICE and (repeat.what.group, repeat.what.of) == place]
    if sum(repeat.count for repeat in mine) != one.count:
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
