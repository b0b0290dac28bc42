"""What the metadata log says of brokers that no step had hindered."""

from __future__ import annotations

import pytest

from analysis.causes.evidence import ClusterEvidence
from analysis.causes.liveness import Liveness
from ebbtide.record.rows import BrokerEvent

SECOND = 1_000_000_000


def fenced(at_s: int, back_s: int | None) -> Liveness:
    """Broker 1 was fenced and came back; a controller waits for nine seconds before it fences a broker."""
    events = [("registered", 0), ("unfenced", 1), ("fenced", at_s), *([("unfenced", back_s)] if back_s else [])]
    rows = [
        BrokerEvent(metadata_offset=offset, broker_epoch=1, at_ns=at * SECOND, event=event, broker=1)
        for offset, (event, at) in enumerate(events)
    ]
    return Liveness(ClusterEvidence(broker_events=tuple(rows)))


@pytest.mark.parametrize(
    ("from_s", "until_s", "is_hindered"), [(12, 15, True), (2, 10, False), (20, 25, True), (31, 40, False)]
)
def test_a_broker_of_which_nobody_heard_may_have_learned_of_nothing(
    from_s: int, until_s: int, is_hindered: bool
) -> None:
    assert fenced(20, 30).is_hindered(1, from_s * SECOND, until_s * SECOND) is is_hindered


def test_nor_does_a_broker_that_stays_fenced() -> None:
    assert fenced(20, None).is_hindered(1, 100 * SECOND, 101 * SECOND)
