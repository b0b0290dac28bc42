"""Attributes what was lost with a topic that is gone from the metadata.

No election lost its records: the replicas may have them still, and no client can read them. No step deleted the topic,
and no client through published ports. So the controllers lost what they had committed, which the protocol does not
allow while their disks keep it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.history.evidence import A, Attribution
from analysis.judge.history.steps import step_on_disks_of
from analysis.record.record import Record

_DELETES = "DeleteTopics"
_GONE = "the controllers no longer know the topic, which no step deleted"


def of_gone_topic(record: Record, topic: str) -> Attribution | None:
    """Return why what a topic had is lost, if the topic is gone."""
    if topic not in record.manifest.gone_topics:
        return None
    if (wire := record.manifest.wire) is not None and (wire.why_incomplete or _DELETES in wire.unrecorded):
        return Attribution(cause=None, election=None, why=f"{_GONE}; a client of yours may have deleted it")
    if record.proven_steps is None:
        return Attribution(cause=None, election=None, why=f"{_GONE}; {record.why_disks_unknown}")
    step = step_on_disks_of(record, record.manifest.topology.controllers)
    if step is None:
        return Attribution(cause="unexplained", election=None, why=f"{_GONE}, although no step touched their disks")
    why = f"{_GONE}; step {step.index} ({step.step}) may explain it. All its records are lost to clients"
    return Attribution(cause=None, election=None, why=why)


def of_gone_topics(record: Record, blamed: Sequence[A]) -> list[A]:
    """Return the anomalies; those of a topic that is gone have no election."""
    found = {topic: of_gone_topic(record, topic) for topic in record.manifest.gone_topics}
    why = [found.get(one.items.log.topic) for one in blamed]
    return [
        one if gone is None else msgspec.structs.replace(one, attribution=gone)
        for one, gone in zip(blamed, why, strict=True)
    ]
