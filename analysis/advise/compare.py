"""What a change changed: the advice about a cluster before it and after it, topic by topic."""

from __future__ import annotations

import msgspec

from analysis.advise.advice import Advice, paired_lines
from analysis.advise.advised import AdvisedGroup
from analysis.advise.answers import ModelDesk
from analysis.advise.headline import headline


class TopicsChange(msgspec.Struct, frozen=True, kw_only=True):
    """Topics that were alike before and after, and what became of their events with acks=all.

    `saved` lost records before, and do not now. `new` lose records now. `other` are further answers that differ.
    """

    topics: tuple[str, ...]
    before: str
    after: str
    saved: tuple[str, ...]
    new: tuple[str, ...]
    other: tuple[str, ...]


class AdviceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two snapshots of a cluster.

    `changes` are the topics whose settings or answers differ. `in_danger_*` count partitions when each was read.
    `notes_*` are those of each answer.
    """

    headline_before: str
    headline_after: str
    kafka_before: str
    kafka_after: str
    in_danger_before: int
    in_danger_after: int
    changes: tuple[TopicsChange, ...]
    alike: int
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    notes_before: tuple[str, ...]
    notes_after: tuple[str, ...]


def compare_advice(before: Advice, after: Advice) -> AdviceComparison:
    """Return what differs. A topic with partitions of several kinds counts by the worst of them."""
    groups = [_groups_by_topic(one) for one in (before, after)]
    pairs: dict[tuple[int, int], list[str]] = {}
    for name in groups[0]:
        if name in groups[1]:
            pairs.setdefault((groups[0][name], groups[1][name]), []).append(name)
    desk = ModelDesk(before.release)
    desks = [desk, desk.at(after.release)]
    changes, alike = [], 0
    for (first, second), names in pairs.items():
        change = _change(before.groups[first], after.groups[second], names, desks)
        if change.before != change.after or change.saved or change.new or change.other:
            changes.append(change)
        else:
            alike += len(names)
    return AdviceComparison(
        headline_before=headline(before).text,
        headline_after=headline(after).text,
        kafka_before=f"{before.release.shown}, {before.release.elr}",
        kafka_after=f"{after.release.shown}, {after.release.elr}",
        in_danger_before=sum(one.count for one in before.dangers),
        in_danger_after=sum(one.count for one in after.dangers),
        changes=tuple(changes),
        alike=alike,
        only_before=tuple(name for name in groups[0] if name not in groups[1]),
        only_after=tuple(name for name in groups[1] if name not in groups[0]),
        notes_before=before.notes,
        notes_after=after.notes,
    )


def _groups_by_topic(advice: Advice) -> dict[str, int]:
    found: dict[str, int] = {}
    for at, group in enumerate(advice.groups):
        for name in group.group.topics:
            found.setdefault(name, at)
    return found


def _change(before: AdvisedGroup, after: AdvisedGroup, names: list[str], desks: list[ModelDesk]) -> TopicsChange:
    kinds: dict[str, list[str]] = {"saved": [], "new": [], "other": []}
    lines = [[one.today for one in group.lines] for group in (before, after)]
    for _, first, second in paired_lines(lines[0], before.group, desks[0], lines[1], after.group, desks[1]):
        was, now = first.acks_all.says, second.acks_all.says
        if was == now:
            continue
        if (was, now) == ("loses", "survives"):
            kinds["saved"].append(second.event.in_words)
        elif now == "loses":
            kinds["new"].append(second.event.in_words)
        else:
            kinds["other"].append(f"{second.event.in_words}: {was}, now {now}")
    return TopicsChange(
        topics=tuple(names),
        before=before.group.settings.in_words(),
        after=after.group.settings.in_words(),
        **{kind: tuple(texts) for kind, texts in kinds.items()},
    )
