"""A broker that shuts down cleanly has flushed each log, so a power loss afterwards takes nothing of it.

A log that is loaded after a clean shutdown is not recovered: what it lacks is gone. Ebbtide measures each log right
before and right after a power loss. The clause is on power losses of brokers that a step had stopped before, and that
nobody had started since. Trouble with the broker's disk leaves it unknown.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.history.steps import measured_power_losses
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from ebbtide.scenario.steps.process import StopStep
from ebbtide.scenario.steps.table import DISK_TROUBLES, KINDS, LOSES_RECORDS

_TROUBLES = (LOSES_RECORDS - {"power-loss"}) | DISK_TROUBLES


def _check(judged: Judged) -> Finding:
    steps = judged.record.proven_steps or ()
    cases = Cases()
    for log in measured_power_losses(judged.record):
        before = [one for one in steps if one.index < log.step.index and log.broker in one.nodes]
        changed = [one for one in before if KINDS[one.step].family in ("process", "disk")]
        # A stop without proof may have ended in a crash or a SIGKILL.
        if not changed or not changed[-1].is_a(StopStep) or changed[-1].effect_ns is None:
            continue
        row: Row = {"topic": log.topic, "partition": log.partition, "broker": log.broker}
        row |= {"log_end_before": log.before, "log_end_after": log.after}
        is_troubled = any(one.step in _TROUBLES for one in changed)
        why = "a step had troubled the disk before" if is_troubled else None
        cases.add(row if log.after < log.before else None, why=why)
    return cases.finding()


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    needed="never",
    unknown_when="a log lost records after a clean stop, and a step had troubled the broker's disk before",
    example="""
        Broker 2 stops cleanly at 20 s, and loses power at 30 s. Its log had one record, and has it no more.
        partitions: leader=1
        steps: step=stop nodes=2 at=20; step=power-loss nodes=2 at=30 leo=1,0
        gives: broker=2 log_end_before=1 log_end_after=0
    """,
)
