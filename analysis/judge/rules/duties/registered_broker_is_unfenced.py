"""KIP-631: a broker that has registered, has caught up and asks for it is unfenced.

Its own log says that it waits to be unfenced, and that each heartbeat was answered while it waited. The controller
unfences it with its answer to the first of them. A session is allowed. Judged once each fault is healed.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.history.log_lines import line_times
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.duties.duty import SECOND_NS, Duty, finds_duties, healed_ns
from analysis.record.record import Record

_WAITS = b"Waiting for the broker to be unfenced"
_ANSWERED = b"The broker is in RECOVERY."
"""`BrokerLifecycleManager` (3.3 to 4.4): a heartbeat was answered, and the broker is fenced still."""


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    healed, last = healed_ns(record), {one.broker: one for one in record.timeline.brokers}
    if healed is None:
        return
    for broker, event in last.items():
        if event.event == "unfenced":
            yield Duty(about={"broker": broker}, since_ns=healed, within_ns=0, kept_ns=healed)
        waits = line_times(record, broker, _WAITS) if event.event == "registered" else []
        if waits[-1:] > [event.at_ns]:
            yield Duty(
                about={"broker": broker, "registered_at": event.metadata_offset},
                since_ns=max(healed, waits[-1]),
                within_ns=int(record.session_timeout_s * SECOND_NS),
                alive_ns=line_times(record, broker, _ANSWERED),
            )


RULE = Clause(
    kip="KIP-631",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when="a broker is fenced at the end, and its heartbeats were not answered all the time",
    example="""
        Broker 3 registers again at 5 s, and waits to be unfenced. Its heartbeats are answered until the end.
        brokers: at=5 broker=3
        clock: from=0 to=50
        logs: node=broker-3 at=6 says=Waiting_for_the_broker_to_be_unfenced;
          node=broker-3 at=6 to=50 says=The_broker_is_in_RECOVERY.
        gives: broker=3
    """,
)
