"""Says whether the final read of a partition shows which records of one's own clients are gone."""

from __future__ import annotations

from collections import Counter

from analysis.record.record import Record
from analysis.record.traffic import Place, Traffic


def why_unjudged(record: Record, traffic: Traffic, place: Place) -> str | None:
    """Return why it is not known which records of a partition are gone; None: it is known."""
    if (why := traffic.why_no_final_log(place)) is not None:
        return why
    topic = place[0]
    policies = [row for row in record.timeline.configs if row.resource == f"topic:{topic}"]
    if any(row.name == "cleanup.policy" and "compact" in (row.value or "") for row in policies):
        return f"{topic} is compacted: which of its records were lost is not known"
    if Counter(record.manifest.topic_ids.values())[topic] > 1:
        return f"{topic} was deleted and made again: which of its records were lost is not known"
    return None
