"""Says why a run has its outcome, and what explains its anomalies: the sentences in `why` of verdict.json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.judge.history.evidence import AnyAnomaly, election_of
from analysis.judge.rules.clause import CheckedClause
from analysis.reconcile.model import HwRegression, LostCommits, LostRange, VanishedRange, WrongCopies
from ebbtide.record.manifest import Manifest, reason_of_message
from ebbtide.record.steps import StepEntry
from ebbtide.rules.table import ANOMALIES
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.step import StepProof, WaitStep
from ebbtide.scenario.steps.table import CUT_KINDS
from ebbtide.shown_text import plural

_TOLD_MAX = 20
_NAMES_BEFORE_REASON = 2
"""Up to this many clauses are named before the reason why they are unknown."""
_PLACES_MAX = 4
"""So many partitions, or ranges of them, are named in a sentence."""
_TOLD_IN_ORDER = (LostRange, VanishedRange, HwRegression, LostCommits, WrongCopies)


def unproven_reasons(
    manifest: Manifest, scenario: Scenario | None, steps: Sequence[StepEntry] | None, gaps: Sequence[str] = ()
) -> list[str]:
    """Return why the schedule cannot be taken as carried out.

    Each sentence makes the run inconclusive. That the run did not complete is the first, because the rest follows from
    it. `gaps` say what the record lacks.
    """
    found = []
    if manifest.status != "complete":
        found.append(f"the run did not complete: {manifest.why_incomplete or manifest.status}")
    found += [f"Kafka ended {one.node} by a fault that its log calls fatal: {one.fault}" for one in manifest.node_ends]
    found += gaps
    if manifest.torn_journal_bytes:
        torn = plural(manifest.torn_journal_bytes, "byte")
        found.append(
            f"{torn} at the ends of the clients' journals are not whole entries: the tables lack their contents"
        )
    planned = len(scenario.steps) if scenario is not None else 0
    if steps is None:
        if planned or scenario is None:
            found.append("steps.jsonl is missing: which faults took effect is not known")
        return found
    for step in steps:
        if step.optional:
            continue
        name = f"step {step.index} ({step.step}{_node_names(step)})"
        # The failure of the run is its first reason already.
        why = None if step.why == manifest.failure else step.why
        reason = f": {reason_of_message(why)}" if why else ""
        if step.fired_ns is None:
            found.append(f"{name} never fired{reason}")
        elif not step.is_a(WaitStep) and (step.effect_ns is None or step.figures(StepProof).probe == "failed"):
            found.append(f"{name} has no proof that it took effect{reason}")
    absent = planned - len({step.index for step in steps})
    if absent > 0:
        found.append(f"{absent} of the scenario's {planned} steps never fired: they are not in steps.jsonl")
    return found


def unknown_reasons(checked: Sequence[CheckedClause]) -> list[str]:
    """Group the undecided clauses by their reason, one sentence each.

    The reason of many clauses comes first: nobody reads to the end of a long list of names.
    """
    by_reason: dict[str, list[str]] = {}
    for one in checked:
        by_reason.setdefault(one.why, []).append(f"{one.found.name} ({one.found.kip})")
    return [_unknown_reason(why, names) for why, names in by_reason.items()]


def _unknown_reason(why: str, names: Sequence[str]) -> str:
    if why and len(names) > _NAMES_BEFORE_REASON:
        return f"{why}; so {len(names)} clauses are unknown: {', '.join(names)}"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} unknown" + (f": {why}" if why else "")


def unexplained_reasons(blamed: Sequence[AnyAnomaly], what: str, fate: str) -> list[str]:
    """Say each anomaly that nothing explains: how many of `what` met which `fate`."""
    found = group_alike(one for one in blamed if one.attribution.cause == "unexplained")
    told = []
    for alike in found[:_TOLD_MAX]:
        count = sum(one.items.count for one in alike)
        many = "" if count == 1 or what == "HW" else "s"
        told.append(
            f"{count:,} {what}{many} of {places_of(alike)} {fate} against the protocol: "
            f"{alike[0].attribution.why}{elections_in_brackets(alike)}"
        )
    return told + ([f"and {len(found) - _TOLD_MAX} more like these"] if len(found) > _TOLD_MAX else [])


def reasons_of(blamed: Sequence[AnyAnomaly]) -> list[str]:
    """Say each different cause in a sentence, kind by kind, with the partitions, the records and the elections.

    Unexplained anomalies are left out: the reasons for the outcome already name them.
    """
    told: dict[str, list[AnyAnomaly]] = {}
    for sort in _TOLD_IN_ORDER:
        for one in blamed:
            if isinstance(one.items, sort) and one.attribution.cause != "unexplained":
                told.setdefault(one.items.kind, []).append(one)
    sentences = []
    for kind, of_kind in told.items():
        for alike in group_alike(of_kind):
            attribution, count = alike[0].attribution, sum(one.items.count for one in alike)
            reason = f"{attribution.cause or 'cause not known'}: {attribution.why}{elections_in_brackets(alike)}"
            sentences.append(f"{places_of(alike)}, {ANOMALIES[kind].count(count)}, {reason}")
    return sentences[:_TOLD_MAX] + ([f"and {len(sentences) - _TOLD_MAX} more"] if len(sentences) > _TOLD_MAX else [])


def violation_reasons(one: CheckedClause) -> list[str]:
    """Say how a clause is violated: by what its rows of evidence say, or by its first case."""
    says = [str(row["says"]) for row in one.found.evidence if isinstance(row, dict) and "says" in row]
    return says or [f"{one.found.kip} is violated: {one.found.name} ({_first_case(one)})"]


def _first_case(one: CheckedClause) -> str:
    """Return how many cases a clause has, and where the first one is."""
    rows = one.found.evidence
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    where = [f"{key.replace('_', ' ')} {first[key]}" for key in ("metadata_offset", "broker") if key in first]
    if "topic" in first:
        where.insert(0, f"{first['topic']}-{first['partition']}")
    count = plural(one.cases, "case")
    return f"{count}, first: {', '.join(where)}" if where else count


def group_alike(blamed: Iterable[AnyAnomaly]) -> list[list[AnyAnomaly]]:
    """Group anomalies that one sentence can describe: those of one reason, at most one election in each partition.

    A partition that lost records by two elections is therefore in two groups, the earlier election in the first.
    """
    listed = list(blamed)
    elections: dict[tuple[str, int, str | None, str], set[int]] = {}
    for one in listed:
        elections.setdefault(_reason_in(one), set()).add(_guilty_epoch(one))
    groups: dict[tuple[str | None, str, int], list[AnyAnomaly]] = {}
    for one in listed:
        nth = sorted(elections[_reason_in(one)]).index(_guilty_epoch(one))
        groups.setdefault((one.attribution.cause, one.attribution.why, nth), []).append(one)
    return list(groups.values())


def _reason_in(one: AnyAnomaly) -> tuple[str, int, str | None, str]:
    return *one.items.log, one.attribution.cause, one.attribution.why


def _guilty_epoch(one: AnyAnomaly) -> int:
    """Return the leader epoch of the guilty election; -1: no election is blamed."""
    return -1 if one.attribution.election is None else one.attribution.election.epoch


def places_of(alike: Sequence[AnyAnomaly]) -> str:
    """Return the partitions of a group: `t-0`, `t-0 and t-4`, or `t-0 to t-5 (6 partitions)`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted({one.items.log for one in alike}):
        by_topic.setdefault(topic, []).append(partition)
    count = sum(map(len, by_topic.values()))
    named: list[str] = []
    for topic, numbers in by_topic.items():
        in_a_row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
        named += [f"{topic}-{numbers[0]} to {topic}-{numbers[-1]}"] if in_a_row else [f"{topic}-{n}" for n in numbers]
    shown = named[:_PLACES_MAX] + ([f"{len(named) - _PLACES_MAX} more"] if len(named) > _PLACES_MAX else [])
    text = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{text} ({count} partitions)" if count > 2 else text


def elections_in_brackets(alike: Sequence[AnyAnomaly]) -> str:
    """Return the guilty elections of a group in brackets, to end a sentence; empty if none."""
    found = list(dict.fromkeys((one.leader, one.epoch) for a in alike if (one := a.attribution.election) is not None))
    if len(found) < 2:
        guilty = election_of(alike[0].attribution)
        return f" (election of {guilty})" if guilty is not None else ""
    leaders, epochs = (sorted(set(numbers)) for numbers in zip(*found, strict=True))
    who = f"broker {leaders[0]}" if len(leaders) == 1 else f"brokers {', '.join(map(str, leaders))}"
    when = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    return f" (elections of {who}, leader {when})"


def _node_names(step: StepEntry) -> str:
    """Name the nodes that the step hit.

    Empty for a cut: it names both sides, which says nothing in a sentence.
    """
    return f" of {', '.join(map(str, step.nodes))}" if step.nodes and step.step not in CUT_KINDS else ""
