"""KIP-631: a broker whose heartbeats stop is fenced once its session has expired.

Judged where a step ended a broker's process by SIGKILL. A new controller gives each broker a new session, so two are
allowed where there are several controllers. Steps on controllers, on requests or on the network excuse it. A
partition does not where there is one controller, which fences by itself, and the partition outlasts the duty: when it
is healed, a last heartbeat may arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.history.steps import end_of_fault
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.duties.duty import SECOND_NS, Duty, finds_duties
from analysis.record.record import Record
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.table import KINDS


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    steps = record.proven_steps or ()
    controllers = record.manifest.topology.controllers
    sessions = 1 if len(controllers) == 1 else 2
    elsewhere = [
        one.index
        for one in steps
        if KINDS[one.step].family in ("process", "disk") and {*controllers}.isdisjoint(one.nodes)
    ]
    cuts = [one for one in steps if one.step in ("partition", "isolate") and sessions == 1]
    for step in filter(_kills, steps):
        for broker in {*step.nodes} & {*record.manifest.topology.brokers}:
            events = [one for one in record.timeline.brokers if one.broker == broker]
            if (ended := step.times_of(broker).ended) is None:
                continue
            before = [one.event for one in events if one.at_ns <= ended.last_ns]
            if before[-1:] != ["unfenced"]:
                continue
            again = [one.times_of(broker).started for one in steps]
            over = [one.first_ns for one in again if one is not None and one.first_ns > ended.last_ns]
            duty = Duty(
                about={"broker": broker, "step": step.index},
                since_ns=ended.last_ns,
                within_ns=int(sessions * record.session_timeout_s * SECOND_NS),
                kept_ns=next((one.at_ns for one in events if one.at_ns > ended.last_ns), None),
                over_ns=min([*over, *([] if step.healed_ns is None else [step.healed_ns])], default=None),
            )
            lasting = [one.index for one in cuts if (end_of_fault(one) or duty.broken_ns) >= duty.broken_ns]
            yield duty._replace(despite=[*elsewhere, *lasting])


def _kills(step: StepEntry) -> bool:
    kind = KINDS.get(step.step)
    return kind is not None and kind.takes_down and not kind.clean and step.effect_ns is not None


RULE = Clause(
    kip="KIP-631",
    check=_check,
    applies=lambda judged: any(map(_kills, judged.record.proven_steps or ())),
    needed="never",
    compares_times=True,
    unknown_when="a broker is not fenced after its end, and a controller may not have been alive all the time",
    example="""
        Broker 3 is killed at 5 s, and is unfenced ever after.
        steps: step=kill nodes=3 at=5
        clock: from=0 to=80
        gives: broker=3 step=0
    """,
)
