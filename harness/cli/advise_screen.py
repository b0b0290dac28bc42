"""Prints the advice about a cluster on one screen: the worst first, and what to change. `--all` prints the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice, product
from typing import NamedTuple

from analysis.advise.advice import Advice
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.danger import DangerNow, LastHolder
from analysis.advise.events import WORST
from analysis.advise.headline import headline
from analysis.advise.overview import CHANGES_MAX, ClusterChange
from analysis.advise.prices import prices_of_topics
from ebbtide.folding import fold_words, folded_lines, shown_width
from ebbtide.shown_text import plural, some_of

LINES_MAX = 60
_NOTES_MAX, _DOUBTS_MAX = 3, 10
_EVENTS_MAX = 4
_EXAMPLES_MAX, _NAMED_MAX = 2, 4
_SAVES_MAX = 2
_DEFECTS_MAX = 3
_OWN = {"__consumer_offsets": "where groups are", "__transaction_state": "how transactions ended"}
"""What records of Kafka's own topics hold."""


class _Room(NamedTuple):
    """How many groups are shown in full, and how many at all; how many notes, and how many changes with their price."""

    whole: int
    named: int
    notes: int
    has_titles: bool = False
    priced: int = CHANGES_MAX


def print_screen(advice: Advice) -> None:
    """Print what fits into 60 lines."""
    for room in _rooms(advice):
        lines = folded_lines(_lines(advice, room))
        if len(lines) <= LINES_MAX:
            break
    else:
        lines[LINES_MAX - 1 :] = lines[-1:]
    print("\n".join(lines))


def _rooms(advice: Advice) -> Iterator[_Room]:
    """Yield less and less room: known bugs lose their titles, and the better groups all lines but one, then that line.

    Then notes are left out, and at last the details of changes. The worst group is always named.
    """
    count, notes = len(advice.groups), max(min(advice.doubts, _DOUBTS_MAX), _NOTES_MAX)
    sizes = [(whole, count) for whole in range(count, -1, -1)] + [(0, named) for named in range(count - 1, 0, -1)]
    yield from (_Room(*size, notes, has_titles=titles) for size, titles in product(sizes, (True, False)))
    for shown in range(notes, _NOTES_MAX - 1, -1):
        yield _Room(0, min(count, 1), shown)
    for priced in range(CHANGES_MAX - 1, -1, -1):
        yield _Room(0, min(count, 1), _NOTES_MAX, priced=priced)


def _lines(advice: Advice, room: _Room) -> Iterator[str]:
    yield from heading(advice, room.notes)
    if advice.changes and advice.after is None:
        yield ""
        yield "What to change: most saved for the price, each beyond those before it"
        for number, change in enumerate(advice.changes, 1):
            yield from islice(_change(number, change), None if number <= room.priced else 2)
    if advice.groups:
        yield ""
        yield "Topics, the worst first: what records with acks=all do"
    for at, group in enumerate(advice.groups[: room.named]):
        yield from _group(group, has_then=advice.after is not None) if at < room.whole else _short_group(group)
    if left := advice.groups[room.named :]:
        names = [name for one in left for name in one.group.topics]
        lose = "loses" if len(names) == 1 else "lose"
        yield f"and {plural(len(names), 'topic')} that {lose} less, or rarer: {some_of(names, _NAMED_MAX)}"
    yield ""
    if any(line.today.event.when == WORST for group in advice.groups for line in group.lines):
        yield f"{WORST}: the network may also cut off any replica, or slow it down"
    titled = advice.defects[:_DEFECTS_MAX] if room.has_titles else ()
    for defect in titled:
        yield f"known bug here: {defect.name}: {defect.what}"
    if left_out := [one.name for one in advice.defects[len(titled) :]]:
        more = "more " if titled else ""
        yield f"{plural(len(left_out), f'{more}known bug')} (--all says what): {', '.join(left_out)}"
    yield "more: --all prints each event, also for acks=0 and 1; --html FILE is a page"


def heading(advice: Advice, notes: int | None = None) -> Iterator[str]:
    """Yield the headline, the dangers, the cluster and the first `notes`; None: all notes, examples and brokers."""
    most, snapshot, first = (None if notes is None else _NAMED_MAX), advice.snapshot, headline(advice)
    yield first.text
    yield from first.more
    if advice.bring_back is not None:
        yield f"- first {advice.bring_back}"
    for danger in advice.dangers:
        yield f"- {plural(danger.count, 'partition')} {danger.what}: {_examples(danger, most)}"
    for holder in advice.last_holders[:most]:
        held = _examples(holder, most)
        yield f"- do not stop broker {holder.broker}: only it is in sync for {held}"
    yield ""
    release, brokers = advice.release, plural(len(snapshot.brokers), "broker")
    yield f"cluster: {snapshot.cluster_id}, Kafka {release.shown}, {release.elr}, {brokers}, {snapshot.origin}"
    if advice.after is not None:
        yield f"assumed: {advice.assumed}"
        prices = prices_of_topics({one.group.topics: one.prices for one in advice.groups})
        for value, price in (advice.prices | prices).items():
            yield f"price: {value}: {price}"
    left = 0 if notes is None else len(advice.notes) - notes
    for note in advice.notes if left < 2 else advice.notes[:notes]:  # a line that counts one may as well say it
        yield f"note: {note}"
    if left > 1:
        yield f"{left} more notes: --all prints them"


def _examples(of: DangerNow | LastHolder, most: int | None) -> str:
    return some_of(of.examples, len(of.examples) if most is None else _EXAMPLES_MAX, of.count)


def _change(number: int, change: ClusterChange) -> Iterator[str]:
    more = f"; and {plural(len(change.saves) - _SAVES_MAX, 'more event')}" if len(change.saves) > _SAVES_MAX else ""
    yield f"{number}. {change.change}"
    yield f"  for:   {some_of(change.topics, _NAMED_MAX)}"
    yield f"  saves: {'; '.join(change.saves[:_SAVES_MAX])}{more}"
    yield f"  price: {change.price} ({', '.join(change.costs)})"
    if change.worse:
        at_worst = [one.removesuffix(f", {WORST}") for one in change.worse]
        all_worst = not set(at_worst) & set(change.worse)
        worse = f"{'; '.join(at_worst)} ({WORST})" if all_worst else "; ".join(change.worse)
        yield f"  but then these lose records: {worse}"


def _short_group(advised: AdvisedGroup) -> Iterator[str]:
    listed = _listed(advised)
    counted = Counter(map(_says, listed))
    says = ", ".join(f"{says} by {count}" for says, count in counted.items())
    says = (
        f"{says} of {plural(len(advised.lines), 'event')} ({listed[0].today.event.likelihood})"
        if listed
        else "survives all"
    )
    yield f"{advised.group.settings.in_words()}: {says}: {_topics(advised)}"


def _group(advised: AdvisedGroup, *, has_then: bool) -> Iterator[str]:
    yield f"{advised.group.settings.in_words()}: {_topics(advised)}"
    if advised.after is not None and advised.after.settings != advised.group.settings:
        yield f"  after the change: {advised.after.settings.in_words()}"
    if advised.min_isr_note is not None:
        yield f"  note: {advised.min_isr_note}"
    listed = _listed(advised)
    if listed and has_then:
        yield from _row("today", "after", "event")
    for line in listed[:_EVENTS_MAX]:
        event = line.today.event
        what = f"{line.what}, {event.when} ({event.likelihood})"
        yield from _row(*_today_and_then(line), what) if has_then else [f"  {_says(line)}: {what}"]
    today = [line for line in advised.lines if not line.only_for_after]
    survive = sum(line.today.acks_all.says == "survives" for line in today)
    acks_1 = sum(line.today.acks_1.says == "loses" for line in today)
    if len(listed) > _EVENTS_MAX:
        yield f"  and {plural(len(listed) - _EVENTS_MAX, 'more event')} like these"
    lose = f"{plural(len(today), 'event')} {'loses' if acks_1 == 1 else 'lose'}"
    yield f"  survives: {plural(survive, 'event')}; with acks=1, {acks_1} of {lose} records"


def _topics(advised: AdvisedGroup) -> str:
    """Return the names of some topics; of Kafka's own, also what a record is to the clients that it is about."""
    topics = [f"{one} ({_OWN[one]})" if one in _OWN else one for one in advised.group.topics]
    return some_of(topics, _NAMED_MAX)


def _row(today: str, then: str, event: str) -> Iterator[str]:
    start = f"  {today:<8}  {then:<8}  "
    for line in fold_words(event, max(shown_width() - len(start), 1)):
        yield f"{start}{line}"
        start = " " * len(start)


def _listed(advised: AdvisedGroup) -> list[AdvisedLine]:
    """Return the lines that do not survive: first those that a change makes better or worse.

    A line that is there only for the change counts where the change makes a difference.
    """
    differs = {line.key: len(set(_today_and_then(line))) > 1 for line in advised.lines}
    listed = [
        line for line in advised.lines if _says(line) != "survives" and (differs[line.key] or not line.only_for_after)
    ]
    return sorted(listed, key=lambda line: not differs[line.key])


def _today_and_then(line: AdvisedLine) -> tuple[str, str]:
    """Return the answers for acks=all today, and after the change."""
    today = line.today.acks_all.says
    return today, today if line.after is None else line.after.acks_all.says


def _says(line: AdvisedLine) -> str:
    """Return the answer for acks=all; with an assumption also the one after it, if it differs."""
    return ", then ".join(dict.fromkeys(_today_and_then(line)))
