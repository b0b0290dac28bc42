"""Says why the protocol let a broker lead that lacked a committed record.

The order of the rules is binding (docs/causes.md). Elections by name come first: an unclean
recovery that Ebbtide carried out, an unclean election, an election of the last known leader, and
the election of a broker whose way into the ISR KIP-903 would have refused. Then come the disk
losses: beyond-tolerance and last-replica-standing. If no rule applies, the cause is *unexplained*.
Cause None: the table or step that decides is missing.

How a leader was elected permits nothing by itself. Kafka elects uncleanly only in two cases:
- unclean.leader.election.enable is true, from 3.9 on (KAFKA-12670),
- an operator asks for it, whatever the release and the config.

Kafka elects the last known leader while the ELR feature is on, whatever the config.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import combinations, pairwise, permutations

from analysis.judge.history.evidence import Attribution, LostOffset
from analysis.judge.history.log_lines import truncations
from analysis.record.elections import ElectionEvent
from analysis.record.protocol import NEWEST_VARIANT
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from analysis.spec.partition import MV_ELR, NO_EPOCH, Cluster, Partition
from analysis.spec.protocol import Protocol
from analysis.spec.variants import VARIANTS
from ebbtide.record.log_losses import BrokerLogLoss
from ebbtide.record.rows import PartitionState
from ebbtide.record.verdict import Cause


def why_it_could_lead(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> Attribution:
    """Return why the protocol let `elected` lead without the lost offset.

    `lost_offset` is a committed offset that the elected broker does not have.
    """

    def attribution(cause: Cause | None, why: str) -> Attribution:
        return Attribution(cause=cause, election=elected, why=why)

    leader = elected.leader
    recovery = next((one for one in record.requests or () if one.has_recovered(elected.after)), None)
    if recovery is not None:
        by = f"the unclean recovery ({recovery.strategy}) that Ebbtide carried out"
        return attribution("unclean-recovery", f"broker {leader} was elected by {by} (KIP-966, Unclean recovery)")
    if elected.road == "last-known-leader":
        where = f"ISR and ELR were empty and broker {leader} was the last known leader"
        elr = record.protocol.is_elr_on(elected.after.metadata_offset)
        if elr is None:
            return attribution(None, f"{where}; whether ELR was on is not known")
        if elr:
            return attribution("last-known-leader", where)
    if elected.is_from_outside or elected.removes_isr:
        return _judge_unclean_election(record, elected, lost_offset)
    losses = record.log_losses or ()
    lost_it = [loss for loss in losses if loss.broker == leader and has_lost_offset(record, loss, lost_offset, elected)]
    joined = _join_without_record(record, elected, lost_offset, lost_it)
    if joined is not None:
        return _judge_stale_join(record, elected, lost_offset, joined)
    if elected.road == "reassignment" and leader not in elected.before.isr:
        # It entered the ISR with the very record that elected it.
        found = _judge_stale_join(record, elected, lost_offset, elected.after)
        if found.cause != "unexplained":
            return found
    if not lost_it:
        if record.log_losses is None:
            return attribution(None, record.why_disks_unknown)
        return attribution(
            "unexplained",
            f"broker {leader} led from the {_road_name(elected)} without the record, although its disk lost no data",
        )
    return _judge_disk_losses(record, elected, lost_offset)


def _judge_unclean_election(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> Attribution:
    """Judge an unclean election: a config or an operator must have allowed it.

    If neither did, it is excused only where every replica lost its log.
    """
    where = f"broker {elected.leader} was elected from outside the ISR and the ELR"
    allowed = _is_unclean_election_allowed(record, elected)
    if allowed:
        return Attribution(cause="unclean-election", election=elected, why=where)
    if allowed is None:
        why = f"{where}; whether that was allowed is not known (unclean.leader.election.enable, steps)"
        return Attribution(cause=None, election=elected, why=why)
    losers = {loss.broker for loss in record.log_losses or () if _has_lost_data(record, loss, lost_offset, elected)}
    why = f"{where}, though no config allowed it and no operator asked for it"
    return _cause_if_all_lost_it(elected, losers) or Attribution(cause="unexplained", election=elected, why=why)


def _cause_if_all_lost_it(elected: ElectionEvent, losers: set[int]) -> Attribution | None:
    """Return *beyond-tolerance* if every replica lost its log, else None."""
    replicas = elected.before.replicas
    if not replicas or not set(replicas) <= losers:
        return None
    why = f"every replica ({_comma_list(replicas)}) lost its log"
    return Attribution(cause="beyond-tolerance", election=elected, why=why)


def _is_unclean_election_allowed(record: Record, elected: ElectionEvent) -> bool | None:
    """Return whether a config or an operator allowed this unclean election.

    None: the evidence lacks what would say so.
    """
    after = elected.after
    by_config = record.protocol.elects_uncleanly(after.topic, after.metadata_offset - 1, record.statics)
    if by_config or any(one.asks_for("unclean") and one.may_have_made(after) for one in record.requests or ()):
        return True
    return None if by_config is None or record.requests is None or record.timeline.gaps else False


def _judge_disk_losses(record: Record, elected: ElectionEvent, lost_offset: LostOffset) -> Attribution:
    """Apply the rules on disk losses; the leader's own disk lost data."""

    def attribution(cause: Cause | None, why: str) -> Attribution:
        return Attribution(cause=cause, election=elected, why=why)

    before, leader = elected.before, elected.leader
    losses = [loss for loss in record.log_losses or () if _has_lost_data(record, loss, lost_offset, elected)]
    losers = {loss.broker for loss in losses}
    if (all_lost_it := _cause_if_all_lost_it(elected, losers)) is not None:
        return all_lost_it
    elr = record.protocol.is_elr_on(_registered_at(record, elected))
    sole = elected.road == "isr" and set(before.isr) == {leader}
    if sole and elr is False:
        return attribution(
            "last-replica-standing",
            f"broker {leader} was the last member of the ISR, lost its unflushed log and led again; there was no ELR",
        )
    first_ns = min(loss.fired_ns for loss in losses)
    held = record.timeline.state_at_time(lost_offset.topic, lost_offset.partition, first_ns) or before
    pool = losers & ({*held.isr, *held.elr} | {leader})
    configured = [one.metadata_offset for one in record.timeline.configs if one.at_ns <= first_ns]
    min_isr = record.protocol.min_isr(held, max([held.metadata_offset, *configured]))
    # KIP-966's promise decides, which every release with ELR keeps alike. The model without ELR
    # tolerates no loss at all, so it would excuse every loss. All that it allows is the last
    # replica's, above.
    if min_isr is not None and len(pool) > tolerated_losses(len(held.replicas), min_isr):
        return attribution(
            "beyond-tolerance",
            f"{len(pool)} members of ISR and ELR ({_comma_list(sorted(pool))}) lost data; min ISR is {min_isr}",
        )
    if elr is None or min_isr is None:
        lacking = "whether ELR was on" if elr is None else "the effective min ISR"
        return attribution(None, f"{lacking} is not known")
    return attribution(
        "unexplained",
        f"broker {leader} led from the {_road_name(elected)} after its log was lost, though only {len(pool)} of "
        f"ISR and ELR lost data and min ISR is {min_isr}",
    )


def _registered_at(record: Record, elected: ElectionEvent) -> int:
    """Return the metadata offset at which the leader had registered last, else that of its election.

    With the ELR on, a broker that registers after an unclean shutdown leaves the ISR by that.
    """
    offsets = [
        one.metadata_offset
        for one in record.timeline.brokers
        if one.broker == elected.leader and one.event == "registered"
    ]
    before = [offset for offset in offsets if offset < elected.after.metadata_offset]
    return before[-1] if before else elected.after.metadata_offset


def has_lost_offset(record: Record, loss: BrokerLogLoss, lost_offset: LostOffset, elected: ElectionEvent) -> bool:
    """Return whether `loss` took the offset and it was not refetched by then.

    "By then" is when `elected` came to lead.
    """
    return loss.can_reach(lost_offset.topic, lost_offset.partition, lost_offset.offset) and _has_lost_data(
        record, loss, lost_offset, elected
    )


def _has_lost_data(record: Record, loss: BrokerLogLoss, lost_offset: LostOffset, elected: ElectionEvent) -> bool:
    """Return whether `loss` took records of the partition that were not refetched.

    A loss counts after the acknowledgement and before `elected`. Tolerance counts the members that
    lost data, whatever they lost (KIP-966: unclean shutdowns). A broker that enters the ISR later
    has fetched up to the HW by then; a broker that never left the ISR has not.
    """
    if loss.done_ns < lost_offset.since_ns or loss.fired_ns > elected.after.at_ns + MILLISECOND_NS:
        return False
    if not loss.costs(lost_offset.topic, lost_offset.partition):
        return False
    return not any(join.at_ns >= loss.done_ns for join in isr_joins(record, loss.broker, elected))


def isr_joins(record: Record, broker: int, elected: ElectionEvent) -> list[PartitionState]:
    """Return the states before `elected` in which `broker` had newly entered the ISR.

    States that elected the broker itself do not count.
    """
    states = record.timeline.states(elected.after.topic, elected.after.partition)
    return [
        after
        for before, after in pairwise(states)
        if after.metadata_offset < elected.after.metadata_offset
        and broker in after.isr
        and broker not in before.isr
        and after.leader != broker
    ]


def _join_without_record(
    record: Record, elected: ElectionEvent, lost_offset: LostOffset, lost_it: list[BrokerLogLoss]
) -> PartitionState | None:
    """Return the state in which the leader entered the ISR without the record.

    None: a later loss of its log explains the absence, or it never entered.
    """
    if lost_it or elected.road == "elr":
        return None
    entered = [join for join in isr_joins(record, elected.leader, elected) if join.at_ns >= lost_offset.since_ns]
    return entered[-1] if entered else None


def _judge_stale_join(
    record: Record, elected: ElectionEvent, lost_offset: LostOffset, join: PartitionState
) -> Attribution:
    """Judge an ISR join by KIP-903.

    KIP-903 refuses a broker that registered anew between an AlterPartition request and its
    acceptance.
    """
    where = f"broker {elected.leader} entered the ISR at metadata offset {join.metadata_offset} without the record"
    protected = record.protocol.has_kip_903(join.metadata_offset)
    restarted = _has_registered_anew(record, elected, join)
    lost = _has_lost_before_joining(record, elected, lost_offset, join)
    cause: Cause | None = "unexplained"
    if protected:
        why = f"{where}, though KIP-903 was in force"
    elif restarted is False:
        why = f"{where} and had not registered anew"
    elif lost is False:
        why = f"{where}, although its disk lost no data since it was in the ISR before"
    elif protected is None or restarted is None or lost is None:
        cause = None
        lacking = "whether its disk had lost data" if lost is None else "whether it had registered anew"
        why = f"{where}; {'whether KIP-903 was in force' if protected is None else lacking} is not known"
    else:
        why = f"{where}, after it had lost its log and registered anew; its metadata.version is before KIP-903"
        cause = "stale-isr-join"
    broken = bool(protected and restarted)
    truncated_to = _truncated_after(record, elected, lost_offset, join) if cause == "unexplained" else None
    if truncated_to is not None:
        # It may have joined with the record, as KIP-903 wants.
        broken = False
        why = (
            f"broker {elected.leader} truncated its log to offset {truncated_to}, below a committed record, after it "
            f"had entered the ISR at metadata offset {join.metadata_offset}"
        )
    return Attribution(cause=cause, election=elected, why=why, breaks_kip_903=broken)


def _truncated_after(
    record: Record, elected: ElectionEvent, lost_offset: LostOffset, join: PartitionState
) -> int | None:
    """Return the offset at or below the record to which the leader truncated its log after it had joined.

    None: the broker's own log does not say so.
    """
    cuts = truncations(record, elected.leader, lost_offset.name)
    found = [
        to
        for at_ns, to in cuts
        if join.at_ns < at_ns <= elected.after.at_ns + MILLISECOND_NS and to <= lost_offset.offset
    ]
    return found[-1] if found else None


def _has_lost_before_joining(
    record: Record, elected: ElectionEvent, lost_offset: LostOffset, join: PartitionState
) -> bool | None:
    """Return whether a disk took the offset and no earlier ISR join gave it back.

    None: there is no steps.jsonl. Without a disk loss the broker's log has all that it ever
    fetched, and the HW waits for a member that is about to join, so a join by an old AlterPartition
    costs nothing. By the clock the record may have been acked after the loss: clients note answers
    late.
    """
    if record.log_losses is None:
        return None
    earlier = [
        one.at_ns for one in isr_joins(record, elected.leader, elected) if one.metadata_offset < join.metadata_offset
    ]
    return any(
        loss.broker == elected.leader
        and loss.can_reach(lost_offset.topic, lost_offset.partition, lost_offset.offset)
        and loss.fired_ns <= join.at_ns + MILLISECOND_NS
        and not any(loss.done_ns <= at_ns for at_ns in earlier)
        for loss in record.log_losses
    )


def _has_registered_anew(record: Record, elected: ElectionEvent, join: PartitionState) -> bool | None:
    """Return whether the leader registered anew between leaving the ISR and `join`.

    It did if it got a new broker epoch. A leader that never was in the ISR before counts from the
    start of the log.
    """
    if "brokers" in record.timeline.missing:
        return None
    leader = elected.leader
    states = [one for one in record.timeline.states(join.topic, join.partition) if one is not join]
    member = [one.metadata_offset for one in states if one.metadata_offset < join.metadata_offset and leader in one.isr]
    epochs = [
        event.metadata_offset
        for event in record.timeline.brokers
        if event.broker == leader and event.event == "registered" and event.metadata_offset < join.metadata_offset
    ]
    return any(offset > member[-1] for offset in epochs) if member else len(epochs) > 1


def _road_name(elected: ElectionEvent) -> str:
    return "ELR" if elected.road == "elr" else "ISR"


def _comma_list(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


_NEW_EPOCH = 100


@cache
def tolerated_losses(replication_factor: int, min_isr: int, variant: str = NEWEST_VARIANT, *, elr: bool = True) -> int:
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
