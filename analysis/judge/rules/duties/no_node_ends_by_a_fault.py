"""No node ends by a fault that its own log calls fatal, unless a step touched a disk, a clock or a release.

A kill, a pause or a cut is no reason for Kafka to end a process of its own. What a disk lost may be one, also where it
was the disk of a controller. So may another release, which need not read what the one before it wrote. Where the host
had no room or no memory, the run counts as failed, and not here.
"""

from __future__ import annotations

from analysis.judge.history.evidence import Row
from analysis.judge.history.steps import step_on_disks_of
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.steps.process import UpgradeStep


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for end in record.manifest.node_ends:
        row: Row = {"node": end.node, "fault": end.fault, "at_ns": end.at_ns}
        nodes = [*record.manifest.topology.controllers, *([] if end.id is None else [end.id])]
        if record.proven_steps is None:
            cases.add(row, why="no steps say what happened to disks")
        elif (step := step_on_disks_of(record, nodes, end.at_ns) or _upgrade_before(record, end.at_ns)) is not None:
            cases.add(row, why=f"step {step.index} ({step.step}) may explain why {end.node} ended")
        else:
            cases.add(row)
    return cases.finding()


def _upgrade_before(record: Record, until_ns: int) -> StepEntry | None:
    """Return the first step that moved nodes to another release up to some time; None: none did."""
    upgrades = [one for one in record.steps or () if one.is_a(UpgradeStep) and one.fired_ns is not None]
    return next((one for one in upgrades if (one.fired_ns or 0) <= until_ns), None)


RULE = Clause(
    kip="Kafka's promise",
    check=_check,
    applies=lambda judged: bool(judged.record.manifest.node_ends),
    reads_timeline=False,
    needed="never",
    unknown_when="a node ended, and a step had touched its disk, its clock, those of a controller, or any release",
    example="""
        Broker 2 was killed and started. Then Kafka ended it by a fault.
        steps: step=kill nodes=2 at=5; step=start nodes=2 at=6
        setting: ended=broker-2
        gives: node=broker-2
    """,
)
