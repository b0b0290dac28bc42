"""Why the protocol let a broker lead that did not hold a committed record; None of the rules: unexplained.

The order of the rules is binding (docs/causes.md). An election by name comes first: an unclean one, one of
the last known leader, one of a broker whose way into the ISR KIP-903 would have refused. Then what the disks
lost: beyond-tolerance, and last-replica-standing. Cause None: the table or step that decides is missing.

The road alone permits nothing. Kafka elects uncleanly only where unclean.leader.election.enable is true, from 3.9 on
(KAFKA-12670), or where an operator asks for it, whatever the release and the config. It elects the last known leader
while the ELR feature is on, whatever the config.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations, pairwise, permutations

from analysis.judge.history.elections import Elected
from analysis.judge.history.evidence import Attribution, Evidence, Gone
from analysis.judge.history.log_losses import BrokerLogLoss
from analysis.judge.history.rules import NEWEST_VARIANT
from analysis.judge.history.timeline import MILLISECOND_NS
from analysis.spec.partition import MV_ELR, NO_EPOCH, Cluster, Partition
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Cause


def why_it_could_lead(evidence: Evidence, elected: Elected, gone: Gone) -> Attribution:
    """The cause, given that the leader of `elected` did not hold the committed offset `gone`."""

    def found(cause: Cause | None, why: str) -> Attribution:
        return Attribution(cause=cause, election=elected, why=why)

    leader = elected.leader
    if elected.road == "last-known-leader":
        where = f"ISR and ELR were empty and broker {leader} was the last known leader"
        elr = evidence.rules.elr_on(elected.after.metadata_offset)
        if elr is None:
            return found(None, f"{where}; whether ELR was on is not known")
        if elr:
            return found("last-known-leader", where)
    if elected.road in ("unclean", "last-known-leader"):
        return _unclean(evidence, elected, gone)
    losses = evidence.log_losses or ()
    lost_it = [loss for loss in losses if loss.broker == leader and lost_offset(evidence, loss, gone, elected)]
    joined = _joined_without_it(evidence, elected, gone, lost_it)
    if joined is not None:
        return _stale_join(evidence, elected, gone, joined)
    if not lost_it:
        if evidence.log_losses is None:
            return found(None, "steps.jsonl is missing, so whether a disk lost data is not known")
        return found(
            "unexplained",
            f"broker {leader} led from the {_road(elected)} without the record, and no disk of its lost data",
        )
    return _disks(evidence, elected, gone)


def _unclean(evidence: Evidence, elected: Elected, gone: Gone) -> Attribution:
    """An unclean election, where config or operator allowed it; else only what no replica had any more is excused."""
    where = f"broker {elected.leader} was elected from outside the ISR and the ELR"
    allowed = _allowed_uncleanly(evidence, elected)
    if allowed:
        return Attribution(cause="unclean-election", election=elected, why=where)
    if allowed is None:
        why = f"{where}; whether that was allowed is not known (unclean.leader.election.enable, steps)"
        return Attribution(cause=None, election=elected, why=why)
    losers = {loss.broker for loss in evidence.log_losses or () if _lost_data(evidence, loss, gone, elected)}
    why = f"{where}, though no config allowed it and no operator asked for it"
    return _none_kept_it(elected, losers) or Attribution(cause="unexplained", election=elected, why=why)


def _none_kept_it(elected: Elected, losers: set[int]) -> Attribution | None:
    """The cause where every replica lost its log; None: one did not."""
    replicas = elected.before.replicas
    if not replicas or not set(replicas) <= losers:
        return None
    why = f"every replica ({_list(replicas)}) lost its log"
    return Attribution(cause="beyond-tolerance", election=elected, why=why)


def _allowed_uncleanly(evidence: Evidence, elected: Elected) -> bool | None:
    """Whether the controller was to elect uncleanly when it wrote the record; None: the evidence lacks what says so."""
    after = elected.after
    by_config = evidence.rules.elects_uncleanly(after.topic, after.metadata_offset - 1, evidence.statics)
    if by_config or any(one.asks_for("unclean") and one.may_have_made(after) for one in evidence.asked or ()):
        return True
    return None if by_config is None or evidence.asked is None or evidence.timeline.gaps else False


def _disks(evidence: Evidence, elected: Elected, gone: Gone) -> Attribution:
    """The rules on what the disks lost: the leader's own is one of them."""

    def found(cause: Cause | None, why: str) -> Attribution:
        return Attribution(cause=cause, election=elected, why=why)

    before, leader = elected.before, elected.leader
    losses = [loss for loss in evidence.log_losses or () if _lost_data(evidence, loss, gone, elected)]
    losers = {loss.broker for loss in losses}
    if (none_kept_it := _none_kept_it(elected, losers)) is not None:
        return none_kept_it
    at = elected.after.metadata_offset
    elr = evidence.rules.elr_on(at)
    sole = elected.road == "isr" and set(before.isr) == {leader}
    if sole and elr is False:
        return found(
            "last-replica-standing",
            f"broker {leader} was the last member of the ISR, lost its unflushed log and led again; there was no ELR",
        )
    held = evidence.timeline.at_time(gone.topic, gone.partition, min(loss.fired_ns for loss in losses)) or before
    pool = losers & ({*held.isr, *held.elr} | {leader})
    min_isr = evidence.rules.min_isr(held, held.metadata_offset)
    # Held to KIP-966's promise, which every release with ELR keeps alike. A model without ELR tolerates nothing: asked,
    # it would excuse every loss, where all that it allows is the last replica's, above.
    if min_isr is not None and len(pool) > tolerated_losses(len(held.replicas), min_isr):
        return found(
            "beyond-tolerance",
            f"{len(pool)} members of ISR and ELR ({_list(sorted(pool))}) lost data; min ISR is {min_isr}",
        )
    if elr is None or min_isr is None:
        lacking = "whether ELR was on" if elr is None else "the effective min ISR"
        return found(None, f"{lacking} is not known")
    return found(
        "unexplained",
        f"broker {leader} led from the {_road(elected)} after its log was lost, though only {len(pool)} of ISR and ELR "
        f"lost data and min ISR is {min_isr}",
    )


def lost_offset(evidence: Evidence, loss: BrokerLogLoss, gone: Gone, elected: Elected) -> bool:
    """Whether `loss` took the offset from its broker, which had not got it back when `elected` came."""
    return loss.reaches(gone.topic, gone.partition, gone.offset) and _lost_data(evidence, loss, gone, elected)


def _lost_data(evidence: Evidence, loss: BrokerLogLoss, gone: Gone, elected: Elected) -> bool:
    """Whether `loss` took any record of the partition, after the acknowledgement and not made good by `elected`.

    Tolerance is counted in members that lost data, whatever they lost (KIP-966: unclean shutdowns). A broker that
    enters the ISR later has fetched up to the HW by then; one that never left has not.
    """
    if loss.done_ns < gone.since_ns or loss.fired_ns > elected.after.at_ns + MILLISECOND_NS:
        return False
    if not loss.costs(gone.topic, gone.partition):
        return False
    return not any(join.at_ns >= loss.done_ns for join in joins(evidence, loss.broker, elected))


def joins(evidence: Evidence, broker: int, elected: Elected) -> list[PartitionState]:
    """The states before `elected` with which `broker` entered the ISR otherwise than by being elected."""
    states = evidence.timeline.states(elected.after.topic, elected.after.partition)
    return [
        after
        for before, after in pairwise(states)
        if after.metadata_offset < elected.after.metadata_offset
        and broker in after.isr
        and broker not in before.isr
        and after.leader != broker
    ]


def _joined_without_it(
    evidence: Evidence, elected: Elected, gone: Gone, lost_it: list[BrokerLogLoss]
) -> PartitionState | None:
    """The join by which the leader stood in the ISR without the record, if no later loss of its log explains it."""
    if lost_it or elected.road == "elr":
        return None
    entered = [join for join in joins(evidence, elected.leader, elected) if join.at_ns >= gone.since_ns]
    return entered[-1] if entered else None


def _stale_join(evidence: Evidence, elected: Elected, gone: Gone, join: PartitionState) -> Attribution:
    """KIP-903: a broker that registered anew between an AlterPartition and its acceptance joined without its log."""
    where = f"broker {elected.leader} entered the ISR at metadata offset {join.metadata_offset} without the record"
    protected = evidence.rules.kip_903(join.metadata_offset)
    restarted = _registered_anew(evidence, elected, join)
    lost = _lost_before_joining(evidence, elected, gone, join)
    cause: Cause | None = "unexplained"
    if protected:
        why = f"{where}, though KIP-903 was in force"
    elif restarted is False:
        why = f"{where} and had not registered anew"
    elif lost is False:
        why = f"{where}, and no disk of its lost data since it was in the ISR before"
    elif protected is None or restarted is None or lost is None:
        cause = None
        lacking = "whether its disk had lost data" if lost is None else "whether it had registered anew"
        why = f"{where}; {'whether KIP-903 was in force' if protected is None else lacking} is not known"
    else:
        why = f"{where}, after it had lost its log and registered anew; its metadata.version is before KIP-903"
        cause = "stale-isr-join"
    broken = bool(protected and restarted)
    return Attribution(cause=cause, election=elected, why=why, breaks_kip_903=broken)


def _lost_before_joining(evidence: Evidence, elected: Elected, gone: Gone, join: PartitionState) -> bool | None:
    """Whether a disk took the offset from the leader, and no join before this one gave it back; None: no steps.jsonl.

    Without that its log has all that it ever fetched, and the HW waits for a member that is about to join, so a join
    by an old AlterPartition costs nothing. The record may have been acked after the loss by the clock: clients note
    answers late.
    """
    if evidence.log_losses is None:
        return None
    earlier = [
        one.at_ns for one in joins(evidence, elected.leader, elected) if one.metadata_offset < join.metadata_offset
    ]
    return any(
        loss.broker == elected.leader
        and loss.reaches(gone.topic, gone.partition, gone.offset)
        and loss.fired_ns <= join.at_ns + MILLISECOND_NS
        and not any(loss.done_ns <= at_ns for at_ns in earlier)
        for loss in evidence.log_losses
    )


def _registered_anew(evidence: Evidence, elected: Elected, join: PartitionState) -> bool | None:
    """Whether the leader got a new broker epoch between leaving the ISR (or the start) and this join."""
    if "brokers" in evidence.timeline.missing:
        return None
    leader = elected.leader
    states = [one for one in evidence.timeline.states(join.topic, join.partition) if one is not join]
    member = [one.metadata_offset for one in states if one.metadata_offset < join.metadata_offset and leader in one.isr]
    epochs = [
        event.metadata_offset
        for event in evidence.timeline.brokers
        if event.broker == leader and event.event == "registered" and event.metadata_offset < join.metadata_offset
    ]
    return any(offset > member[-1] for offset in epochs) if member else len(epochs) > 1


def _road(elected: Elected) -> str:
    return "ELR" if elected.road == "elr" else "ISR"


def _list(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


_NEW_EPOCH = 100


@cache
def tolerated_losses(replication_factor: int, min_isr: int, variant: str = NEWEST_VARIANT, *, elr: bool = True) -> int:
    """The most unclean shutdowns with loss after which no broker that lost its log leads; 0 to min ISR.

    `variant` is a key of `VARIANTS`; `elr`: whether the feature is on. The variant of the KIP's text is none to ask:
    it leaves an empty ISR and ELR to the unclean recovery.

    KIP-966 promises min ISR - 1. The number is not written down here: the model is asked. It begins at the moment at
    which tolerance is thinnest, the ISR shrunk to min ISR so that only its members must have every committed record,
    and takes away the logs of k of them in every order in which they can be fenced and come back.
    """
    protocol = VARIANTS[variant]
    effective = min(min_isr, replication_factor)
    for losses in range(1, effective + 1):
        if any(
            _a_loser_leads(protocol, replication_factor, effective, order, elr)
            for lost in combinations(range(effective), losses)
            for order in permutations(lost)
        ):
            return losses - 1
    return effective


def _a_loser_leads(protocol: Protocol, replication_factor: int, min_isr: int, lost: tuple[int, ...], elr: bool) -> bool:
    """Whether one of `lost` leads once all holders were fenced, those in the order given, and they alone return."""
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
