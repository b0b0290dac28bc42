"""How many disks the model of a release may lose: what the table of causes takes KIP-966 to promise."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations

from analysis.spec.partition import MV_ELR, NO_EPOCH, Cluster, Partition
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS

_NEW_EPOCH = 100
"""Above every epoch before."""


@cache
def tolerated_losses(replication_factor: int, min_isr: int, variant: str, *, elr: bool = True) -> int:
    """Return how many log losses the protocol tolerates, from 0 to min ISR.

    It is the largest number of unclean shutdowns with loss after which no broker that lost its log
    leads. `variant` is a key of `VARIANTS`; `elr`: whether the feature is on. The variant of the
    KIP's text does not fit: it leaves an empty ISR and ELR to the unclean recovery.

    KIP-966 promises min ISR - 1. The number is not written down here: the model computes it. The
    model starts where tolerance is thinnest: the ISR has shrunk to min ISR, so only its members
    must have every committed record. It then removes the logs of k members, in every order in which
    they can be fenced and return.
    """
    protocol = VARIANTS[variant]
    effective = min(min_isr, replication_factor)
    for losses in range(1, effective + 1):
        if any(
            _can_a_loser_lead(protocol, replication_factor, effective, order, elr)
            for lost in combinations(range(effective), losses)
            for order in permutations(lost)
        ):
            return losses - 1
    return effective


def _can_a_loser_lead(
    protocol: Protocol, replication_factor: int, min_isr: int, lost: tuple[int, ...], elr: bool
) -> bool:
    """Return whether a broker of `lost` leads after all holders were fenced.

    The brokers of `lost` are fenced last, in that order, and they alone return.
    """
    holders = range(min_isr)
    everyone = frozenset(range(replication_factor))
    cluster = Cluster(
        registered=everyone,
        unfenced=frozenset(holders),
        epochs=tuple(range(replication_factor)),
        min_isr=min_isr,
        elr=elr,
        metadata_version=MV_ELR,
    )
    partition = Partition(replicas=tuple(range(replication_factor)), isr=frozenset(holders), leader=0)
    kept = [broker for broker in holders if broker not in lost]
    for broker in (*kept, *lost):
        partition, cluster, _ = protocol.fence(partition, cluster, broker)
    for broker in lost:
        epoch = _NEW_EPOCH + broker
        partition, cluster, _ = protocol.register(partition, cluster, broker, epoch=epoch, previous_epoch=NO_EPOCH)
        partition, cluster, _ = protocol.unfence(partition, cluster, broker)
    return partition.leader in lost
