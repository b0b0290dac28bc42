"""What the page and the terminal say first about a cluster."""

from __future__ import annotations

from textwrap import shorten
from typing import Literal

import msgspec

from analysis.advise.advice import Advice, unasked_brokers
from analysis.advise.advised import AdvisedLine
from analysis.advise.groups import brokers_in_words
from analysis.advise.overview import topics_losing_by
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.planned import NEXT_TOPIC_MEANS

MARK = "*"
"""Marks lines that are there only for the cluster after the change."""
MARK_MEANS = "only the cluster after the change has this event: it does not count as one of today's"
_CLAUSE_MAX = 80
"""The most characters of one note in the headline."""


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """One line, the sentences below it, and the page's colour.

    `more` says how the partitions were when they were read, unless some were in danger then, what rarer
    events do, what a change makes of it, and what the advice does not know.
    """

    text: str
    more: tuple[str, ...] = ()
    look: Literal["contradicted", "inconclusive", "as-predicted"]


def headline(advice: Advice) -> Headline:
    """Return the gravest: partitions in danger, then topics that can lose records, then events without an answer.

    Only the reading can say that no partition is in danger: a later failure is a line of the tables. What could not
    be asked stands in the same line, and then no answer is a good one.
    """
    first = _of_what_is_known(advice)
    if not (unasked := _not_asked(advice)):
        return first
    more = first.more
    if unasked_brokers(advice.snapshot):
        more += (
            "The configs and the release of a broker that could not be asked are unknown. "
            "If they are weaker than what the advice takes, more events lose records.",
        )
    look = "inconclusive" if first.look == "as-predicted" else first.look
    return msgspec.structs.replace(first, text="; ".join([first.text, *unasked]), more=more, look=look)


def _of_what_is_known(advice: Advice) -> Headline:
    if not advice.groups:
        return Headline(text="No topic is visible", look="inconclusive")
    losing, *rarer = _losing_sentences(advice)
    more = (*rarer, *_change(advice))
    if advice.dangers:
        count = sum(one.count for one in advice.dangers)
        where = "in these files" if advice.snapshot.is_of_files else "when the cluster was read"
        text = f"{plural(count, 'partition')} in danger {where}"
        return Headline(text=text, more=(f"{losing}.", *more), look="contradicted")
    answers = [line.today.acks_all.says for line in _lines(advice) if not line.only_for_after]
    is_good = not {"loses", "unknown"} & set(answers)
    look: Literal["as-predicted", "inconclusive"] = "as-predicted" if is_good else "inconclusive"
    return Headline(text=losing, more=(_when_read(advice), *more), look=look)


def _when_read(advice: Advice) -> str:
    """Return that all was well with the partitions that were seen, and which topics nobody saw."""
    if advice.snapshot.is_planned:
        return f"Nobody saw a partition: this is what the files ask for, and what Kafka would make. {NEXT_TOPIC_MEANS}."
    if not advice.snapshot.is_of_files:
        return "When it was read, each partition had a leader, and all replicas in the ISR."
    names = {name for one in advice.groups for name in one.group.topics}
    unseen = [one.name for one in advice.snapshot.topics if one.is_planned and one.name in names]
    seen = "In these files, each listed partition has a leader, and all replicas in the ISR."
    sentences = [seen] if len(unseen) < len(names) else []
    sentences += [f"No file lists a partition of {some_of(unseen, 3)}."] if unseen else []
    return " ".join(sentences)


def _losing_sentences(advice: Advice) -> list[str]:
    """Return how many topics one event of the likeliest kind can take records from, then those of rarer kinds."""
    topics = len({name for one in advice.groups for name in one.group.topics})
    answers = [line.today.acks_all.says for line in _lines(advice) if not line.only_for_after]
    found = topics_losing_by(advice.groups)
    if not found:
        if unknown := answers.count("unknown"):
            return [
                f"No event is known to lose records with acks=all, but {unknown} of {len(answers)} answers are unknown"
            ]
        return ["None of the events in the tables loses records with acks=all"]
    (first, (event, count)), *rarer = found.items()
    can = f"{count:,} of {plural(topics, 'topic')} can lose records acked with acks=all"
    return [
        f"{can} by one {first} event: {event}",
        *(f"By one {kind} event: {many:,} of {topics:,}, such as {event}." for kind, (event, many) in rarer),
    ]


def _change(advice: Advice) -> tuple[str, ...]:
    """Return what the assumed change makes of the answers, each event of all tables once."""
    if advice.after is None:
        return ()
    if advice.changes_nothing:
        same = ",".join(advice.unchanged)
        return (f"Nothing changes: the cluster has {same} today, so each answer after the change is today's.",)
    pairs = [
        (line.today.acks_all.says, line.after.acks_all.says, line.only_for_after)
        for line in _lines(advice)
        if line.after is not None
    ]
    losing = [after for today, after, only in pairs if today == "loses" and not only]
    saved = losing.count("survives")
    new = sum(today == "survives" and after == "loses" for today, after, _ in pairs)
    sentences = []
    if losing:
        sentences.append(f"Of the events that lose records today, the change saves {saved} of {len(losing)}.")
    if new:
        sentences.append(f"Of the events that lose none today, the change makes {new} lose records.")
    if no_longer := sum(today != "unknown" and after == "unknown" for today, after, _ in pairs):
        sentences.append(
            f"For {plural(no_longer, 'event')} that the model answers today, it has no answer after the change."
        )
    return tuple(sentences)


def has_marked_lines(advice: Advice) -> bool:
    """Whether a table has a line with the mark."""
    return any(line.only_for_after for line in _lines(advice))


def _lines(advice: Advice) -> list[AdvisedLine]:
    return [line for group in advice.groups for line in group.lines]


def _not_asked(advice: Advice) -> list[str]:
    """Return what could not be asked, in short clauses; the notes have the reasons."""
    clauses = []
    if brokers := [one.id for one in unasked_brokers(advice.snapshot)]:
        clauses.append(f"{brokers_in_words(brokers)} could not be asked")
    if advice.groups:
        clauses += [shorten(one.partition(":")[0], _CLAUSE_MAX, placeholder="...") for one in advice.snapshot.notes]
    return clauses
