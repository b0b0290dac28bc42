"""KIP-890: a leader appends a record of a transaction only if its coordinator has that transaction open.

So every open transaction is one that a coordinator ends. If the run's releases or settings do not promise that, the
clause is not exercised. If a log of the run lost records, perhaps it lost the marker that ended the transaction, or
what its coordinator knew of it.
"""

from __future__ import annotations

import msgspec
from packaging.version import InvalidVersion, Version

from analysis.judge.history.evidence import Row
from analysis.judge.rules.clause import Clause, Finding, Judged, client_row, finding
from analysis.judge.rules.lossy import why_lossy
from analysis.judge.rules.transactions import hanging_transaction
from analysis.reconcile.model import HangingTransaction
from analysis.record.record import Record
from analysis.record.whole import OF_LOSSES
from ebbtide.releases.first_with import TRANSACTION_VERIFICATION

VERIFICATION = "transaction.partition.verification.enable"
"""The broker property by which a leader asks the coordinator whether a transaction is open."""


def why_unverified(record: Record) -> str | None:
    """Return why leaders did not ask the coordinators before they appended (KIP-890); None if all always did."""
    older = [kafka for kafka in record.manifest.release_path if not _has_verification(kafka)]
    if older:
        return f"Kafka {older[0] or 'of an unknown release'} does not verify transactions (KIP-890, from 3.6.0 on)"
    known = record.readable_scenario
    properties = {} if known is None else known.cluster.broker_properties
    if properties.get(VERIFICATION, "true") != "true":
        return f"the scenario sets {VERIFICATION} = {properties[VERIFICATION]}"
    changed = [step for step in record.split_steps or () if VERIFICATION in str(msgspec.json.encode(step), "utf-8")]
    return f"step {changed[0].index} sets {VERIFICATION}" if changed else None


def _has_verification(kafka: str) -> bool:
    try:
        return Version(kafka) >= TRANSACTION_VERIFICATION
    except InvalidVersion:
        return False


def _check(judged: Judged) -> Finding:
    if (why := why_unverified(judged.record)) is not None:
        return Finding(status="not-exercised", evidence=({"why": why},))
    rows = [client_row(one) for one in judged.found.groups_of(HangingTransaction)]
    unknown: list[Row] = []
    lossy = why_lossy(judged.record)
    if lossy is not None:
        rows, unknown = [], [row | {"why": lossy} for row in rows]
    if hanging_transaction.RULE.name in judged.unknown:
        unknown.append({"why": judged.unknown[hanging_transaction.RULE.name]})
    asked = judged.record.manifest.final_transactions
    states = asked.states.values() if asked is not None else ()
    exercised = sum(state not in (None, "Empty") for state in states)
    return finding(exercised=exercised, violations=rows, unknown=unknown)


def _applies(judged: Judged) -> bool:
    transactional = any(one.transactional for one in judged.record.manifest.producers.values())
    return transactional and not hanging_transaction.asked_no_coordinator(judged.record.manifest)


RULE = Clause(
    kip="KIP-890",
    check=_check,
    applies=_applies,
    reads_timeline=False,
    parts=OF_LOSSES,
    unknown_when=(
        "the kind [hanging-transaction](groups.md#does-every-transaction-end) is unknown, or a log lost records "
        "or an election left ISR and ELR, so that a marker may be lost. Only with transactional producers; not "
        "exercised before 3.6.0"
    ),
    example="""
        The last stable offset stays below the HW, on a release that verifies transactions.
        setting: last_stable=0 transactional
        sends: offset=0 value=1 txn=1 txn_outcome=aborted
        polls: final 0=1
        gives: offset=0 value=1
    """,
)
