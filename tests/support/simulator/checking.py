"""Holds the simulator against the specification: does each transition of its metadata log have an action?"""

from __future__ import annotations

import msgspec

from analysis.judge.trace.check import check_timeline
from analysis.judge.trace.results import TimelineTrace
from analysis.record.protocol import RulesInForce
from analysis.record.requests import requests
from analysis.record.timeline import Timeline
from ebbtide.record.rows import BrokerEvent, ConfigChange, PartitionState
from ebbtide.scenario.steps.table import KINDS
from simulator.controller import TOPIC
from simulator.history import TrueHistory
from simulator.writing import manifest_of


def timeline_of(history: TrueHistory) -> Timeline:
    """Return the metadata log of a history as the judge reads it."""
    tables = history.tables
    states = [msgspec.convert(row, PartitionState) for row in tables["partitions"]]
    numbers = sorted({one.partition for one in states})
    return Timeline(
        partitions={(TOPIC, number): tuple(one for one in states if one.partition == number) for number in numbers},
        brokers=tuple(BrokerEvent(**row) for row in tables["brokers"]),
        configs=tuple(ConfigChange(**row) for row in tables["configs"]),
        missing=frozenset(),
        torn=False,
        gaps=False,
    )


def trace_of_history(history: TrueHistory) -> TimelineTrace:
    """Check every transition of a whole history against the protocol of its release."""
    timeline, manifest, steps = timeline_of(history), manifest_of(history), history.steps or []
    touched = {node for step in steps if KINDS[step.step].changes_directory for node in step.nodes}
    return check_timeline(
        timeline,
        RulesInForce(manifest, timeline),
        statics={},
        asked=requests(steps),
        touched_disks=frozenset(touched),
        in_final_read=frozenset(manifest.final_offsets),
    )
