"""Builds the picture of a run from its record.

picture = picture_of(record, verdict)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.record.record import Record
from analysis.record.timeline import Timeline, TopicPartition
from analysis.report.picture import partitions
from analysis.report.picture.model import PartitionPicture, RunPicture, StepSpan
from analysis.report.picture.nodes import lanes_of, step_details
from analysis.report.picture.series import ObservedSeries, counts_of, log_ends_of, read_series
from analysis.sentences import words
from analysis.sentences.elections import blamed_in, blames_of, elections_by_offset
from ebbtide.record.steps import StepEntry, split_composed_steps
from ebbtide.record.topic_lives import deletion_times
from ebbtide.record.verdict import Verdict
from ebbtide.scenario.steps.table import HEALERS, KINDS
from ebbtide.scenario.words import FIRST_CONTROLLER

PICTURED_MAX = 6
"""How many partitions have a picture."""
_AIM_MAX = 30
_LEAD_NS = 300_000_000
"""How long before the first event the picture begins."""


def picture_of(record: Record, verdict: Verdict) -> RunPicture | None:
    """Return the picture of a judged record; None for a record in which nothing has a time.

    Raises `UsageError` when a file is damaged.
    """
    manifest, timeline, steps, series = record.manifest, record.timeline, record.steps or (), read_series(record)
    times = _times(timeline, steps, series)
    if not times:
        return None
    zero_ns = manifest.start_ns if manifest.start_ns is not None else min(times)
    window = begin_ns, end_ns = _window(record, times, zero_ns)
    fired = split_composed_steps(step for step in steps if step.fired_ns is not None)
    shown = partitions_by_blame(timeline, verdict)
    return RunPicture(
        run_id=manifest.run_id,
        scenario=manifest.scenario,
        kafka=words.target(record) or "unknown",
        zero_ns=zero_ns,
        begin_ns=begin_ns,
        end_ns=end_ns,
        lanes=lanes_of(manifest.topology, timeline, fired, zero_ns),
        steps=tuple(step_spans(steps, zero_ns)),
        partitions=tuple(
            _partition(timeline, verdict, series.get(key, ObservedSeries()), key, fired, zero_ns=zero_ns, window=window)
            for key in shown[:PICTURED_MAX]
        ),
        partitions_omitted=max(0, len(shown) - PICTURED_MAX),
    )


def partitions_by_blame(timeline: Timeline, verdict: Verdict) -> list[TopicPartition]:
    """Return the partitions: those with a loss or a HW that went back, then those that changed most.

    Kafka's own topics come after the others that changed at all.
    """
    blamed, states = _blamed(verdict), timeline.partitions
    return sorted(
        states,
        key=lambda key: (key not in blamed, len(states[key]) < 2, key[0].startswith("__"), -len(states[key]), key),
    )


def step_spans(steps: Sequence[StepEntry], zero_ns: int) -> list[StepSpan]:
    """Return the steps that fired; waits and healers are no faults."""
    spans = []
    for step in steps:
        if step.fired_ns is None:
            continue
        kind = KINDS.get(step.step)
        is_fault = step.step not in HEALERS and (kind is None or kind.family != "waiting")
        lasts = is_fault and kind is not None and (kind.healed_by is not None or kind.ends_itself)
        ends_ns = step.effect_ns if kind is not None and kind.ends_itself else step.healed_ns
        name = step.asked.name
        spans.append(
            StepSpan(
                index=step.index,
                kind=step.step,
                name=name or step.step,
                aim=_aim(step),
                nodes=step.nodes,
                begin_ns=step.fired_ns,
                end_ns=ends_ns if lasts else step.fired_ns,
                is_fault=is_fault,
                is_proven=step.effect_ns is not None or step.step == "wait",
                text=_step_text(step),
                details=step_details(step, zero_ns),
            )
        )
    return spans


def _aim(step: StepEntry) -> str:
    """Return the target of a step; of a cut, its first side; of a request that names itself, its node."""
    aim = (step.whom or "").removeprefix(step.step).split(" | ")[0].split(" > ")[0].strip()
    if len(aim) <= _AIM_MAX:
        return aim
    if step.node is None:
        return ""
    return f"{'controller' if step.node >= FIRST_CONTROLLER else 'broker'}-{step.node}"


def _step_text(step: StepEntry) -> str:
    """Return a step in words; a request to Kafka names itself."""
    if step.whom is None or step.whom.startswith(step.step):
        return step.whom or step.step
    return f"{step.step}: {step.whom}"


def _blamed(verdict: Verdict) -> set[TopicPartition]:
    return {(one.topic, one.partition) for one in blamed_in(verdict)}


def _times(
    timeline: Timeline, steps: Sequence[StepEntry], observed: Mapping[TopicPartition, ObservedSeries]
) -> list[int]:
    """Return when each partition began, when something happened, and the ends of the series."""
    moments = [event.at_ns for event in timeline.brokers]
    moments += [state.at_ns for states in timeline.partitions.values() for state in states]
    for step in steps:
        moments += [at for at in (step.fired_ns, step.effect_ns, step.healed_ns) if at is not None]
    for series in observed.values():
        moments += [point.at_ns for point in series.high_watermarks]
    return moments


def _window(record: Record, times: list[int], zero_ns: int) -> tuple[int, int]:
    """Return from when to when the picture shows the run.

    It begins when the partitions are there: before, the cluster only starts.
    """
    created = [states[0].at_ns for states in record.timeline.partitions.values()]
    fired = [step.fired_ns for step in record.steps or () if step.fired_ns is not None]
    begin_ns = max(min([*created, *fired], default=min(times)) - _LEAD_NS, min(zero_ns, min(times)))
    end_ns = record.manifest.end_ns
    last = max(times) + _LEAD_NS
    end_ns = last if end_ns is None else max(min(end_ns, last), max(times))
    return begin_ns, max(end_ns, begin_ns + 1_000_000)


def _partition(
    timeline: Timeline,
    verdict: Verdict,
    series: ObservedSeries,
    key: TopicPartition,
    fired: Sequence[StepEntry],
    *,
    zero_ns: int,
    window: tuple[int, int],
) -> PartitionPicture:
    states, elected, blames = timeline.partitions[key], elections_by_offset(timeline, key), blames_of(verdict, key)
    deleted_ns = deletion_times(fired).get(key[0])
    deletions = [] if deleted_ns is None else [deleted_ns]
    name = f"{key[0]}-{key[1]}"
    return PartitionPicture(
        topic=key[0],
        partition=key[1],
        name=name,
        is_blamed=key in _blamed(verdict),
        roles=partitions.roles_of(states, zero_ns, deletions),
        records=tuple(partitions.records_of(states, elected, blames, zero_ns)),
        elections=tuple(partitions.election_marks(elected, blames, zero_ns)),
        leaderless=tuple(partitions.leaderless_of(states, deletions)),
        high_watermarks=series.high_watermarks,
        log_ends=log_ends_of(series.log_ends, fired, name),
        counts=counts_of(series, *window),
        lost=tuple(partitions.lost_bands(verdict, states, key)),
    )
