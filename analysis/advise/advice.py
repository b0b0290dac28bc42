"""The whole advice about a cluster, from its snapshot alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from packaging.version import Version

from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.answers import STATES_MAX, ModelDesk
from analysis.advise.assumption import KAFKA, Assumption, level_in_words, parse_assumption
from analysis.advise.danger import DangerNow, LastHolder, bring_back, dangers_now, last_holders
from analysis.advise.down import controllers_note
from analysis.advise.events import event_for, fixed_events
from analysis.advise.groups import (
    TopicGroup,
    brokers_in_words,
    differing_configs,
    groups_of,
    hosting_brokers,
    racks_notes,
)
from analysis.advise.known import KnownDefect, defects_of
from analysis.advise.lines import AdviceLine, line_for, lines_for
from analysis.advise.measured import measured_of
from analysis.advise.overview import ClusterChange, best_changes, group_badness
from analysis.advise.prices import Prices, release_prices, topic_prices
from analysis.advise.release import ReleaseFacts, release_of
from analysis.advise.remedies import remedies_for
from ebbtide.errors import UsageError
from ebbtide.releases.first_with import ELR_BY_DEFAULT
from ebbtide.releases.known_releases import ELR_VERSION, METADATA_VERSION
from ebbtide.shown_text import plural
from ebbtide.snapshot.model import UNCLEAN, ClusterSnapshot, SnapshotBroker

ADVICE_VERSION = 1


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """All that is said about a cluster; `after` and `assumed` are None without an assumption.

    `bring_back` is what to do first where brokers are dead. `groups` are the worst first. `changes` are those that
    save most for the whole cluster. The first `doubts` of the `notes` say what may be wrong or lost. `prices` are
    those of the assumed release and feature levels. `unchanged` are assumed values that are today's; `changes_nothing`:
    all are, but for a release that the snapshot does not say.
    """

    snapshot: ClusterSnapshot
    release: ReleaseFacts
    after: ReleaseFacts | None
    assumed: str | None
    dangers: tuple[DangerNow, ...]
    last_holders: tuple[LastHolder, ...] = ()
    bring_back: str | None = None
    defects: tuple[KnownDefect, ...]
    groups: tuple[AdvisedGroup, ...]
    changes: tuple[ClusterChange, ...] = ()
    notes: tuple[str, ...]
    doubts: int = 0
    prices: Prices = {}
    unchanged: tuple[str, ...] = ()
    changes_nothing: bool = False


def unasked_brokers(snapshot: ClusterSnapshot) -> list[SnapshotBroker]:
    """Return the live brokers that did not answer when the cluster was read."""
    return [broker for broker in snapshot.brokers if broker.problem is not None]


def advise(
    snapshot: ClusterSnapshot,
    *,
    pattern: str = "*",
    assumed: Assumption | None = None,
    states_max: int = STATES_MAX,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Advice:
    """Return the advice, the worst topics first. Raises `UsageError` for an unknown release or a pattern without topic.

    `progress` is called before each group of topics, with how many are done, and how many there are.
    """
    today, after, changes = releases_of(snapshot, assumed)
    if snapshot.unsaid:
        snapshot = msgspec.structs.replace(snapshot, features=today.features)
    groups = groups_of(snapshot, pattern)
    if not groups and pattern != "*":
        names = ", ".join([topic.name for topic in snapshot.topics if topic.partitions][:3])
        raise UsageError(
            "no topic with known replicas fits the pattern"
            if names
            else "no topic is visible, so none fits the pattern",
            where="--topics",
            got=repr(pattern),
            allowed=f"a pattern that fits a topic, such as {names}" if names else None,
        )
    if assumed is not None:
        assumed.check_factor(snapshot)
    unchanged = [] if after is None or changes is None else changes.unchanged(today, after, groups)
    changes_nothing = after is not None and changes is not None and len(unchanged) == len(changes.values)
    desk = ModelDesk(today, states_max=states_max)
    later = None if after is None else desk.at(after)
    advised = []
    for done, group in enumerate(groups):
        progress(done, len(groups))
        advised.append(_advised_group(group, snapshot, desk, later, assumed))
    advised.sort(key=group_badness)
    notes, doubts = _notes(snapshot, groups, today, after, assumed)
    if unchanged and not changes_nothing:
        same = "of the assumed values, the cluster has these today, so they change nothing"
        notes.append(f"{same}: {', '.join(unchanged)}")
    return Advice(
        snapshot=snapshot,
        release=today,
        after=after,
        assumed=None if after is None or changes is None else changes.in_words(),
        dangers=tuple(dangers_now(snapshot, today, pattern)),
        last_holders=tuple(last_holders(snapshot, today, pattern)),
        bring_back=bring_back(snapshot, pattern),
        defects=defects_of(today),
        groups=tuple(advised),
        changes=tuple(_with_worse(best_changes(advised), groups, desk, snapshot)),
        notes=tuple(notes),
        doubts=doubts,
        prices={} if after is None else release_prices(today, after),
        unchanged=tuple(unchanged),
        changes_nothing=changes_nothing,
    )


def releases_of(
    snapshot: ClusterSnapshot, assumed: Assumption | None
) -> tuple[ReleaseFacts, ReleaseFacts | None, Assumption | None]:
    """Return today's release, the release after the change, and the assumed values that may change something.

    Where the snapshot does not say today's release or feature levels, the assumed ones are today's, and no change.
    """
    values = {} if assumed is None else assumed.values
    said = {name: value for name, value in values.items() if name in snapshot.unsaid}
    today: ReleaseFacts | None = None
    try:
        today = release_of(snapshot)
    except UsageError:
        if KAFKA not in values:
            raise
        said[KAFKA] = values[KAFKA]
    if today is None or said:
        today = Assumption(said).release(today, snapshot.features)
    changes = Assumption({name: value for name, value in values.items() if name not in said})
    if not changes.values:
        return today, None, None
    features = today.features if snapshot.unsaid else snapshot.features
    return today, changes.release(today, features, {*snapshot.unsaid} - {*said}), changes


def _advised_group(
    group: TopicGroup,
    snapshot: ClusterSnapshot,
    desk: ModelDesk,
    later: ModelDesk | None,
    assumed: Assumption | None,
) -> AdvisedGroup:
    lines = lines_for(group, desk)
    today = {line.event.key for line in lines}
    changed: TopicGroup | None = None
    prices: Prices = {}
    pairs: list[tuple[str, AdviceLine, AdviceLine | None]] = [(line.event.key, line, None) for line in lines]
    if later is not None and assumed is not None:
        changed = assumed.group(group)
        both = list(paired_lines(lines, group, desk, lines_for(changed, later), changed, later))
        pairs = [*sorted(both, key=lambda pair: min(pair[1].badness, pair[2].badness))]
        prices = topic_prices(assumed.values, group.settings, changed.settings, later.release)
    return AdvisedGroup(
        group=group,
        after=changed,
        lines=tuple(
            AdvisedLine(
                key=key,
                today=line,
                after=after,
                measured=measured_of(line.event, group.settings, desk.release),
                only_for_after=key not in today,
            )
            for key, line, after in pairs
        ),
        remedies=tuple(remedies_for(group, lines, desk, snapshot.features)),
        prices=prices,
        min_isr_note=desk.release.min_isr_note(group.settings.rf, group.settings.min_isr),
    )


def _with_worse(
    changes: Sequence[ClusterChange], groups: Sequence[TopicGroup], desk: ModelDesk, snapshot: ClusterSnapshot
) -> Iterator[ClusterChange]:
    """Yield changes, each with the events that lose acks=all records after it, and neither today nor before it."""
    said: dict[str, None] = {}
    for change in changes:
        assumed = parse_assumption(change.assume)
        later = desk.at(assumed.release(desk.release, snapshot.features))
        found: dict[str, None] = {}
        for group in groups:
            if not set(group.topics) & set(change.topics):
                continue
            after = assumed.group(group)
            for event in fixed_events(after, later.release):
                if later.answer(event, after, "all").says == "loses":
                    today = desk.answer(event_for(event, group, desk.release), group, "all")
                    found |= {event.in_words: None} if today.says == "survives" else {}
        yield msgspec.structs.replace(change, worse=tuple(one for one in found if one not in said))
        said |= found


def paired_lines(
    lines: Iterable[AdviceLine],
    group: TopicGroup,
    desk: ModelDesk,
    later_lines: Iterable[AdviceLine],
    changed: TopicGroup,
    later: ModelDesk,
) -> Iterator[tuple[str, AdviceLine, AdviceLine]]:
    """Yield each event of either side by its key, with what it does today and after the change.

    An event that takes down more replicas than a side has is that of all of them.
    """
    today, after = ({line.event.key: line for line in side} for side in (lines, later_lines))
    for key, line in {**after, **today}.items():
        yield (
            key,
            today.get(key) or line_for(event_for(line.event, group, desk.release), group, desk),
            after.get(key) or line_for(event_for(line.event, changed, later.release), changed, later),
        )


def unsaid_notes(snapshot: ClusterSnapshot, today: ReleaseFacts, assumed: Assumption | None) -> list[str]:
    """Return sentences on the feature levels that neither a file nor an assumption says."""
    left = set(snapshot.unsaid) - set(assumed.values if assumed is not None else ())
    notes = []
    if ELR_VERSION in left and today.is_elr_on:
        off = f"if it was turned off since: --assume {ELR_VERSION}=0"
        notes.append(f"the column Elr has brokers, which only an ELR that is on puts there: on is assumed; {off}")
    elif ELR_VERSION in left and today.has_elr:
        new = ", as in a new cluster of 4.1 or later" if Version(today.kafka) >= ELR_BY_DEFAULT else ""
        notes.append(f"no file says whether the ELR is on: off is assumed; for on{new}: --assume {ELR_VERSION}=1")
    if not today.is_elr_on and any(one.elr for topic in snapshot.topics for one in topic.partitions):
        notes.append(f"the column Elr has brokers, which do not count: Kafka {today.shown}, {today.elr}, is assumed")
    if METADATA_VERSION in left:
        notes.append("no file has the metadata.version: that of the release is assumed")
    return notes


def _notes(
    snapshot: ClusterSnapshot,
    groups: Sequence[TopicGroup],
    today: ReleaseFacts,
    after: ReleaseFacts | None,
    assumed: Assumption | None,
) -> tuple[list[str], int]:
    """Return the notes, the gravest first; the second value counts those on what may be wrong or lost."""
    notes = []
    missing = sorted(hosting_brokers(snapshot) - {broker.id for broker in snapshot.brokers})
    if missing:
        verb, has = ("is", "has") if len(missing) == 1 else ("are", "have")
        notes.append(f"{brokers_in_words(missing)} {verb} not alive, but {has} replicas")
    mild: list[str] = []
    (notes if len(snapshot.controllers or ()) == 1 else mild).append(controllers_note(snapshot))
    has_racks = any(broker.rack is not None for broker in snapshot.brokers)
    (notes if has_racks else mild).extend(racks_notes(snapshot))
    notes += [
        *snapshot.notes,
        *snapshot.assumed,
        *unsaid_notes(snapshot, today, assumed),
        *today.notes,
        *differing_configs(snapshot),
    ]
    notes += [
        f"broker {broker.id} could not be asked for its configs and levels: {broker.problem}"
        for broker in unasked_brokers(snapshot)
    ]
    if not snapshot.is_planned and not any(broker.configs for broker in snapshot.brokers):
        notes.append("no broker's configs are known; the advice takes Kafka's defaults")
    are_unread = not snapshot.controllers or set(snapshot.controllers) - {one.id for one in snapshot.brokers}
    settings = [*(group.settings.unclean for group in groups)]
    settings += [broker.configs.get(UNCLEAN) == "true" for broker in snapshot.brokers]
    if are_unread and not snapshot.knows_controllers and any(settings):
        notes.append(f"the controllers decide on unclean elections, and their own static {UNCLEAN} cannot be read")
    was_off = not today.is_elr_on and ELR_VERSION not in snapshot.unsaid
    if was_off and after is not None and after.kafka != today.kafka and after.has_elr and not after.is_elr_on:
        levels = f"{level_in_words(after.features[METADATA_VERSION])}, and the ELR is off"
        notes.append(f"after the change: {levels}; an upgrade alone changes neither, --assume {ELR_VERSION}=1 does")
    if still := [group for group in groups if 1 < group.settings.rf >= group.brokers]:
        count = sum(len(group.topics) for group in still)
        has, it_has = ("has", "it has") if count == 1 else ("have", "they have")
        mild.append(
            f"{plural(count, 'topic')} {has} a replica on each broker, so none can move: {it_has} no line on moves"
        )
    return [*notes, *mild], len(notes)
