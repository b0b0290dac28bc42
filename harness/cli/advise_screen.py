"""Prints the advice about a cluster on one screen: the worst first, and what to change. `--all` prints the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.advise.advice import Advice
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.events import WORST
from analysis.advise.headline import headline
from analysis.advise.overview import ClusterChange
from ebbtide.folding import fold_line, shown_width
from ebbtide.shown_text import plural

LINES_MAX = 60
_NOTES_MAX = 3
_EVENTS_MAX = 4
_NAMED_MAX = 4
_SAVES_MAX = 2
_OPEN = ("loses", "unknown", "refused")


def print_screen(advice: Advice) -> None:
    """Print what fits into 60 lines. The better groups get one line each first, then none, until it fits."""
    count = len(advice.groups)
    sizes = [(whole, count) for whole in range(count, -1, -1)] + [(0, named) for named in range(count - 1, -1, -1)]
    for whole, named in sizes:
        lines = [part for line in _lines(advice, whole, named) for part in fold_line(line, shown_width())]
        if len(lines) <= LINES_MAX:
            break
    print("\n".join(lines))


def _lines(advice: Advice, whole: int, named: int) -> Iterator[str]:
    yield from _heading(advice)
    if advice.changes and advice.after is None:
        yield ""
        yield "What to change: most saved for the price, each beyond those before it"
        for number, change in enumerate(advice.changes, 1):
            yield from _change(number, change)
    if advice.groups:
        yield ""
        yield "Topics, the worst first: what records with acks=all do"
    for at, group in enumerate(advice.groups[:named]):
        yield from _group(group) if at < whole else _short_group(group)
    if left := advice.groups[named:]:
        count = sum(len(one.group.topics) for one in left)
        yield f"and {plural(count, 'topic')} that {'loses' if count == 1 else 'lose'} less, or rarer"
    yield ""
    if any(line.today.event.when == WORST for group in advice.groups for line in group.lines):
        yield f"{WORST}: the network may also cut off any replica, or slow it down"
    if advice.defects:
        yield f"known bugs here: {', '.join(one.name for one in advice.defects)}"
    yield "more: --all prints each event, also for acks=0 and 1; --html FILE is a page"


def _heading(advice: Advice) -> Iterator[str]:
    snapshot, first = advice.snapshot, headline(advice)
    elr = "ELR on" if advice.release.is_elr_on else "ELR off" if advice.release.has_elr else "no ELR"
    yield first.text
    yield from (one for one in (first.when_read, *first.more) if one is not None)
    for danger in advice.dangers:
        named = ", ".join(danger.examples[:2])
        more = f" and {danger.count - 2:,} more" if danger.count > 2 else ""
        yield f"- {plural(danger.count, 'partition')} {danger.what}: {named}{more}"
    for holder in advice.last_holders[:_NAMED_MAX]:
        more = f" and {holder.count - 2:,} more" if holder.count > 2 else ""
        yield f"- do not stop broker {holder.broker}: only it is in sync for {', '.join(holder.examples[:2])}{more}"
    yield ""
    brokers = plural(len(snapshot.brokers), "broker")
    yield f"cluster: {snapshot.cluster_id}, Kafka {advice.release.shown}, {elr}, {brokers}, {snapshot.origin}"
    if advice.after is not None:
        yield f"assumed: {advice.assumed}"
        prices = [group.prices for group in reversed(advice.groups)]
        for value, price in dict(item for one in (advice.prices, *prices) for item in one.items()).items():
            yield f"price: {value}: {price}"
    for note in advice.notes[:_NOTES_MAX]:
        yield f"note: {note}"
    if len(advice.notes) > _NOTES_MAX:
        yield f"note: and {plural(len(advice.notes) - _NOTES_MAX, 'more note')}"


def _change(number: int, change: ClusterChange) -> Iterator[str]:
    more = f"; and {plural(len(change.saves) - _SAVES_MAX, 'more event')}" if len(change.saves) > _SAVES_MAX else ""
    yield f"{number}. {change.change}"
    yield f"  for:   {_named(change.topics)}"
    yield f"  saves: {'; '.join(change.saves[:_SAVES_MAX])}{more}"
    yield f"  price: {change.price} ({', '.join(change.costs)})"


def _named(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _NAMED_MAX:,} more" if len(topics) > _NAMED_MAX else ""
    return f"{', '.join(topics[:_NAMED_MAX])}{more}"


def _short_group(advised: AdvisedGroup) -> Iterator[str]:
    listed = [line for line in advised.lines if _says(line) != "survives"]
    counted = Counter(map(_says, listed))
    says = ", ".join(f"{says} by {count}" for says, count in counted.items())
    says = f"{says} of {len(advised.lines)} events ({listed[0].today.event.likelihood})" if listed else "survives all"
    yield f"{advised.group.settings.in_words()}: {says}: {_named(advised.group.topics)}"


def _group(advised: AdvisedGroup) -> Iterator[str]:
    group = advised.group
    yield f"{group.settings.in_words()}: {_named(group.topics)}"
    if advised.min_isr_note is not None:
        yield f"  note: {advised.min_isr_note}"
    listed = [line for line in advised.lines if _says(line) != "survives"]
    for line in listed[:_EVENTS_MAX]:
        event = line.today.event
        yield f"  {_says(line)}: {line.what}, {event.when} ({event.likelihood})"
    today = [line for line in advised.lines if not line.only_for_after]
    survive = sum(line.today.acks_all.says == "survives" for line in today)
    acks_1 = sum(line.today.acks_1.says == "loses" for line in today)
    if len(listed) > _EVENTS_MAX:
        yield f"  and {plural(len(listed) - _EVENTS_MAX, 'more event')} as these"
    yield f"  survives: {plural(survive, 'event')}; with acks=1, {acks_1} of {plural(len(today), 'event')} lose records"


def _says(line: AdvisedLine) -> str:
    """Return the answer for acks=all; with an assumption also the one after it, if it differs."""
    today = line.today.acks_all.says
    after = today if line.after is None else line.after.acks_all.says
    return today if after == today else f"{today}, then {after}"
