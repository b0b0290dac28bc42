"""Lists all protocol variants by name, and which one a Kafka release runs."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from analysis.spec.elr_40 import Elr40
from analysis.spec.elr_41 import Elr41, Elr410
from analysis.spec.elr_43 import Elr43
from analysis.spec.kip903 import Kip903, Kip903In36
from analysis.spec.kip966 import Kip966
from analysis.spec.kip966_last_known import Kip966LastKnown
from analysis.spec.kraft import Kraft
from analysis.spec.partition import MV_ELR, Cluster, UncleanElection
from analysis.spec.protocol import Protocol
from analysis.spec.strict_min_isr import StrictMinIsr, StrictMinIsrIn38, StrictMinIsrIn39
from ebbtide.errors import UsageError
from ebbtide.releases import first_with
from ebbtide.releases.known_releases import ELR_VERSION, KNOWN, METADATA_VERSION, KnownRelease, known_like

VARIANTS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Kraft(),
        Kip903(),
        Kip903In36(),
        StrictMinIsr(),
        StrictMinIsrIn38(),
        StrictMinIsrIn39(),
        Elr40(),
        Elr410(),
        Elr41(),
        Elr43(),
        Kip966(),
        Kip966LastKnown(),
    )
}
"""Oldest first; all but `IN_NO_RELEASE` are what releases run."""

IN_NO_RELEASE = ("kip966", "kip966_last_known")
"""The KIP's text, and the text with a repair."""


_SHIPPED = {type(protocol): name for name, protocol in VARIANTS.items()}


def base_of(variant: str) -> str:
    """Return the shipped variant that a variant is, or that a variant of the user changes (`analysis.spec.own`)."""
    return next(_SHIPPED[owner] for owner in type(VARIANTS[variant]).__mro__ if owner in _SHIPPED)


def protocol_for(kafka: str, features: Mapping[str, int]) -> Protocol:
    """Return the variant that a release such as 4.3.1 runs with its `features`.

    The features are finalised levels. KIP-903 is in the code from 3.5 on and takes effect with
    metadata.version 3.5-IV1. The ELR is in the code from 4.0 on and takes effect with
    eligible.leader.replicas.version 1. Both are read from the `Cluster` at each event, so a feature
    may change during a run. A release candidate runs what its release does. Raises UsageError for a
    release or a feature level that is not known.
    """
    known = _known_release(kafka)
    protocol = VARIANTS[known.variant]
    level = features.get(ELR_VERSION, 0)
    version = features.get(METADATA_VERSION, known.metadata_version)
    if level and not (protocol.has_elr and version >= MV_ELR):
        raise UsageError(
            "this release does not know that feature level",
            where=f"Kafka {kafka}",
            got=f"{ELR_VERSION}={level} with {METADATA_VERSION}={version}",
            allowed=f"{ELR_VERSION}=1 from Kafka 4.0 on, with {METADATA_VERSION} {MV_ELR} or newer",
        )
    return protocol


def cluster_for(
    kafka: str,
    features: Mapping[str, int],
    brokers: tuple[int, ...],
    *,
    min_isr: int = 1,
    unclean: UncleanElection = UncleanElection.DISABLED,
) -> Cluster:
    """Return a healthy cluster of `brokers` on `kafka`.

    Features not named have the defaults of a new cluster. The broker epochs are 100 + broker id.
    """
    protocol = protocol_for(kafka, features)
    all_brokers = frozenset(brokers)
    by_default = protocol.has_elr and _base(kafka) >= first_with.ELR_BY_DEFAULT
    return Cluster(
        registered=all_brokers,
        unfenced=all_brokers,
        epochs=tuple(100 + broker if broker in brokers else -1 for broker in range(max(brokers) + 1)),
        min_isr=min_isr,
        elr=bool(features.get(ELR_VERSION, int(by_default))),
        unclean=unclean,
        metadata_version=features.get(METADATA_VERSION, _known_release(kafka).metadata_version),
    )


def _base(kafka: str) -> Version:
    """Return the release that `kafka` is, or is a candidate of; 0 if it is none."""
    try:
        return Version(Version(kafka).base_version)
    except InvalidVersion:
        return Version("0")


def _known_release(kafka: str) -> KnownRelease:
    known = known_like(str(_base(kafka)))
    if known is None:
        first, last = KNOWN[0].minor, KNOWN[-1].minor
        allowed = "{}.{} to {}.{}".format(*first, *last)
        raise UsageError("the specification does not know this release", got=kafka, allowed=allowed)
    return known


def release_of(variant: str) -> str:
    """Return a release of a variant, for its feature levels: the newest measured one, if there is one.

    No release runs a variant of `IN_NO_RELEASE`; they take the newest levels. A variant of the user is taken to run
    where its base does.
    """
    base = base_of(variant)
    if base in IN_NO_RELEASE:
        return KNOWN[-1].version
    running = [known for known in KNOWN if known.variant == base]
    return ([known for known in running if known.measured] or running)[-1].version
