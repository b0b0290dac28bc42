"""KIP-841: a broker that is fenced leaves the ISR.

The controller does both at once, in one batch of the metadata log. KIP-966 says it, too: "The proposal maintains the
behavior of removing a replica out of ISR if it is lagging from the ISR or it is fenced by the controller." A second is
allowed. Where the ELR is off, the last member of the ISR stays there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from analysis.judge.rules.clause import Clause, state_row
from analysis.judge.rules.duties.duty import SECOND_NS, Duty, finds_duties, lasting_partitions
from analysis.record.record import Record


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    timeline, steps = record.timeline, record.proven_steps or ()
    for event in timeline.brokers:
        if event.event != "fenced":
            continue
        later = [one.at_ns for one in timeline.brokers if one.broker == event.broker and one.at_ns > event.at_ns]
        keeps_last = record.protocol.is_elr_on(event.metadata_offset) is not True
        for states in lasting_partitions(record).values():
            at = bisect_left(states, event.at_ns, key=lambda one: one.at_ns) - 1
            if at < 0 or event.broker not in states[at].isr:
                continue
            if keeps_last and any(one.isr == (event.broker,) for one in states[at:]):
                continue
            yield Duty(
                about=state_row(states[at], broker=event.broker),
                since_ns=event.at_ns,
                within_ns=SECOND_NS,
                kept_ns=next((one.at_ns for one in states[at:] if event.broker not in one.isr), None),
                over_ns=min(later, default=None),
                # The controllers that fenced it are alive, whatever is broken elsewhere.
                despite=[step.index for step in steps],
            )


RULE = Clause(
    kip="KIP-841",
    check=_check,
    applies=lambda judged: any(one.event == "fenced" for one in judged.record.timeline.brokers),
    needed="never",
    compares_times=True,
    unknown_when="a fenced broker is in the ISR, and the metadata log did not go on afterwards",
    example="""
        Broker 3 is fenced at 5 s, and is in the ISR ever after.
        partitions: leader=1
        brokers: at=5 broker=3 event=fenced
        clock: from=0 to=20
        gives: broker=3 isr=1,2,3
    """,
)
