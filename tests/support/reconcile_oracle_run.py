"""What the counting rules in plain Python ask of a whole run."""

from __future__ import annotations

from typing import Any

from ebbtide.record.manifest import Manifest

Row = dict[str, Any]


def has_transactions(tables: dict[str, list[Row]], manifest: Manifest) -> bool:
    """Whether any value may be one of a transaction."""
    return any(producer.transactional for producer in manifest.producers.values()) or any(
        send["txn"] is not None or send["txn_outcome"] is not None for send in tables["sends"]
    )


def clock_went_back(marks: list[Row]) -> bool:
    """Whether a broker's answers for a partition go back in time.

    The answers are in the order of the rows.
    """
    last: dict[tuple[str, int, int], int] = {}
    for row in marks:
        of = (row["topic"], row["partition"], row["broker"])
        asked_ns = row["at_ns"] if row["asked_ns"] is None else row["asked_ns"]
        if row["at_ns"] < max(asked_ns, last.get(of, row["at_ns"])):
            return True
        last[of] = row["at_ns"]
    return False


def compacted_topics(tables: dict[str, list[Row]]) -> set[str]:
    """The topics whose own cleanup policy was compaction at any time."""
    policies = [row for row in tables.get("configs", []) if row["name"] == "cleanup.policy"]
    return {row["resource"].removeprefix("topic:") for row in policies if "compact" in (row["value"] or "")}
