"""Compares a judge's answers with the truth of a history, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.history import Key, LostRecord, TrueHistory


class Judged(NamedTuple):
    """A cause (None: not known), and the metadata offset of the election (None: not named).

    `is_allowed`: whether the judge says that the protocol allows it in any case, by whatever cause.
    """

    cause: str | None = None
    election: int | None = None
    is_allowed: bool = False


Answers = Mapping[Key, Judged]
Judge = Callable[[TrueHistory], Answers]

UNEXPLAINED = "unexplained"
WRONG = ("false-accusation", "false-excuse", "wrong-cause", "wrong-election")
"""What a judge may never do. It may name no cause, or no election."""


def kind_of(lost: LostRecord, answer: Judged | None, *, violated: bool = False) -> str:
    """Return how an answer stands to the truth: `right`, what is wrong, or what is not named.

    If the cluster did violate the protocol (`violated`), what it did may show in other records than those that it
    cost. An HW that passed an ISR member says of each record below it that this member had it. So a wrong answer there
    is only `misled`, but for an excuse of what the violation cost.
    """
    cause, election, is_allowed = answer or Judged()
    if cause is None and not is_allowed:
        return "no-cause"
    if lost.causes == {UNEXPLAINED} and cause != UNEXPLAINED:
        # If another leader may have written it, the loss may have been allowed.
        return "false-excuse" if lost.is_writer_shown else "misled"
    if cause is None:
        return "no-cause"
    if cause not in lost.causes:
        wrong = "false-accusation" if cause == UNEXPLAINED else "wrong-cause"
    elif election is None:
        return "no-election"
    elif not {(cause, election), (cause, None)}.isdisjoint(lost.right):
        return "right"
    else:
        wrong = "wrong-election"
    return "misled" if violated else wrong


@dataclass
class Comparison:
    """How many records and histories ended as each kind; `seeds` has the first histories of each wrong kind."""

    histories: int = 0
    records: Counter[str] = field(default_factory=Counter)
    of_histories: Counter[str] = field(default_factory=Counter)
    details: Counter[tuple[str, ...]] = field(default_factory=Counter)
    seeds: dict[str, list[int]] = field(default_factory=dict)
    of_what: Counter[str] = field(default_factory=Counter)
    """How many of each kind are gone."""
    lost: Counter[bool] = field(default_factory=Counter)
    named: Counter[bool] = field(default_factory=Counter)
    """Lost records, and those with a cause, by whether a clock was set in their history."""

    def add(self, history: TrueHistory, answers: Answers) -> None:
        """Count the answers on one history."""
        self.histories += 1
        kinds = set()
        for lost in history.lost:
            answer = answers.get(lost.key)
            kind = kind_of(lost, answer, violated=history.violated)
            kinds.add(kind)
            self.records[kind] += 1
            self.of_what[lost.kind] += 1
            self.lost[history.script.sets_clocks] += 1
            self.named[history.script.sets_clocks] += kind != "no-cause"
            cause = (answer or Judged()).cause
            if kind != "right":
                truth = f"{'|'.join(sorted(lost.causes))} ({lost.road}, {lost.winner_lacks})"
                self.details[f"{lost.kind}, {kind}", truth, str(cause)] += 1
        for kind in kinds:
            self.of_histories[kind] += 1
            if kind in (*WRONG, "no-cause", "no-election"):
                self.seeds.setdefault(kind, []).append(history.script.seed)

    @property
    def is_sound(self) -> bool:
        """Whether no answer is wrong."""
        return not any(self.records[kind] for kind in WRONG)

    def lines(self, *, details: int = 0) -> list[str]:
        """Return the comparison as a table in Markdown."""
        kinds = ("right", *WRONG, "misled", "no-election", "no-cause")
        found = ["| answer | records | histories | first seeds |", "|---|---|---|---|"]
        for kind in kinds:
            seeds = ", ".join(map(str, self.seeds.get(kind, [])[:6]))
            found.append(f"| {kind} | {self.records[kind]:,} | {self.of_histories[kind]:,} | {seeds} |")
        found.append(", ".join(f"{count:,} {kind}" for kind, count in self.of_what.items()))
        for where, is_set in (("no clock was set", False), ("a clock was set", True)):
            if self.lost[is_set]:
                share = 100 * self.named[is_set] / self.lost[is_set]
                found.append(f"a cause for {share:.2f} % of {self.lost[is_set]:,} lost records where {where}")
        for (kind, truth, cause), count in self.details.most_common(details):
            found.append(f"{count:7,} {kind}: {truth}, judged {cause}")
        return found


def is_wrong(history: TrueHistory, answers: Answers, kinds: tuple[str, ...] = WRONG) -> bool:
    """Return whether a judge's answers on a history are wrong in one of these ways."""
    return any(kind_of(lost, answers.get(lost.key), violated=history.violated) in kinds for lost in history.lost)
