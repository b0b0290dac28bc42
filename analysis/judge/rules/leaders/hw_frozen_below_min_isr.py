"""KIP-966: the HW advances only while the ISR has at least min ISR members.

"High Watermark can only advance if the ISR size is larger or equal to min.insync.replicas",
where the ISR is the one persisted by the controller. In every release from 3.7 on, with ELR or
without.
"""

from __future__ import annotations

from analysis.judge.history.stretches import StretchesSeen
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding


def _check(judged: Judged) -> Finding:
    record = judged.record
    hw_waits = record.protocol.hw_waits_for_min_isr
    below = record.seen(StretchesSeen).below_min_isr
    in_force = [(one, hw_waits(one.interval.leader, one.interval.start_ns)) for one in below]
    stretches = [one for one, waits in in_force if waits is not False]
    if not stretches:
        return Finding(status="not-exercised")
    if record.split_steps is None:
        return unknown_finding(
            "steps.jsonl is missing, so it is not known whether a leader knew that it was below min ISR"
        )
    if any(waits is None for _, waits in in_force):
        return unknown_finding("the Kafka release is not known")
    if not record.has("watermarks"):
        return unknown_finding("watermarks is missing")
    cases = Cases()
    for stretch in stretches:
        if stretch.hws is None:
            continue
        (first, highest), interval = stretch.hws, stretch.interval
        about = {"min_isr": interval.min_isr, "isr": sorted(interval.isr), "since": interval.metadata_offset}
        has_risen = int(str(highest["high_watermark"])) > int(str(first["high_watermark"]))
        cases.add({"first": first, "later": highest, **about} if has_risen else None)
    return cases.finding()


RULE = Clause(
    kip="KIP-966",
    check=_check,
    scans=(StretchesSeen,),
    parts=("watermarks",),
    needed="if-hw-predicted",
    compares_times=True,
    unknown_when=(
        "the ISR was below min ISR, and `watermarks/` is missing. It does not apply to leaders on releases before 3.7"
    ),
    example="""
        Broker 1 leads alone from 5 s on, and min ISR is 2. It serves 100 at 60 s and 200 at 62 s.
        partitions: leader=1; at=5 isr=1
        watermarks: at=60 high_watermark=100; at=62 high_watermark=200
        gives: min_isr=2 isr=1
    """,
)
