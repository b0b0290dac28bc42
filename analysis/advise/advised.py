"""A group of alike topics with its lines and changes, as `advise` puts them together."""

from __future__ import annotations

import msgspec

from analysis.advise.groups import TopicGroup
from analysis.advise.lines import AdviceLine
from analysis.advise.prices import Prices
from analysis.advise.remedies import Remedy


class AdvisedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line today and, with an assumption, after the change; `measured` is what runs of the catalogue lost.

    `only_for_after`: without the assumption, the advice would not have this line.
    """

    key: str
    today: AdviceLine
    after: AdviceLine | None
    measured: tuple[str, ...]
    only_for_after: bool = False

    @property
    def what(self) -> str:
        """The event in words. With another RF, the event may hit another number of brokers."""
        now = self.today.event.what
        then = now if self.after is None else self.after.event.what
        return now if now == then else f"{now}; after the change: {then}"


class AdvisedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The advice for topics that are alike; `after` are their settings with the assumption, at these prices.

    `min_isr_note` says what becomes of a min ISR above RF today.
    """

    group: TopicGroup
    after: TopicGroup | None
    lines: tuple[AdvisedLine, ...]
    remedies: tuple[Remedy, ...]
    prices: Prices = {}
    min_isr_note: str | None = None
