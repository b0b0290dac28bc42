"""Says whether leaders asked the coordinators before they appended records of transactions (KIP-890)."""

from __future__ import annotations

import msgspec
from packaging.version import InvalidVersion, Version

from analysis.record.record import Record
from ebbtide.record.manifest import Manifest
from ebbtide.releases.first_with import TRANSACTION_VERIFICATION

VERIFICATION = "transaction.partition.verification.enable"
"""The broker property by which a leader asks the coordinator whether a transaction is open."""


def asked_no_coordinator(manifest: Manifest) -> bool:
    """Whether an older Ebbtide made the record, which keeps its outcome: its final read asked no coordinator."""
    return manifest.final_transactions is None and manifest.final_consumer is not None


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
