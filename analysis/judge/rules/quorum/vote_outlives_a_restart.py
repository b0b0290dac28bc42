"""KIP-595: a controller has its epoch, its vote and its leader on the disk before it acts on them.

So it has them when it starts again, or it could vote twice in one epoch. Its own log says each state that it wrote
down, and the state in which it starts. A step on its disk excuses it, but no kill and no power loss: the file is
flushed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from analysis.judge.history.evidence import Row
from analysis.judge.history.log_lines import UNREADABLE, node_lines, time_ns
from analysis.judge.history.steps import TOUCHES, step_on_disks_of
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged, unknown_finding
from analysis.record.record import Record

_WROTE = b"Completed transition to "
_STARTS = b"from null"
_STATE = re.compile(
    rb"^(\S+) .*Completed transition to (UnattachedState|FollowerState|CandidateState|Leader)\(.*?\bepoch=(\d+)(.*)"
)
"""`QuorumState.durableTransitionTo` (3.9); the other states are not written down."""
_KNOWS_NOTHING = b", leaderId=OptionalInt.empty, votedKey=Optional.empty,"


class _State(NamedTuple):
    at_ns: int
    epoch: int
    knows: bool
    """A leader of this epoch, or its own vote."""


def _check(judged: Judged) -> Finding:
    record = judged.record
    if record.proven_steps is None:
        return unknown_finding("no steps say what happened to disks")
    cases = Cases()
    for controller in record.manifest.topology.controllers:
        before: _State | None = None
        for state, is_start in _states(record, controller):
            step = step_on_disks_of(record, [controller], state.at_ns, TOUCHES - {"power-loss"}) if is_start else None
            if is_start and before is not None and step is None:
                forgot = state.epoch < before.epoch
                forgot |= state.epoch == before.epoch and before.knows and not state.knows
                row: Row = {"controller": controller, "at_ns": state.at_ns, "epoch": state.epoch}
                row |= {"epoch_before": before.epoch, "written_ns": before.at_ns}
                cases.add(row if forgot else None)
            before = state
    return cases.finding()


def _states(record: Record, controller: int) -> Iterator[tuple[_State, bool]]:
    """Yield each state that a controller wrote down, and whether it started in that state."""
    try:
        for line in node_lines(record, "controller", (controller,)):
            if _WROTE in line and (match := _STATE.match(line)) is not None:
                knows = not match[4].startswith(_KNOWS_NOTHING)
                state = _State(time_ns(match[1], record.clocks), int(match[3]), knows)
                yield state, line.rstrip().endswith(_STARTS)
    except UNREADABLE:
        return


RULE = Clause(
    kip="KIP-595",
    check=_check,
    reads_timeline=False,
    needed="never",
    unknown_when="the steps are missing. Only where a controller that started again has a log, from 3.9 on",
    example="""
        Controller 100 voted in epoch 3, starts again at 40 s, and knows of no vote in that epoch.
        logs: node=controller-100 at=20
          says=Completed_transition_to_UnattachedState(epoch=3,_leaderId=OptionalInt.empty,_votedKey=Optional[101],_v)_from_X;
          node=controller-100 at=40
          says=Completed_transition_to_UnattachedState(epoch=3,_leaderId=OptionalInt.empty,_votedKey=Optional.empty,_v)_from_null
        gives: controller=100 epoch=3 epoch_before=3
    """,
)
