"""Checks KIP-890's promise: no transaction stays open that its coordinator does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from packaging.version import InvalidVersion, Version

from analysis.judge.clauses.findings import Finding, Row, finding
from analysis.judge.history.elections import all_elections
from analysis.judge.history.evidence import Evidence
from ebbtide.record.log_losses import log_losses
from ebbtide.record.manifest import Manifest
from ebbtide.record.steps import StepEntry
from ebbtide.releases.first_with import TRANSACTION_VERIFICATION

if TYPE_CHECKING:
    from analysis.reconcile.model import HangingTransaction

VERIFICATION = "transaction.partition.verification.enable"
"""The broker property by which a leader asks the coordinator whether a transaction is open."""

_CLEAN_ROADS = ("isr", "elr", "reassignment")


def no_hanging_transaction(
    hanging: Sequence[HangingTransaction],
    manifest: Manifest,
    *,
    why_unprotected: str | None,
    why_lossy: str | None,
    unknown_kinds: Mapping[str, str],
) -> Finding:
    """KIP-890: a leader appends a record of a transaction only if its coordinator has that transaction open.

    So every open transaction is one that a coordinator ends. `why_unprotected`: the run's releases or settings do not
    promise that, and the clause is not exercised. `why_lossy`: a log of the run lost records, perhaps the marker that
    ended the transaction, or what its coordinator knew of it.
    """
    if why_unprotected is not None:
        return Finding(status="not-exercised", evidence=({"why": why_unprotected},))
    rows = [_row(one) for one in hanging]
    unknown: list[Row] = []
    if why_lossy is not None:
        rows, unknown = [], [row | {"why": why_lossy} for row in rows]
    if "hanging-transaction" in unknown_kinds:
        unknown.append({"why": unknown_kinds["hanging-transaction"]})
    states = manifest.final_transactions.states.values() if manifest.final_transactions is not None else ()
    exercised = sum(state not in (None, "Empty") for state in states)
    return finding(exercised=exercised, violations=rows, unknown=unknown)


def why_unverified(manifest: Manifest, properties: Mapping[str, str], steps: Sequence[StepEntry]) -> str | None:
    """Return why leaders did not ask the coordinators before they appended (KIP-890); None if all always did.

    `properties` are those of the scenario's brokers.
    """
    older = [kafka for kafka in manifest.release_path if not _has_verification(kafka)]
    if older:
        return f"Kafka {older[0] or 'of an unknown release'} does not verify transactions (KIP-890, from 3.6.0 on)"
    if properties.get(VERIFICATION, "true") != "true":
        return f"the scenario sets {VERIFICATION} = {properties[VERIFICATION]}"
    changed = [step for step in steps if VERIFICATION in str(msgspec.json.encode(step), "utf-8")]
    return f"step {changed[0].index} sets {VERIFICATION}" if changed else None


def _has_verification(kafka: str) -> bool:
    try:
        return Version(kafka) >= TRANSACTION_VERIFICATION
    except InvalidVersion:
        return False


def why_lossy(evidence: Evidence, steps: Sequence[StepEntry] | None) -> str | None:
    """Return why a log of the run may have lost records; None if none can have."""
    if steps is None:
        return "steps.jsonl is missing: whether a log lost records is not known"
    if "partitions" in evidence.timeline.missing:
        return "the metadata timeline is missing: whether an unclean election cost a marker is not known"
    if any(one.lost_bytes != 0 for one in log_losses(list(steps))):
        return "a log of the run lost records, perhaps a marker or what the coordinator knew"
    if any(one.road not in _CLEAN_ROADS or one.removes_isr for one in all_elections(evidence.timeline)):
        return "an election outside ISR and ELR may have cost a marker, or what the coordinator knew"
    return None


def _row(one: HangingTransaction) -> Row:
    return {"topic": one.topic, "partition": one.partition, "count": one.count, **one.first}
