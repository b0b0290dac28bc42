"""Known bugs and findings of Kafka: the one list, from which `advise` and docs/findings/README.md take theirs."""

from __future__ import annotations

import msgspec
from packaging.version import Version

from analysis.advise.prices import NO_WAY_BACK, RESTART
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION, OLDEST

_KIP_903 = "3.5-IV1"
_KIP_890 = "transaction.version 2 and a client that speaks it"
_FINDINGS = "findings/README.md"
_BUGS = f"{_FINDINGS}#known-bugs"


class KnownDefect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect, the releases that have it, and what to do about it.

    - `affected`: the first release that has it, and the first that has not; an empty text: no release has the fix.
    - `fixed_by`: what a release with the fix needs, too: without it, newer releases have the defect.
    - `needs_elr`: only where the ELR is on. `needs_level`: newer releases have it below this metadata.version, too.
    - `change`, `price`: what to change, and the price of that. `advise` does not name a defect without a change.
    - `scenario`: a scenario of the catalogue that shows it.
    """

    name: str
    what: str
    affected: tuple[tuple[str, str], ...]
    needs_elr: bool = False
    needs_level: str = ""
    fixed_by: str = ""
    change: str = ""
    price: str = ""
    page: str = _BUGS
    scenario: str = ""

    @property
    def see(self) -> tuple[str, ...]:
        """Where a reader without this repository can see it: addresses, and commands."""
        return tuple(_place_of(name) for name in self.name.split(", "))

    def applies(self, release: ReleaseFacts) -> bool:
        """Whether a release may have it with its feature levels."""
        if self.needs_elr and not release.is_elr_on:
            return False
        level = METADATA_VERSIONS.get(self.needs_level, 0)
        if self.fixed_by or release.features.get(METADATA_VERSION, level) < level:
            return True
        version = Version(release.kafka)
        return any(Version(first) <= version and not (end and version >= Version(end)) for first, end in self.affected)


_SHOWN_BY = {"raise-min-isr": "dynamic-min-isr-raise"}
"""The scenario that shows a finding, where its name is another one."""


def _place_of(name: str) -> str:
    if name.startswith("KAFKA-"):
        return f"https://issues.apache.org/jira/browse/{name}"
    repository, hash_, number = name.partition("#")
    if hash_:
        return f"https://github.com/{repository}/pull/{number}"
    return f"ebbtide scenarios show {_SHOWN_BY.get(name, name)}"


DEFECTS: tuple[KnownDefect, ...] = (
    KnownDefect(
        name="KAFKA-14139",
        what="a broker that returns with an empty disk may join the ISR by a late request, lead, and lose everything",
        affected=((OLDEST, "3.5"),),
        needs_level=_KIP_903,
        change="Kafka 3.5 or newer, with metadata.version 3.5-IV1 or newer",
        price=f"{RESTART}; {NO_WAY_BACK}",
        scenario="stale-isr-join",
    ),
    KnownDefect(
        name="KAFKA-12670",
        what="unclean.leader.election.enable has no effect",
        affected=((OLDEST, "3.9"),),
        change="Kafka 3.9 or newer, if you want it to have an effect",
        price=f"{RESTART}; where the setting is true, a replica that lacks committed records may lead",
        scenario="kafka-12670",
    ),
    KnownDefect(
        name="KAFKA-15583",
        what="the HW advances while the ISR is below min.insync.replicas",
        affected=((OLDEST, "3.7"),),
        change="Kafka 3.7 or newer",
        price=f"{RESTART}; while the ISR is too small, consumers see no new record, also none with acks=1",
        scenario="kafka-15583",
    ),
    KnownDefect(
        name="KAFKA-15665",
        what="a reassignment completes while the ISR is below min.insync.replicas",
        affected=((OLDEST, "3.8"),),
        change="Kafka 3.8 or newer",
        price=f"{RESTART}; a reassignment may wait until all its target replicas are in the ISR",
        scenario="kafka-15665",
    ),
    KnownDefect(
        name="KAFKA-18991",
        what="a follower that obeys an answer of an earlier leader epoch keeps records that differ",
        affected=((OLDEST, "3.9.1"), ("4.0.0", "4.0.1")),
        change="Kafka 3.9.1, 4.0.1 or newer",
        price=RESTART,
        scenario="kafka-18991",
    ),
    KnownDefect(
        name="KAFKA-19522",
        what="the last known leader is elected while it is fenced",
        affected=(("4.0", "4.1"),),
        needs_elr=True,
        change="Kafka 4.1 or newer",
        price=f"{RESTART}; the partition has no leader until its last known leader is back",
        scenario="kafka-19522",
    ),
    KnownDefect(
        name="apache/kafka#20716",
        what="the assignment of a new disk's directory empties the ELR, and all records may be lost",
        affected=(("4.0", "4.3"),),
        needs_elr=True,
        change="Kafka 4.3 or newer",
        price=RESTART,
        page="findings/new-disk-wipes-elr.md",
        scenario="kafka-pr-20716",
    ),
    KnownDefect(
        name="move-and-back",
        what="two reassignments, there and back, lose everything while two replicas are cut off",
        affected=(("4.3", ""),),
        needs_elr=True,
        change="reassign only partitions whose ISR is whole; no release has a fix",
        price="a reassignment waits while a replica is down or out of the ISR",
        page="findings/move-and-back.md",
    ),
    KnownDefect(
        name="elr-off, stale-last-known-leader, raise-min-isr, late-min-isr, first-partition",
        what="changes of min.insync.replicas, of the ELR feature, and of partition 0 lose committed records",
        affected=(("4.0", ""),),
        needs_elr=True,
        change="make these changes only while the ISR of every partition is whole; no release has a fix",
        price="the change waits while a replica is down or out of the ISR",
        page=_FINDINGS,
    ),
    KnownDefect(
        name="KAFKA-20554",
        what="planned changes of the leader lose records with acks=1",
        affected=((OLDEST, ""),),
        change="acks=all for records that must not be lost; no release has a fix",
        price="a producer waits for all in-sync replicas, and is refused while the ISR is below min.insync.replicas",
        scenario="kafka-20554",
    ),
    KnownDefect(
        name="KAFKA-14402",
        what="a late Produce becomes part of its producer's next transaction",
        affected=((OLDEST, "4.0"),),
        fixed_by=_KIP_890,
        scenario="late-produce-in-next-transaction",
    ),
    KnownDefect(
        name="KAFKA-15021",
        what="the leader epoch rises although the leader stays",
        affected=((OLDEST, "3.6"),),
        scenario="kafka-15021",
    ),
    KnownDefect(
        name="KAFKA-15353",
        what="brokers that are newer than the controllers repeat an AlterPartition with an empty ISR, and give up",
        affected=(("3.5.0", "3.5.2"),),
        scenario="kafka-15353",
    ),
    KnownDefect(
        name="KAFKA-15489",
        what="an active controller that no majority follows does not resign",
        affected=((OLDEST, "3.7"),),
        scenario="kafka-15489",
    ),
    KnownDefect(
        name="KAFKA-17754",
        what="a late EndTxn ends its producer's next transaction",
        affected=((OLDEST, "4.0"),),
        fixed_by=_KIP_890,
        scenario="late-end-txn",
    ),
    KnownDefect(
        name="KAFKA-19383",
        what="a broker misses that a topic was deleted and made again, and leads a replica of the old one",
        affected=(("4.0.0", "4.0.1"),),
        needs_elr=True,
        scenario="kafka-19383",
    ),
    KnownDefect(
        name="KAFKA-19975",
        what="a replica that does not move blocks a reassignment",
        affected=(("3.8", "4.3"),),
        scenario="kafka-19975",
    ),
    KnownDefect(
        name="KAFKA-19996",
        what="below min ISR a lagging follower joins again and again",
        affected=(("3.7", ""),),
        scenario="kafka-19996",
    ),
)

_BY_NAME = {defect.name: defect for defect in DEFECTS}


def new_disk_empties_elr(release: ReleaseFacts) -> bool:
    """Whether apache/kafka#20716 is open, which the model does not have: it knows no directories."""
    return _BY_NAME["apache/kafka#20716"].applies(release)


def elects_fenced_leaders(release: ReleaseFacts) -> bool:
    """Whether KAFKA-19522 is open: the last known leader is elected before its registration, still in the ISR."""
    return _BY_NAME["KAFKA-19522"].applies(release)


def defects_of(release: ReleaseFacts) -> tuple[KnownDefect, ...]:
    """Return the defects of a release that a change avoids; where its patch is unknown, those of any patch."""
    patches = [msgspec.structs.replace(release, kafka=patch) for patch in release.possible or (release.kafka,)]
    return tuple(defect for defect in DEFECTS if defect.change and any(map(defect.applies, patches)))
