"""Duties: what Kafka must do by itself, within a time.

A duty begins, somebody owes it, a rule says within which time, and it ends once it is kept, or once nobody owes it any
more. A module here finds the duties of one sort in a record. Whether they are broken is decided here, for all alike.

A duty is broken if it is not kept within thrice the time that the rule allows. It is unknown who broke it, unless all
that time:

- the metadata log went on, never still for as long as the rule allows, or for a session: the controllers and the host
  were alive. A controller that has nothing else to do writes a record every half a second;
- each broker that owes it was unfenced, so its heartbeats came, or its log or its answers show that it was alive;
- no fault was in force that could keep them from it. After a fault, a duty begins when it was healed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from typing import NamedTuple

from analysis.judge.history.evidence import Row
from analysis.judge.history.steps import end_of_fault
from analysis.judge.rules.clause import Cases, Finding, Judged, unknown_finding
from analysis.record.record import Record
from ebbtide.record.rows import PartitionState
from ebbtide.record.steps import StepEntry
from ebbtide.record.topic_lives import deletion_times
from ebbtide.scenario.steps.table import KINDS

PATIENCE = 3
"""A duty is broken after so many times the time that its rule allows."""
SECOND_NS = 1_000_000_000
_IS_NO_FAULT = frozenset(kind for kind, one in KINDS.items() if one.family in ("admin", "recovery", "waiting"))
_IS_NO_FAULT |= {"release"}  # without effect if nothing was held; when a hold ended is said beside the hold


class Duty(NamedTuple):
    """What somebody owes.

    - `about`: who owes what, as evidence.
    - `since_ns`: when it surely had begun.
    - `within_ns`: the time that the rule allows.
    - `kept_ns`: when it was kept; None: it never was.
    - `over_ns`: when nobody owed it any more, kept or not; None: never.
    - `alive_ns`: when a debtor showed itself alive; None: it is unfenced, and its heartbeats say enough.
    - `controllers_ns`: when the controllers wrote to the metadata log; None: whenever the harness saw it grow.
    - `despite`: the faults, by the index of their step, in spite of which it is owed.
    - `doubt`: why nobody can be accused of breaking it; None: somebody can.
    """

    about: Row
    since_ns: int
    within_ns: int
    kept_ns: int | None = None
    over_ns: int | None = None
    alive_ns: Sequence[int] | None = None
    controllers_ns: Sequence[int] | None = None
    despite: Collection[int] = ()
    doubt: str | None = None

    @property
    def broken_ns(self) -> int:
        """When the duty is broken if it is not kept by then."""
        return self.since_ns + PATIENCE * self.within_ns


def finds_duties(duties: Callable[[Record], Iterable[Duty]]) -> Callable[[Judged], Finding]:
    """Return the check of the clause whose duties a function yields, in the place of that function."""

    @wraps(duties)
    def check(judged: Judged) -> Finding:
        return finding_on_duties(judged.record, duties(judged.record))

    return check


def finding_on_duties(record: Record, duties: Iterable[Duty]) -> Finding:
    """Return a violation for each broken duty; an excuse of its debtors leaves it unknown."""
    if record.proven_steps is None:
        return unknown_finding("no steps say which faults were in force")
    cases = Cases()
    for duty in duties:
        if duty.kept_ns is not None and duty.kept_ns <= duty.broken_ns:
            cases.add()
        elif duty.over_ns is None or duty.over_ns > duty.broken_ns:
            row = duty.about | {"since_ns": duty.since_ns, "allowed_s": duty.within_ns / SECOND_NS}
            cases.add(row, why=why_excused(record, duty))
    return cases.finding()


def why_excused(record: Record, duty: Duty) -> str | None:
    """Return the duty's own doubt, or what else than Kafka may have kept the debtors from it; None: nothing."""
    since_ns, until_ns = duty.since_ns, duty.broken_ns
    if duty.doubt is not None or record.unsure_spans:
        return duty.doubt or "a clock was set"
    for step in record.proven_steps or ():
        if step.index not in duty.despite and _is_in_force(step, since_ns, until_ns):
            return f"step {step.index} ({step.step}) was in force meanwhile"
    signs = {"the metadata log": duty.controllers_ns or _growths(record), "a debtor": duty.alive_ns}
    for who, seen in signs.items():
        stillest_ns = 0 if seen is None else _stillest(seen, since_ns, until_ns)
        if stillest_ns > min(duty.within_ns, record.session_timeout_s * SECOND_NS):
            return f"{who} showed nothing for {stillest_ns / SECOND_NS:.1f} s: nobody looked, or the host was busy"
    return None


def healed_ns(record: Record) -> int | None:
    """Return when the last fault of the run was healed, by its proof; None: one was not, or nobody knows."""
    times = [record.manifest.start_ns or 0]
    for step in record.proven_steps or ():
        if step.fired_ns is not None:
            end_ns = step.fired_ns if step.step in _IS_NO_FAULT else end_of_fault(step)
            if end_ns is None:
                return None
            times.append(end_ns)
    return None if record.proven_steps is None else max(times)


def _is_in_force(step: StepEntry, since_ns: int, until_ns: int) -> bool:
    if step.fired_ns is None or step.step in _IS_NO_FAULT:
        return False
    end_ns = end_of_fault(step)
    return step.fired_ns <= until_ns and (end_ns is None or end_ns > since_ns)


def _stillest(seen: Sequence[int], since_ns: int, until_ns: int) -> int:
    """Return the longest time without a sign of life between two times."""
    times = [since_ns, *(at for at in seen if since_ns <= at <= until_ns), until_ns]
    return max(after - before for before, after in pairwise(times))


def _growths(record: Record) -> Sequence[int]:
    """Return when the metadata log was seen to be longer than before."""
    readings = record.clocks.readings
    return [after.at_ns for before, after in pairwise(readings) if after.metadata_end > before.metadata_end]


def lasting_partitions(record: Record) -> Mapping[tuple[str, int], Sequence[PartitionState]]:
    """Return the states of the run's own partitions that are there to the end.

    No row says when a topic was deleted. Only the steps say it, and of the run's own topics the manifest.
    """
    gone = {*deletion_times(record.proven_steps or ()), *record.manifest.gone_topics}
    own = record.manifest.topics.keys() - gone
    return {at: states for at, states in record.timeline.partitions.items() if at[0] in own}


def unfenced_since(record: Record, broker: int) -> int | None:
    """Return since when a broker is unfenced at the end of the run; None: it is not."""
    last = next((one for one in reversed(record.timeline.brokers) if one.broker == broker), None)
    return last.at_ns if last is not None and last.event == "unfenced" else None
