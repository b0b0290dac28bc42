"""Known bugs and findings of Kafka that apply to a release and its feature levels."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from packaging.version import Version

from analysis.advise.prices import NO_WAY_BACK, RESTART
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION

_KIP_903 = METADATA_VERSIONS["3.5-IV1"]


class KnownDefect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect, the condition for it, what to change, and the price of that."""

    name: str
    what: str
    change: str
    price: str
    page: str
    applies: Callable[[ReleaseFacts], bool]


def _within(first: str, fixed: str) -> Callable[[ReleaseFacts], bool]:
    return lambda release: Version(first) <= Version(release.kafka) < Version(fixed)


def _with_elr(first: str, fixed: str) -> Callable[[ReleaseFacts], bool]:
    within = _within(first, fixed)
    return lambda release: release.is_elr_on and within(release)


def _before_kip_903(release: ReleaseFacts) -> bool:
    return Version(release.kafka) < Version("3.5") or release.features.get(METADATA_VERSION, _KIP_903) < _KIP_903


def new_disk_empties_elr(release: ReleaseFacts) -> bool:
    """Whether apache/kafka#20716 is open, which the model does not have: it knows no directories."""
    return _with_elr("4.0", "4.3")(release)


def elects_fenced_leaders(release: ReleaseFacts) -> bool:
    """Whether KAFKA-19522 is open: the last known leader is elected before its registration, still in the ISR."""
    return _with_elr("4.0", "4.1.0")(release)


def _is_18991_open(release: ReleaseFacts) -> bool:
    version = Version(release.kafka)
    return version < Version("3.9.1") or Version("4.0.0") <= version < Version("4.0.1")


_FINDINGS = "findings/README.md"
_BUGS = f"{_FINDINGS}#known-bugs"

DEFECTS: tuple[KnownDefect, ...] = (
    KnownDefect(
        name="KAFKA-14139",
        what="a broker that returns with an empty disk may join the ISR by a late request, lead, and lose everything",
        change="Kafka 3.5 or newer, with metadata.version 3.5-IV1 or newer",
        price=f"{RESTART}; {NO_WAY_BACK}",
        page=_BUGS,
        applies=_before_kip_903,
    ),
    KnownDefect(
        name="KAFKA-12670",
        what="unclean.leader.election.enable has no effect",
        change="Kafka 3.9 or newer, if you want it to have an effect",
        price=f"{RESTART}; where the setting is true, a replica that lacks committed records may lead",
        page=_BUGS,
        applies=_within("3.3", "3.9"),
    ),
    KnownDefect(
        name="KAFKA-15583",
        what="the HW advances while the ISR is below min.insync.replicas",
        change="Kafka 3.7 or newer",
        price=f"{RESTART}; while the ISR is too small, consumers see no new record, also none with acks=1",
        page=_BUGS,
        applies=_within("3.3", "3.7"),
    ),
    KnownDefect(
        name="KAFKA-15665",
        what="a reassignment completes while the ISR is below min.insync.replicas",
        change="Kafka 3.8 or newer",
        price=f"{RESTART}; a reassignment may wait until all its target replicas are in the ISR",
        page=_BUGS,
        applies=_within("3.3", "3.8"),
    ),
    KnownDefect(
        name="KAFKA-18991",
        what="a follower that obeys an answer of an earlier leader epoch keeps records that differ",
        change="Kafka 3.9.1, 4.0.1 or newer",
        price=RESTART,
        page=_BUGS,
        applies=_is_18991_open,
    ),
    KnownDefect(
        name="KAFKA-19522",
        what="the last known leader is elected while it is fenced",
        change="Kafka 4.1 or newer",
        price=f"{RESTART}; the partition has no leader until its last known leader is back",
        page=_BUGS,
        applies=elects_fenced_leaders,
    ),
    KnownDefect(
        name="apache/kafka#20716",
        what="the assignment of a new disk's directory empties the ELR, and all records may be lost",
        change="Kafka 4.3 or newer",
        price=RESTART,
        page="findings/new-disk-wipes-elr.md",
        applies=new_disk_empties_elr,
    ),
    KnownDefect(
        name="move-and-back",
        what="two reassignments, there and back, lose everything while two replicas are cut off",
        change="reassign only partitions whose ISR is whole; no release has a fix",
        price="a reassignment waits while a replica is down or out of the ISR",
        page="findings/move-and-back.md",
        applies=_with_elr("4.3", "4.5"),
    ),
    KnownDefect(
        name="elr-off, raise-min-isr, late-min-isr, first-partition",
        what="changes of min.insync.replicas, of the ELR feature, and of partition 0 lose committed records",
        change="make these changes only while the ISR of every partition is whole; no release has a fix",
        price="the change waits while a replica is down or out of the ISR",
        page=_FINDINGS,
        applies=_with_elr("4.0", "4.5"),
    ),
    KnownDefect(
        name="KAFKA-20554",
        what="planned changes of the leader lose records with acks=1",
        change="acks=all for records that must not be lost; no release has a fix",
        price="a producer waits for all in-sync replicas, and is refused while the ISR is below min.insync.replicas",
        page=_BUGS,
        applies=lambda release: True,
    ),
)


def defects_of(release: ReleaseFacts) -> tuple[KnownDefect, ...]:
    """Return the defects of a release; where its patch is unknown, those of any patch."""
    patches = [msgspec.structs.replace(release, kafka=patch) for patch in release.possible or (release.kafka,)]
    return tuple(defect for defect in DEFECTS if any(map(defect.applies, patches)))
