"""All protocol variants by name, and which one a Kafka release runs.

`VARIANTS` keys, oldest first: kraft, kip903, strict_min_isr, elr_40, elr_41, elr_43, kip966 (and finer ones where
a release differs inside these).
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis.spec.partition import Cluster, UncleanElection
from analysis.spec.protocol import Protocol

VARIANTS: dict[str, Protocol] = {}


def protocol_for(kafka: str, features: Mapping[str, int]) -> Protocol:
    """The variant whose code `kafka` (such as 4.3.1) runs; UsageError for a release that is not known."""
    raise NotImplementedError


def cluster_for(
    kafka: str,
    features: Mapping[str, int],
    brokers: tuple[int, ...],
    *,
    min_isr: int = 1,
    unclean: UncleanElection = UncleanElection.DISABLED,
) -> Cluster:
    """A healthy cluster of `brokers` on `kafka`, with the features given and the release's defaults."""
    raise NotImplementedError
