"""The advice as `ebbtide advise --json` prints it; docs/schemas/advise.json is its schema."""

from __future__ import annotations

import msgspec

from analysis.advise.advice import ADVICE_VERSION, Advice, unasked_brokers
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.answers import EventAnswer
from analysis.advise.danger import DangerNow, LastHolder
from analysis.advise.events import Likelihood, When
from analysis.advise.groups import GroupSettings
from analysis.advise.headline import headline
from analysis.advise.overview import ClusterChange
from analysis.advise.remedies import Remedy


class AdviceRelease(msgspec.Struct, frozen=True, kw_only=True, rename={"is_elr_on": "elr"}):
    """The release that the model takes; `shown` says what of it is known, `elr` whether the ELR is on."""

    kafka: str
    shown: str
    variant: str
    features: dict[str, int]
    is_elr_on: bool


class AdviceDefect(msgspec.Struct, frozen=True, kw_only=True):
    """A known bug of the release, what to change, the price of the change, and the bug's page in docs/.

    `see` has addresses, and commands that show it where there is no docs/.
    """

    name: str
    what: str
    change: str
    price: str
    page: str
    see: tuple[str, ...]


class AnswersByAcks(
    msgspec.Struct, frozen=True, kw_only=True, rename={"acks_0": "0", "acks_1": "1", "acks_all": "all"}
):
    """What one event loses, by the acks of the producer."""

    acks_0: EventAnswer
    acks_1: EventAnswer
    acks_all: EventAnswer


class AdviceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a group: an event, and what it loses today and after the change.

    `measured` is what runs of the catalogue lost, `findings` are pages in docs/, and `ebbtide scenarios show` prints
    each of the scenarios `shown_by`. `only_for_after`: --assume adds the line, and the headline does not count it.
    """

    key: str
    what: str
    when: When
    likelihood: Likelihood
    acks: AnswersByAcks
    acks_after: AnswersByAcks | None
    measured: tuple[str, ...]
    findings: tuple[str, ...]
    shown_by: tuple[str, ...]
    only_for_after: bool


class AdviceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Topics that are alike, the lines for them, and the changes that save something.

    `partitions` counts those that somebody saw. `replicas_in_one_rack`: the most replicas that a partition has in one
    rack; null if unknown. `prices` says what each assumed setting costs these topics.
    """

    settings: GroupSettings
    settings_after: GroupSettings | None
    topics: tuple[str, ...]
    partitions: int
    replicas_in_one_rack: int | None
    lines: tuple[AdviceEvent, ...]
    changes: tuple[Remedy, ...]
    prices: dict[str, str]


class AdviceOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster could lose. `release_after` and `assumed` are null without --assume.

    `do_not_stop` are brokers that have the last in-sync replica of a partition. `changes` are those that save most
    for their price, for all topics. `groups` are the worst first. `brokers` counts the live brokers; `notes` says
    what is not known. `prices` says what the assumed release and feature levels cost. `headline` is the sentence
    below the notes, and the heading of the page. `brokers_not_asked` are live brokers that did not answer: the
    advice does not know their configs and release. `assumed_unchanged` are assumed values that today's advice has,
    too.
    """

    advice_version: int
    cluster_id: str
    taken_at: str
    brokers: int
    release: AdviceRelease
    assumed: str | None
    release_after: AdviceRelease | None
    danger_now: tuple[DangerNow, ...]
    do_not_stop: tuple[LastHolder, ...]
    changes: tuple[ClusterChange, ...]
    known_bugs: tuple[AdviceDefect, ...]
    groups: tuple[AdviceGroup, ...]
    notes: tuple[str, ...]
    prices: dict[str, str]
    headline: str
    brokers_not_asked: tuple[int, ...]
    assumed_unchanged: tuple[str, ...]


def advice_output(advice: Advice) -> AdviceOutput:
    """Return the advice as --json prints it."""
    snapshot = advice.snapshot
    return AdviceOutput(
        advice_version=ADVICE_VERSION,
        cluster_id=snapshot.cluster_id,
        taken_at=snapshot.taken_at,
        brokers=len(snapshot.brokers),
        release=msgspec.convert(advice.release, AdviceRelease, from_attributes=True),
        assumed=advice.assumed,
        release_after=msgspec.convert(advice.after, AdviceRelease | None, from_attributes=True),
        danger_now=advice.dangers,
        do_not_stop=advice.last_holders,
        changes=advice.changes,
        known_bugs=msgspec.convert(advice.defects, tuple[AdviceDefect, ...], from_attributes=True),
        groups=tuple(_group(one) for one in advice.groups),
        notes=advice.notes,
        prices=advice.prices,
        headline=headline(advice).text,
        brokers_not_asked=tuple(one.id for one in unasked_brokers(snapshot)),
        assumed_unchanged=advice.unchanged,
    )


def _group(advised: AdvisedGroup) -> AdviceGroup:
    group = advised.group
    return AdviceGroup(
        settings=group.settings,
        settings_after=None if advised.after is None else advised.after.settings,
        topics=group.topics,
        partitions=group.partitions,
        replicas_in_one_rack=group.rack_replicas or None,
        lines=tuple(_event(one) for one in advised.lines),
        changes=advised.remedies,
        prices=advised.prices,
    )


def _event(line: AdvisedLine) -> AdviceEvent:
    event = line.today.event
    return AdviceEvent(
        key=line.key,
        what=line.what,
        when=event.when,
        likelihood=event.likelihood,
        acks=msgspec.convert(line.today, AnswersByAcks, from_attributes=True),
        acks_after=msgspec.convert(line.after, AnswersByAcks | None, from_attributes=True),
        measured=line.measured,
        findings=event.findings,
        shown_by=event.shown_by,
        only_for_after=line.only_for_after,
    )
