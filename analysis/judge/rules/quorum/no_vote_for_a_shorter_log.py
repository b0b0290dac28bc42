"""KIP-595: a controller votes only for a candidate whose metadata log is at least as long as its own.

Its own log says for whom it voted, and where the candidate's log ended. It may have records that the candidate lacks,
of an older epoch than the candidate's last one. Then the two logs part before the candidate's end. If the candidate
leads in the epoch of the vote, and has the voter truncate to the very end of the candidate's log, then the voter had
all of that log, and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from analysis.judge.history.log_lines import UNREADABLE, node_lines, time_ns
from analysis.judge.rules.clause import Cases, Clause, Finding, Judged
from analysis.record.record import Record

_GRANTS = re.compile(
    rb"^(\S+) .*Vote request .*?\b(?:replica|candidate)Id=(\d+), .*?lastOffsetEpoch=-?\d+, lastOffset=(\d+)"
    rb"(?!.*preVote=true).* with epoch (\d+) is granted"
)
_ENTERS = re.compile(rb"Completed transition to .*?\bepoch=(\d+)")
_TRUNCATES = re.compile(rb"Truncated to offset (\d+) from Fetch response from leader (\d+)")
"""`KafkaRaftClient` and `QuorumState` (3.4 to 4.4)."""


class _Vote(NamedTuple):
    """A vote for a candidate whose log ended at an offset, and to which offset the candidate had the voter truncate.

    `truncated_to` is None unless that was in the epoch of the vote.
    """

    at_ns: int
    candidate: int
    log_end: int
    epoch: int
    truncated_to: int | None = None


def _check(judged: Judged) -> Finding:
    record = judged.record
    cases = Cases()
    for controller in record.manifest.topology.controllers:
        for vote in _votes(record, controller):
            is_broken = vote.truncated_to == vote.log_end
            cases.add({"controller": controller, **vote._asdict()} if is_broken else None)
    return cases.finding()


def _votes(record: Record, controller: int) -> Iterator[_Vote]:
    """Yield the votes of a controller; none further if its log is damaged."""
    vote: _Vote | None = None
    try:
        for line in node_lines(record, "controller", (controller,)):
            granted, enters, truncates = _GRANTS.match(line), _ENTERS.search(line), _TRUNCATES.search(line)
            if vote is not None and (granted or (enters and int(enters[1]) != vote.epoch)):
                yield vote
                vote = None
            if granted is not None:
                candidate, log_end, epoch = map(int, granted.group(2, 3, 4))
                vote = _Vote(time_ns(granted[1], record.clocks), candidate, log_end, epoch)
            elif vote is not None and truncates is not None and int(truncates[2]) == vote.candidate:
                vote = vote._replace(truncated_to=int(truncates[1]))
    except UNREADABLE:
        return
    if vote is not None:
        yield vote


RULE = Clause(
    kip="KIP-595",
    check=_check,
    reads_timeline=False,
    needed="never",
    example="""
        Controller 100 votes for 102, whose log is empty. Then it truncates its own log to 0, as 102 says.
        logs: node=controller-100 at=20
          says=Vote_request_V(replicaId=102,_replicaDirectoryId=A,_lastOffsetEpoch=0,_lastOffset=0,_preVote=false)_with_epoch_2_is_granted;
          node=controller-100 at=21 says=Completed_transition_to_FollowerState(epoch=2,_leader=102)_from_V;
          node=controller-100 at=22 says=Truncated_to_offset_0_from_Fetch_response_from_leader_102
        gives: controller=100 candidate=102 log_end=0
    """,
)
