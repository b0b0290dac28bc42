"""KIP-966, for `__consumer_offsets`: a commit that was acked is a committed record.

A group gets back what was acked for it, and never an older commit than one that was served. Every
exception needs an election of its coordinator's partition that the protocol permits (the causes).
"""

from __future__ import annotations

from analysis.judge.rules.clause import Clause, Finding, Judged, finding_on_causes
from analysis.judge.rules.groups import commit_back, commit_lost
from analysis.reconcile.model import LostCommits
from analysis.record.whole import OF_LOSSES

_KINDS = (commit_lost.RULE.name, commit_back.RULE.name)


def _check(judged: Judged) -> Finding:
    settled = [one for one in judged.blamed_of(LostCommits) if one.items.settled]
    whys = {judged.unknown[kind] for kind in _KINDS if kind in judged.unknown}
    if judged.found.unchecked_commits is not None:
        whys.add(judged.found.unchecked_commits)
    return finding_on_causes(
        settled, exercised=judged.found.acked_commits, kind_unknown="; ".join(sorted(whys)) or None
    )


RULE = Clause(
    kip="KIP-966",
    check=_check,
    applies=lambda judged: judged.record.has("commits"),
    reads_timeline=False,
    parts=(*OF_LOSSES, "commits"),
    allowed="every lost commit of a group is one that the specification allows on this release",
    unknown_when=(
        "the cause of a lost [commit](groups.md#does-a-group-get-its-place-back) is not known, or lost commits "
        "are unknown. Only in records with `commits/`"
    ),
    example="""
        A group lost an acked commit. Its coordinator was elected cleanly, out of the ISR.
        partitions: leader=1; topic=__consumer_offsets at=1 partition_epoch=0;
          topic=__consumer_offsets at=33 leader=2
        watermarks: topic=__consumer_offsets high_watermark=9 at=2; topic=__consumer_offsets high_watermark=9 at=31;
          topic=__consumer_offsets broker=2 leader_epoch=1 high_watermark=9 at=34;
          topic=__consumer_offsets broker=2 leader_epoch=1 high_watermark=9 at=35
        commits: status=acked commit=1 offset=1; status=served broker=2 at=40
        sends: 0=1
        polls: final 0=1
        gives: topic=__consumer_offsets count=1
    """,
)
