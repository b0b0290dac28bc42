"""The events that a line of advice is about, each with the bounds within which the model is searched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import msgspec

from analysis.advise.groups import TopicGroup
from analysis.advise.release import ReleaseFacts
from analysis.spec.model.bounds import Bounds

When = Literal["in sync", "one after the other", "at the worst moment"]
Likelihood = Literal["routine", "common", "rare", "very rare"]
LIKELIHOODS: tuple[Likelihood, ...] = ("routine", "common", "rare", "very rare")

IN_SYNC: When = "in sync"
IN_TURN: When = "one after the other"
WORST: When = "at the worst moment"

REQUESTS_RF_MAX = 3
"""Requests at the worst moment have too many states above this RF; moves above one more."""

WHEN_MEANS: dict[str, str] = {
    IN_SYNC: "all replicas are in the ISR before, and no running replica is cut off or slow",
    IN_TURN: "each replica is back in the ISR before the next one goes",
    WORST: "the network may cut off any replica, or make it slow, at any time before and after",
}


class AdvisedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen to the brokers of a partition.

    `key` names it in files. `budget` are fields of `Bounds`. `count` is how many brokers it takes
    down, 0 for none or any. `shown_by`: scenarios of the catalogue, nearest first. `findings` are pages of docs/.
    """

    key: str
    what: str
    when: When
    likelihood: Likelihood
    budget: dict[str, Any]
    count: int = 0
    shown_by: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    only_beyond: str | None = None
    """The key of an event; this one says nothing more where that one loses."""

    @property
    def in_words(self) -> str:
        """What happens, and when."""
        return f"{self.what}, {self.when}"

    def bounds(self, group: TopicGroup, acks: Literal["all", "1"]) -> Bounds:
        """Return the bounds of the search for a group."""
        settings = group.settings
        budget = dict(self.budget)
        if settings.flushes_each_record and (lost := budget.pop("power_losses", 0)):
            # Each record is on the disk before it is acked: a power loss takes no more than a kill.
            budget["kills"] = budget.get("kills", 0) + lost
        if self.when != WORST:
            budget["cuts"] = False
        if self.when == IN_TURN:
            budget["in_turn"] = True
        return Bounds(rf=settings.rf, min_isr=settings.effective_min_isr, unclean=settings.unclean, acks=acks, **budget)


def fixed_events(group: TopicGroup, release: ReleaseFacts) -> Iterator[AdvisedEvent]:
    """Yield the events whose size does not depend on what the model answers."""
    rf = group.settings.rf
    yield AdvisedEvent(
        key="rolling-restart",
        what="a clean rolling restart",
        when=IN_TURN,
        likelihood="routine",
        budget={"stops": rf},
        shown_by=("rolling-restart", "kafka-20554"),
    )
    yield AdvisedEvent(
        key="kill",
        what="a broker process is killed",
        when=IN_SYNC,
        likelihood="common",
        budget={"kills": 1},
        count=1,
        shown_by=("acks-matrix-kill", "rolling-kill"),
    )
    yield AdvisedEvent(
        key="network",
        what="the network cuts brokers off, and nothing else fails",
        when=WORST,
        likelihood="common",
        budget={},
        shown_by=("unclean-election",) if group.settings.unclean else ("acks-matrix-partition",),
    )
    yield AdvisedEvent(
        key="kills-worst",
        what="a broker process is killed" if rf > 3 else "any number of broker processes are killed",
        when=WORST,
        likelihood="rare",
        budget={"kills": 1 if rf > 3 else rf},
        count=1,
        shown_by=("unclean-election",) if group.settings.unclean else ("last-known-leader",),
    )
    yield AdvisedEvent(
        key="power-in-turn",
        what="each broker loses power",
        when=IN_TURN,
        likelihood="rare",
        budget={"power_losses": rf},
        shown_by=("rolling-power-loss",),
    )
    one_disk = "a broker dies, and returns with an empty disk"
    yield _emptied(1, key="disk", what=one_disk, likelihood="common")
    if count := min(rf, group.in_containers):
        all_new = f"{_how_many(count, count == rf)} brokers get new containers, with empty disks"
        what = "a broker gets a new container, with an empty disk" if count == 1 else all_new
        yield _emptied(count, key="containers", what=what, likelihood="routine")
    yield _emptied(
        1,
        key="disk-worst",
        what=one_disk,
        when=WORST,
        likelihood="rare",
        findings=("late-directory",),
        shown_by=("stale-isr-join",) if release.variant == "kraft" else ("last-replica-disk-replaced",),
    )
    yield from _requests(group, release)


def _requests(group: TopicGroup, release: ReleaseFacts) -> Iterator[AdvisedEvent]:
    """Yield what operators do to a partition."""
    rf = group.settings.rf
    if group.brokers > rf:
        moves = {"brokers": rf + 1, "admin": 2, "admin_kinds": ("move",)}
        yield AdvisedEvent(key="moves", what="two partition moves", when=IN_SYNC, likelihood="routine", budget=moves)
        yield AdvisedEvent(
            key="moves-worst",
            what="two partition moves",
            when=WORST,
            likelihood="rare",
            budget=moves,
            shown_by=("move-and-back",),
            findings=("move-and-back",) if release.variant == "elr_43" and release.is_elr_on else (),
        )
    if not release.is_elr_on or rf < 2:
        return
    very_rare = partial(AdvisedEvent, when=WORST, likelihood="very rare")
    lower = {"admin": 2, "admin_kinds": ("feature", "lower-min-isr")}
    raised = {"admin": 1, "admin_kinds": ("raise-min-isr",)}
    if group.settings.effective_min_isr > 1:
        yield very_rare(
            key="elr-off-worst",
            what="the ELR is turned off, and min.insync.replicas lowered",
            budget=lower,
            shown_by=("elr-off",),
            findings=("elr-off",),
            only_beyond="network",
        )
    if group.settings.effective_min_isr < rf:
        yield very_rare(
            key="raise-worst",
            what="min.insync.replicas is raised, and the leader learns of it late",
            budget={**raised, "late_configs": True},
            shown_by=("late-min-isr",),
            findings=("late-min-isr",),
            only_beyond="network",
        )
        yield very_rare(
            key="raise-power-worst",
            what="min.insync.replicas is raised, and 1 broker loses power",
            budget={**raised, "power_losses": 1},
            count=1,
            shown_by=("dynamic-min-isr-raise",),
            findings=("raise-min-isr",),
            only_beyond="power-1-worst",
        )
    yield very_rare(
        key="first-partition-worst",
        what="partition 0 is moved to fewer replicas, and 1 broker loses power",
        budget={"admin": 1, "admin_kinds": ("first-partition",), "power_losses": 1},
        count=1,
        shown_by=("first-partition",),
        findings=("first-partition",),
        only_beyond="power-1-worst",
    )


def power_event(count: int, when: When, group: TopicGroup, *, rack: bool = False) -> AdvisedEvent:
    """Return the event that so many replicas of a partition lose power before one of them is back."""
    all_replicas = count == group.settings.rf
    if rack:
        what = "a rack loses power" if count == 1 else f"a rack with {count} replicas of a partition loses power"
    elif count == 1:
        what = "1 broker loses power"
    else:
        what = f"{_how_many(count, all_replicas)} brokers lose power together"
    if count == 1:
        shown_by: tuple[str, ...] = ("acks-matrix-power-loss",) if when == IN_SYNC else ("last-replica-standing",)
    elif all_replicas and when == IN_SYNC:
        shown_by = ("rack-power",)
    else:
        shown_by = () if when == IN_SYNC else ("power-losses-beyond-tolerance-3-2",)
    return AdvisedEvent(
        key=("rack-power" if rack else f"power-{count}") + ("-worst" if when == WORST else ""),
        what=what,
        when=when,
        likelihood="common" if when == IN_SYNC and (count == 1 or group.on_one_host) else "rare",
        budget={"power_losses": count},
        count=count,
        shown_by=shown_by,
    )


def disks_event(count: int, group: TopicGroup, *, rack: bool = False) -> AdvisedEvent:
    """Return the event that so many replicas of a partition return with empty disks, such as the pods of a zone."""
    if rack:
        replicas = "" if count == 1 else f" with {count} replicas of a partition"
        what = f"a rack{replicas} loses its disks"
    else:
        what = f"{_how_many(count, count == group.settings.rf)} brokers die, and return with empty disks"
    return _emptied(count, key="rack-disks" if rack else f"disks-{count}", what=what, likelihood="rare")


def _emptied(count: int, *, when: When = IN_SYNC, **values: Any) -> AdvisedEvent:
    """Return the event that so many brokers die together, and return with empty disks."""
    return AdvisedEvent(when=when, budget={"kills": count, "disks": count}, count=count, **values)


def _how_many(count: int, all_replicas: bool) -> str:
    return "both" if all_replicas and count == 2 else f"all {count}" if all_replicas else str(count)


def is_searched(event: AdvisedEvent, rf: int) -> bool:
    """Whether the model's states of this event fit into a search: requests of operators have too many above an RF."""
    moves = event.budget.get("admin_kinds") == ("move",)
    return not event.budget.get("admin") or rf <= REQUESTS_RF_MAX + moves


def event_for(event: AdvisedEvent, group: TopicGroup, release: ReleaseFacts) -> AdvisedEvent:
    """Return the event for this group; RF decides how many brokers it hits."""
    for fixed in fixed_events(group, release):
        if fixed.key == event.key:
            return fixed
    rf = group.settings.rf
    count = min(event.count, rf)
    if count and event.key.startswith(("power-", "rack-power")):
        return power_event(count, event.when, group, rack=event.key == "rack-power")
    if event.key.startswith(("disks-", "rack-disks")):
        return disks_event(count, group, rack=event.key == "rack-disks")
    budget = {
        name: min(value, rf) if name in ("power_losses", "kills", "stops") else value
        for name, value in event.budget.items()
    }
    if "brokers" in budget:
        budget["brokers"] = rf + 1
    return msgspec.structs.replace(event, budget=budget)


def tolerance(
    lowest: int, highest: int, loses: Callable[[int], bool | None], hint: int
) -> tuple[int | None, int | None]:
    """Return the largest count that survives and the smallest that loses; None where there is none known.

    What survives a count survives each smaller one, and what loses a count loses each larger one.
    The search begins at `hint`. A count of which nothing is known ends it.
    """
    survives, lost = lowest - 1, highest + 1
    at = min(max(hint, lowest), highest)
    while survives + 1 < lost:
        answer = loses(at)
        if answer is None:
            break
        survives, lost = (survives, at) if answer else (at, lost)
        at = min(max(survives + 1, lowest), highest) if not answer else lost - 1
    return (survives if survives >= lowest else None), (lost if lost <= highest else None)
