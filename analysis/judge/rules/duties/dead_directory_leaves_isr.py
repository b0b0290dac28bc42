"""KIP-858: a replica whose log directory has failed leaves the ISR, while its broker goes on.

The broker's log says when it stopped serving the directory. It reports that with its next heartbeat, and the
controller takes its replicas there out of the ISR. A session is allowed. Where the ELR is off, the last member of the
ISR stays there.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.history.log_lines import line_times
from analysis.judge.rules.clause import Clause, state_row
from analysis.judge.rules.duties.duty import SECOND_NS, Duty, finds_duties, lasting_partitions
from analysis.record.record import Record
from ebbtide.logs.segments import TopicPartition
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.disk import DirectoryStep
from ebbtide.scenario.steps.table import DISK_TROUBLES

_STOPS = b"Stopping serving logs in dir"
"""`LogManager` (3.7 to 4.4)."""


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    lasting = lasting_partitions(record)
    for step in filter(_breaks_a_directory, record.proven_steps or ()):
        for broker in step.nodes:
            stopped = [at for at in line_times(record, broker, _STOPS) if at >= (step.fired_ns or 0)]
            if not stopped:
                continue
            later = [one.at_ns for one in record.timeline.brokers if one.broker == broker and one.at_ns > stopped[0]]
            for name in step.figures(DirectoryStep.Proof).of(broker).holds or ():
                at = TopicPartition.parse(name)
                before = record.timeline.state_at_time(*at, step.fired_ns or 0)
                if before is None or at not in lasting or broker not in before.isr:
                    continue
                states = [before, *(one for one in record.timeline.states(*at) if one.at_ns > before.at_ns)]
                elr = record.protocol.is_elr_on(before.metadata_offset)
                if elr is not True and any(one.isr == (broker,) for one in states):
                    continue
                yield Duty(
                    about=state_row(before, broker=broker, step=step.index),
                    since_ns=stopped[0],
                    within_ns=int(record.session_timeout_s * SECOND_NS),
                    kept_ns=next((one.at_ns for one in states if broker not in one.isr), None),
                    over_ns=min([*later, *([] if step.healed_ns is None else [step.healed_ns])], default=None),
                    despite=(step.index,),
                )


def _breaks_a_directory(step: StepEntry) -> bool:
    return step.step in DISK_TROUBLES and step.effect_ns is not None and step.asked.directory is not None


RULE = Clause(
    kip="KIP-858",
    check=_check,
    applies=lambda judged: any(map(_breaks_a_directory, judged.record.proven_steps or ())),
    needed="never",
    compares_times=True,
    unknown_when="a replica of a failed directory is in the ISR, and the broker did not go on for three sessions",
    example="""
        One of two directories of broker 3 fails at 5 s, and its log says so. Its replica there stays in the ISR.
        steps: step=fail-disk nodes=3 at=5 directory=2 holds=t-0
        logs: node=broker-3 at=6 says=Stopping_serving_logs_in_dir_2
        clock: from=0 to=50
        gives: broker=3 isr=1,2,3
    """,
)
