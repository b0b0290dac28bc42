"""Prints the answers of `ebbtide advise` to the questions of a day: `--down`, and two snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.advise.danger import WORDS
from analysis.advise.down import UNSEEN
from analysis.advise.groups import brokers_in_words
from ebbtide.errors import ExitCode
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.planned import NEXT_TOPIC, NEXT_TOPIC_MEANS

if TYPE_CHECKING:
    from analysis.advise.compare import AdviceComparison
    from analysis.advise.down import DownAnswer
    from ebbtide.snapshot.model import ClusterSnapshot

_NAMED_MAX = 5
EXIT_CODES = {"safe": ExitCode.AS_PREDICTED, "not safe": ExitCode.CONTRADICTED, "unknown": ExitCode.INCONCLUSIVE}
"""The exit code of each answer to `--down`, by which a restart can wait for it."""


def print_down(answer: DownAnswer, snapshot: ClusterSnapshot) -> None:
    """Print whether the brokers may be taken down, and what stops or is lost if not."""
    heads = {"safe": "Safe", "not safe": "Not safe", "unknown": "Unknown"}
    at = "if all replicas are in sync" if snapshot.is_planned else f"as the cluster was at {snapshot.taken_at}"
    print(f"{heads[answer.says]}: taking down {brokers_in_words(answer.brokers)}, {at}")
    _say(answer.leaderless, "{has} no leader then: nobody can read or write {it}")
    _say(answer.refused, "{stops} acking acks=all then")
    for what, names in answer.at_risk.items():
        _say(names, f"can lose acked records if {what} then")
    if answer.quorum is not None:
        print(f"- {answer.quorum}")
    for why, names in answer.unknown.items():
        _say(names, f"{{is_}} unknown: {why}", "topic" if why == UNSEEN else "partition")
    _say(answer.already, "{is_} in danger now, too")
    if answer.not_alive:
        are = "is" if len(answer.not_alive) == 1 else "are"
        print(f"note: {brokers_in_words(answer.not_alive)} {are} not alive already")
    for note in answer.notes:
        print(f"note: {note}")
    count = plural(answer.partitions, "partition")
    print(f"asked: {count} on {brokers_in_words(answer.brokers)}; clean stops, then at most one thing more")


def _say(names: Sequence[str], says: str, noun: str = "partition") -> None:
    if names:
        what = says.format_map(WORDS[len(names) == 1])
        print(f"- {plural(len(names), noun)} {what}: {some_of(names, _NAMED_MAX)}")


def print_comparison(found: AdviceComparison) -> None:
    """Print what a change changed: topics whose settings or answers differ."""
    print(f"before: {found.headline_before}")
    print(f"after:  {found.headline_after}")
    if found.kafka_before != found.kafka_after:
        print(f"Kafka:  {found.kafka_before}; now {found.kafka_after}")
    if found.in_danger_before or found.in_danger_after:
        print(f"danger: {plural(found.in_danger_before, 'partition')}; now {found.in_danger_after:,}")
    for change in found.changes:
        then = f"; now {change.after}" if change.after != change.before else ""
        print(f"\n{change.before}{then}: {some_of(change.topics, _NAMED_MAX)}")
        for label, events in (("saved:", change.saved), ("new:", change.new), ("other:", change.other)):
            for event in events:
                print(f"  {label} {event}{' loses records' if label == 'new:' else ''}")
        if not (change.saved or change.new or change.other):
            print("  no event loses more or less with acks=all")
    print()
    print(f"the same: {plural(found.alike, 'topic')}")
    if any(NEXT_TOPIC in change.topics for change in found.changes):
        print(NEXT_TOPIC_MEANS)
    for label, names in (("only before:", found.only_before), ("only after:", found.only_after)):
        if names:
            print(f"{label} {some_of(names, _NAMED_MAX)}")
    for note in dict.fromkeys((*found.notes_before, *found.notes_after)):
        sides = [side for side in ("before", "after") if note in getattr(found, f"notes_{side}")]
        print(f"note{f' {sides[0]}' if len(sides) == 1 else ''}: {note}")
