"""What reconciling a run yields: anomalies, and the lost ranges and HW regressions that the judge attributes."""

from __future__ import annotations

import msgspec

from analysis.verdict import AnomalyCount, Counts


class LostRange(msgspec.Struct, frozen=True, kw_only=True):
    """Lost records of one partition that share acks, commitment and the leader epoch in force when acked.

    `count` may be less than the offsets from first to last: lost records need not be adjacent. Times are those
    of their acknowledgements, or of sending where that is not known; `last_sent_ns` is when the last of them was sent.
    `acked_after_epoch` is by the controller's clock; null when the metadata log has no election before.
    """

    topic: str
    partition: int
    acks: int
    committed: bool
    first_offset: int
    last_offset: int
    count: int
    acked_after_epoch: int | None = None
    first_done_ns: int
    last_done_ns: int
    last_sent_ns: int | None = None


class HwRegression(msgspec.Struct, frozen=True, kw_only=True):
    """One drop of the HW that leaders served, however many observations show it.

    From the highest HW served before to the lowest under `leader_epoch`; `broker` served it. A HW that stays low
    under the epochs after is no drop of theirs.
    """

    topic: str
    partition: int
    from_: int
    to: int
    leader_epoch: int
    broker: int
    earlier_at_ns: int
    at_ns: int
    earlier_leader_epoch: int


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at once.

    `unknown` says, per kind, why it could not be judged, or not everywhere: what was found of it stands, what
    was not found proves nothing.
    """

    counts: Counts
    anomalies: list[AnomalyCount]
    unknown: dict[str, str]
    lost: list[LostRange]
    regressions: list[HwRegression]
