"""Attributes what was lost with a topic that is gone from the metadata.

No election lost its records: the replicas may have them still, and no client can read them. No step deleted the topic.
So the controllers lost what they had committed, which the protocol does not allow while their disks keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.history.disk_steps import step_on_disks_of
from analysis.judge.history.evidence import A, Attribution
from analysis.record.record import Record

_GONE = "the controllers no longer know the topic, which no step deleted"


def of_gone_topics(record: Record, blamed: Sequence[A]) -> list[A]:
    """Return the anomalies; those of a topic that is gone have no election."""
    gone = record.manifest.gone_topics
    if not gone:
        return list(blamed)
    found = Attribution(cause="unexplained", election=None, why=f"{_GONE}, although no step touched their disks")
    if record.proven_steps is None:
        found = Attribution(cause=None, election=None, why=f"{_GONE}; {record.why_disks_unknown}")
    elif (step := step_on_disks_of(record, record.manifest.topology.controllers)) is not None:
        took = f"step {step.index} ({step.step}) took what they had stored"
        why = f"{_GONE}: {took}, so all its records are lost to clients"
        found = Attribution(cause=None, election=None, why=why)
    return [msgspec.structs.replace(one, attribution=found) if one.items.log.topic in gone else one for one in blamed]
