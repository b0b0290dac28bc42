"""Which release a cluster runs, as far as its snapshot says, and the protocol variant of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from packaging.version import Version

from analysis.spec.partition import MV_ELR, Cluster
from analysis.spec.variants import VARIANTS, cluster_for, protocol_for
from ebbtide.errors import UsageError
from ebbtide.releases.feature_levels import levels_of
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN, METADATA_VERSION, minor_release_of, patches_of
from ebbtide.snapshot.model import ClusterSnapshot, SnapshotPartition
from ebbtide.snapshot.planned import UNKNOWN_RELEASE

ASSUME = "--assume kafka=4.3.1"
RELEASES = "3.3 to 4.4, such as 4.3 for its newest patch, or 4.3.1"
_MEASURED = frozenset(one.version for one in KNOWN if one.measured)


class ReleaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The release that the model takes for the cluster.

    `kafka` is a whole version; `shown` says what of it is known, and `possible` has the patches that it
    may be. `variant` is a key of `VARIANTS`.
    """

    kafka: str
    shown: str
    variant: str
    features: dict[str, int]
    notes: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()

    @property
    def is_elr_on(self) -> bool:
        """Whether the ELR is on."""
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def has_elr(self) -> bool:
        """Whether the release has the ELR, on or off."""
        return VARIANTS[self.variant].has_elr

    @property
    def elr(self) -> str:
        """The ELR in words."""
        return "ELR on" if self.is_elr_on else "ELR off" if self.has_elr else "no ELR"

    def refuses_acks_all(self, rf: int, min_isr: int) -> bool:
        """Whether no ISR is ever large enough for acks=all: a min ISR above RF, before Kafka 3.7."""
        return VARIANTS[self.variant].counted_min_isr(rf, min_isr) > rf

    def min_isr_note(self, rf: int, min_isr: int) -> str | None:
        """Return what becomes of a min ISR above RF, in a sentence."""
        if min_isr <= rf:
            return None
        above = f"min.insync.replicas {min_isr} is above RF {rf}"
        if self.refuses_acks_all(rf, min_isr):
            return f"{above}, so every record with acks=all is refused. From Kafka 3.7 on, it counts as {rf}."
        return f"{above}, so it counts as {rf}. Before Kafka 3.7, every record with acks=all was refused."

    def counted(self, partition: SnapshotPartition) -> SnapshotPartition:
        """Return the partition as elections take it: with the ELR off, what it has left elects nobody."""
        return partition if self.is_elr_on else msgspec.structs.replace(partition, elr=(), last_known_elr=())

    def cluster(self) -> Cluster:
        """A healthy cluster of the model with these feature levels."""
        return cluster_for(self.kafka, {ELR_VERSION: 0, **self.features}, (0,))


def release_of(snapshot: ClusterSnapshot) -> ReleaseFacts:
    """Return the release of a cluster. Raises `UsageError` if nothing in the snapshot says it."""
    if snapshot.kafka is not None:
        return assumed_release(snapshot.kafka, snapshot.features)
    ranges = {one.metadata_versions for one in snapshot.brokers if one.metadata_versions}
    if not ranges and snapshot.metadata_versions is not None:
        ranges = {snapshot.metadata_versions}
    minors = {minor_release_of(highest) for _, highest in ranges}
    known = sorted((one for one in minors if one is not None), key=Version)
    if not known:
        raise UsageError(
            "the release of the brokers is not known",
            got=", ".join(f"{METADATA_VERSION} up to {highest}" for _, highest in sorted(ranges)) or _silence(snapshot),
            allowed=RELEASES,
            next=f"{ASSUME}    (if you know which release it behaves like)",
        )
    patches = patches_of(known[0])
    variants = {one: protocol_for(one, {}).name for one in patches}
    alike = [one for one in patches if variants[one] == variants[patches[0]]]
    kafka = [one for one in alike if one in _MEASURED][-1:] or alike[-1:]
    notes = []
    if len(minors) > 1:
        shown = ", ".join(one or "unknown" for one in sorted(minors, key=str))
        notes.append(f"the brokers run different releases ({shown}); the advice is for {known[0]}")
    if len(set(variants.values())) > 1:
        notes.append(
            f"patches of {known[0]} differ, and brokers do not say theirs; the advice is for {kafka[0]} and older. "
            f"`--assume kafka={patches[-1]}` shows the newest."
        )
    return ReleaseFacts(
        kafka=kafka[0],
        shown=f"{known[0]} (the patch is unknown)",
        variant=variants[patches[0]],
        features=_levels(kafka[0], snapshot.features),
        notes=tuple(notes),
        possible=patches,
    )


def _silence(snapshot: ClusterSnapshot) -> str:
    """Return what is there instead of the release."""
    if not snapshot.unsaid:
        return f"no {METADATA_VERSION}, from which the release would follow"
    return next((one for one in snapshot.assumed if one.startswith(UNKNOWN_RELEASE)), "no file says it")


def unknown_release(kafka: str) -> UsageError:
    """Return the error for an assumed release that the specification does not know."""
    got = f"kafka={kafka}"
    return UsageError("the specification does not know this release", where="--assume", got=got, allowed=RELEASES)


def assumed_release(kafka: str, features: Mapping[str, int]) -> ReleaseFacts:
    """Return the facts of a release that somebody names, with `features` where it knows them."""
    known = levels_of(kafka)
    if known is None:
        raise unknown_release(kafka)
    levels = _levels(kafka, features)
    protocol = protocol_for(kafka, levels)
    return ReleaseFacts(kafka=kafka, shown=kafka, variant=protocol.name, features=levels)


def _levels(kafka: str, features: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that count for the model, lowered to what the release knows."""
    known = levels_of(kafka) or {}
    top = known[METADATA_VERSION][-1]
    version = min(features.get(METADATA_VERSION, top), top)
    elr = features.get(ELR_VERSION, 0) if ELR_VERSION in known and version >= MV_ELR else 0
    return (
        {METADATA_VERSION: version, ELR_VERSION: min(elr, 1)} if ELR_VERSION in known else {METADATA_VERSION: version}
    )
