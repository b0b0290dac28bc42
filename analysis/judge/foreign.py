"""Keeps the judge from accusing Kafka of what happened to a cluster that Ebbtide only watched.

On a cluster of its own Ebbtide knows every fault. On somebody else's cluster a disk may have lost its page cache, a
broker may have been cut off, and an operator may have asked for an election, and no table says so. Therefore:

- `steps.jsonl` has what people said (marks), and no proof. The causes are judged as if it were missing.
- A loss that no rule explains has no known cause. It never is *unexplained*.
- Causes compare the clock of the watching host with those of the controllers. Where these are too far apart, or the
  distance is not known, no cause is known.
- Which rules decided is not known where brokers of several releases ran. Then only the cause that is the same in
  every release is known.
- A clause can be violated only where the metadata log alone shows it: the quorum's own decisions, in their own order.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.judge.history.attributed import A
from analysis.judge.history.evidence import Attribution
from analysis.judge.rules.clause import CheckedClause
from analysis.record.clock_steps import CLOCKS_AGREE_NS
from analysis.record.timeline import MILLISECOND_NS, Timeline
from ebbtide.record.manifest import Manifest, WatchFacts
from ebbtide.releases.known_releases import minor_release_of

UNRECORDED = "what happened to disks, processes and the network of this cluster is not recorded"

_MIXED = "brokers of several releases ran in this cluster, and no table says which rules decided"


def without_accusations(blamed: Sequence[A], manifest: Manifest, timeline: Timeline) -> list[A]:
    """Return the losses of a watched cluster with the causes that its record can show; others as they are."""
    if manifest.watch is None:
        return list(blamed)
    clocks = _why_clocks_disagree(manifest.watch)
    is_mixed = _has_other_releases(manifest, timeline)
    found = []
    for one in blamed:
        attribution = one.attribution
        if clocks is not None and attribution.cause is not None:
            attribution = Attribution(cause=None, election=attribution.election, why=clocks)
        elif is_mixed and attribution.cause not in (None, "uncommitted-at-failover"):
            attribution = Attribution(cause=None, election=attribution.election, why=_MIXED)
        elif attribution.cause == "unexplained":
            why = f"{attribution.why}; {UNRECORDED}"
            attribution = Attribution(cause=None, election=attribution.election, why=why)
        found.append(msgspec.structs.replace(one, attribution=attribution))
    return found


def without_unproven_violations(checked: Sequence[CheckedClause], manifest: Manifest) -> list[CheckedClause]:
    """Return the clauses of a watched cluster; what its record cannot prove to be violated is unknown."""
    if manifest.watch is None:
        return list(checked)
    return [_unknown_unless_shown(one) for one in checked]


def _unknown_unless_shown(one: CheckedClause) -> CheckedClause:
    if one.found.status != "violated" or one.clause.is_shown_without_steps:
        return one
    evidence = [{**row, "why": UNRECORDED} if isinstance(row, dict) else row for row in one.found.evidence]
    found = msgspec.structs.replace(one.found, status="unknown", evidence=evidence)
    return msgspec.structs.replace(one, found=found)


def _why_clocks_disagree(watch: WatchFacts) -> str | None:
    if watch.clock_distance_ms is None:
        return "how far the clocks of the controllers are from that of the watching host is not known"
    if watch.clock_distance_ms * MILLISECOND_NS > CLOCKS_AGREE_NS:
        return f"the clock of a controller is {watch.clock_distance_ms:,} ms from that of the watching host"
    return None


def _has_other_releases(manifest: Manifest, timeline: Timeline) -> bool:
    """Whether a broker registered that is of another minor release than the watch took for the cluster's."""
    shown = {minor_release_of(one.metadata_version) for one in timeline.brokers if one.metadata_version is not None}
    return any(not manifest.kafka.startswith(f"{minor}.") for minor in shown if minor is not None)
