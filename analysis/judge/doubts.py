"""Keeps the judge from concluding anything that its record cannot show: such a cause or clause is unknown.

Three things leave a doubt: a part of the record that is lost, times that a step of the clock left in doubt, and a
cluster that Ebbtide only watched.

The order of decisions comes from offsets, epochs and sequences. What is also judged by time neither accuses nor excuses
where its times are not sure (`analysis.record.clock_steps`).

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
from datetime import UTC, datetime

import msgspec

from analysis.judge.history.evidence import A, Attribution
from analysis.judge.rules.clause import CheckedClause, unknown_finding
from analysis.record.clock_steps import CLOCKS_AGREE_NS, Span
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS, Timeline
from analysis.record.whole import OF_LOSSES, OF_PREDICTIONS
from ebbtide.record.manifest import Manifest, WatchFacts
from ebbtide.releases.known_releases import minor_release_of

UNRECORDED = "what happened to disks, processes and the network of this cluster is not recorded"

_MARGIN_NS = 1_000_000_000
"""The orders that show a step of the clock reach only as far as their own rows; the span may begin a little earlier."""

_MIXED = "brokers of several releases ran in this cluster, and no table says which rules decided"


def why_unproven(record: Record) -> str | None:
    """Return in a few words why what the record shows cannot break a prediction; None: it can."""
    if record.why_not_whole(OF_PREDICTIONS) is not None:
        return "the record is not whole"
    if record.manifest.disturbed:
        return "something outside of the run interfered"
    return why_unsure(record.unsure_spans, None)


def without_doubtful_causes(blamed: Sequence[A], record: Record) -> list[A]:
    """Return the anomalies; a cause that the record cannot show is not known."""
    not_whole = record.why_not_whole(OF_LOSSES)
    if not_whole is not None:
        unknown = Attribution(cause=None, election=None, why=not_whole)
        return [msgspec.structs.replace(one, attribution=unknown) for one in blamed]
    found = []
    for one in blamed:
        why = _why_doubtful(one.attribution, record)
        if why is not None:
            unknown = Attribution(cause=None, election=one.attribution.election, why=why)
            one = msgspec.structs.replace(one, attribution=unknown)
        found.append(one)
    return found


def _why_doubtful(found: Attribution, record: Record) -> str | None:
    """Return why the record cannot show a cause; None: it can, or there is none."""
    if found.cause is None:
        return None
    manifest, election = record.manifest, found.election
    unsure = why_unsure(record.unsure_spans, None if election is None else election.after.at_ns)
    if unsure is not None or manifest.watch is None:
        return unsure
    if (clocks := _why_clocks_disagree(manifest.watch)) is not None:
        return clocks
    if found.cause != "uncommitted-at-failover" and _has_other_releases(manifest, record.timeline):
        return _MIXED
    return f"{found.why}; {UNRECORDED}" if found.cause == "unexplained" else None


def without_doubtful_findings(checked: Sequence[CheckedClause], record: Record) -> list[CheckedClause]:
    """Return the clauses; what the record cannot prove is unknown."""
    is_watched, unsure = record.manifest.watch is not None, record.unsure_spans
    return [_unknown_unless_sure(_unknown_unless_shown(one) if is_watched else one, unsure) for one in checked]


def _unknown_unless_shown(one: CheckedClause) -> CheckedClause:
    if one.found.status != "violated" or one.clause.is_shown_without_steps:
        return one
    evidence = [{**row, "why": UNRECORDED} if isinstance(row, dict) else row for row in one.found.evidence]
    found = msgspec.structs.replace(one.found, status="unknown", evidence=evidence)
    return msgspec.structs.replace(one, found=found)


def _unknown_unless_sure(one: CheckedClause, unsure: Sequence[Span]) -> CheckedClause:
    if not one.clause.compares_times or one.found.status not in ("holds", "violated"):
        return one
    why = why_unsure(unsure, _newest_ns(one) if one.found.status == "violated" else None)
    if why is None:
        return one
    found = msgspec.structs.replace(one.found, status="unknown", evidence=list(unknown_finding(why).evidence))
    return msgspec.structs.replace(one, found=found, cases=1)


def why_unsure(unsure: Sequence[Span], latest_ns: int | None) -> str | None:
    """Return why something cannot be judged by time, of which `latest_ns` is the newest time; None: it can.

    `unsure`: the spans in which the record's clock is not sure. `latest_ns` None: its times are not known.
    """
    if not unsure or (latest_ns is not None and latest_ns < unsure[0][0] - _MARGIN_NS):
        return None
    from_ns, until_ns = unsure[0]
    at = datetime.fromtimestamp(from_ns / 1e9, UTC)
    return (
        f"the clock was set back at or after {at:%H:%M:%S} UTC by {(until_ns - from_ns) / 1e9:.3g} s or more, "
        "and nothing says when"
    )


def _newest_ns(one: CheckedClause) -> int | None:
    """Return the newest time that the evidence of a clause names; None: it names none."""
    rows = [row for row in one.found.evidence if isinstance(row, dict)]
    return max((at for row in rows for key, at in row.items() if key.endswith("_ns") and at is not None), default=None)


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
