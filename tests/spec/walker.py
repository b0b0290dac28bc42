"""Random walks over the controller's events, and what must hold after each step."""

from __future__ import annotations

from random import Random

from analysis.spec import (
    AlterPartition,
    Cluster,
    Election,
    LogInfo,
    Outcome,
    Partition,
    Protocol,
    UncleanElection,
    cluster_for,
)
from analysis.spec.invariants import invariants_of
from analysis.spec.variants import IN_NO_RELEASE

BROKERS = (0, 1, 2, 3, 4)
HEALTHY = cluster_for("4.4.0", {}, BROKERS)

MOVES: tuple[str, ...] = (
    *("fence", "unfence", "register", "alter") * 4,
    *("shutdown", "elect", "reassign", "cancel", "min_isr", "dir_offline", "dir_assign") * 2,
    *("unregister", "balance", "sweep", "unclean", "recover", "designate"),
)
FEATURE_MOVE = "feature"


def start(protocol: Protocol, random: Random) -> tuple[Partition, Cluster]:
    """A healthy partition of 3 replicas on 5 brokers, with the ELR on where there is one."""
    cluster = HEALTHY._replace(min_isr=random.choice((1, 2, 2, 3, 4)))
    metadata_version = 33 if protocol.has_elr else random.choice((7, 11, 14))
    replicas = tuple(random.sample(BROKERS, 3))
    partition = Partition(replicas=replicas, isr=frozenset(replicas), leader=replicas[0])
    manager = protocol.name not in IN_NO_RELEASE or random.random() < 0.7
    return partition, cluster._replace(
        elr=protocol.has_elr, metadata_version=metadata_version, recovery_manager=manager
    )


def step(protocol: Protocol, partition: Partition, cluster: Cluster, move: str, random: Random) -> tuple[str, Outcome]:
    """One event of the kind `move`, with arguments from `random`; what was done, and its outcome."""
    broker = random.choice(BROKERS)
    match move:
        case "fence":
            return f"fence {broker}", protocol.fence(partition, cluster, broker)
        case "unfence":
            return f"unfence {broker}", protocol.unfence(partition, cluster, broker)
        case "register":
            epoch, stored = max(cluster.epochs) + 1, cluster.epoch(broker)
            previous = random.choice((-1, stored))
            done = protocol.register(partition, cluster, broker, epoch=epoch, previous_epoch=previous)
            # Kafka 4.0 elects the last known leader at once, fenced and unclean as it is (KAFKA-19522).
            if protocol.has_elr and cluster.elr and previous != stored and protocol.name != "elr_40":
                assert broker not in done.partition.isr | done.partition.elr, (
                    f"{broker} is in the ISR or ELR after an unclean shutdown: {done.partition}"
                )
            return f"register {broker}, previous epoch {previous}", done
        case "shutdown":
            return f"shutdown {broker}", protocol.controlled_shutdown(partition, cluster, broker)
        case "unregister":
            return f"unregister {broker}", protocol.unregister(partition, cluster, broker)
        case "dir_offline":
            return f"dir_offline {broker}", protocol.directory_offline(partition, cluster, broker)
        case "dir_assign":
            return f"dir_assign {broker}", protocol.assign_directory(partition, cluster, broker)
        case "alter":
            request = _request(partition, cluster, random)
            return f"{request}", protocol.alter_partition(partition, cluster, request)
        case "elect":
            election = random.choice((Election.PREFERRED, Election.UNCLEAN))
            return f"elect {election.name}", protocol.elect(partition, cluster, election)
        case "reassign":
            target = tuple(random.sample(BROKERS, random.choice((2, 3, 3, 4))))
            return f"reassign {target}", protocol.reassign(partition, cluster, target)
        case "min_isr":
            value, topic = random.choice((1, 2, 3, 4)), random.random() < 0.5
            return f"min_isr {value} {topic}", protocol.set_min_isr(partition, cluster, value, topic=topic)
        case "unclean":
            choice = random.choice(tuple(UncleanElection))
            return f"unclean {choice.name}", protocol.set_unclean(partition, cluster, choice)
        case "recover":
            replies = tuple(
                LogInfo(
                    at,
                    cluster.epoch(at) - (random.random() < 0.1),
                    random.randrange(3),
                    random.randrange(9),
                    partition.leader_epoch - (random.random() < 0.1),
                )
                for at in BROKERS
                if random.random() < 0.8
            )
            return "recover", protocol.recover(partition, cluster, replies)
        case "designate":
            return f"designate {broker}", protocol.designate(partition, cluster, broker)
        case "feature":
            level = random.random() < 0.5
            return f"feature {level}", protocol.set_elr_feature(partition, cluster, level)
        case "cancel":
            return "cancel", protocol.cancel_reassignment(partition, cluster)
        case "balance":
            return "balance", protocol.balance(partition, cluster)
        case "sweep":
            return "sweep", protocol.sweep(partition, cluster)
    raise AssertionError(move)


def _request(partition: Partition, cluster: Cluster, random: Random) -> AlterPartition:
    """A leader's request: mostly its own, of live replicas and up to date, so that ISRs do grow back."""
    if random.random() < 0.1:
        isr = random.sample(BROKERS, 2)
    else:
        may = [at for at in partition.replicas if at in cluster.active and at != partition.leader]
        isr = [max(partition.leader, 0), *random.sample(may, random.randint(0, len(may)))]
    return AlterPartition(
        leader=partition.leader if partition.leader >= 0 else random.choice(BROKERS),
        leader_epoch=partition.leader_epoch - (random.random() < 0.05),
        partition_epoch=partition.partition_epoch - (random.random() < 0.05),
        isr_epochs=tuple((at, random.choice((-1, cluster.epoch(at)))) for at in dict.fromkeys(isr)),
    )


def check(protocol: Protocol, before: Partition, did: str, outcome: Outcome, *, features_changed: bool = False) -> None:
    """What an event must leave behind: the variant's invariants, and epochs that say what changed."""
    after = outcome.partition
    for invariant in invariants_of(protocol.name):
        assert invariant.holds(after, outcome.cluster) or (features_changed and not invariant.across_features), (
            f"{protocol.name}: {did} broke {invariant.name} ({invariant.source}): {before} -> {after}, "
            f"{outcome.cluster}"
        )
    if protocol.name in IN_NO_RELEASE and (before.adding | before.removing) and not (after.adding | after.removing):
        least = min(outcome.cluster.min_isr, len(after.replicas))
        assert len(after.isr) >= least, f"{did} ended a reassignment below min ISR {least}: {after}"
    grown = after.partition_epoch - before.partition_epoch
    assert grown in (0, 1), (did, before, after)
    assert after == before or grown == 1, (did, before, after)
    assert after.leader == before.leader or after.leader_epoch == before.leader_epoch + 1, (did, before, after)
    assert 0 <= after.leader_epoch - before.leader_epoch <= grown, (did, before, after)
    if outcome.error not in ("NONE", "NEW_LEADER_ELECTED"):
        assert after == before, (did, outcome)
    if after.leader != before.leader and after.leader >= 0:
        # A cancelled reassignment puts the first replica in an empty ISR and then elects it "cleanly".
        clean = after.leader in before.isr | before.elr or did.startswith(("AlterPartition", "cancel"))
        assert clean or after.recovering, f"{did} elected {after.leader} uncleanly in silence: {before} -> {after}"
        assert after.leader in outcome.cluster.live or protocol.name == "elr_40", (did, before, outcome)


def walk(protocol: Protocol, seed: int, steps: int, *, features: bool = False) -> tuple[Partition, Cluster]:
    """One random walk of `steps` events from a healthy partition; where it ends."""
    random = Random(seed)
    partition, cluster = start(protocol, random)
    moves = (*MOVES, FEATURE_MOVE, FEATURE_MOVE) if features else MOVES
    for _ in range(steps):
        did, outcome = step(protocol, partition, cluster, random.choice(moves), random)
        check(protocol, partition, did, outcome, features_changed=features)
        partition, cluster = outcome.partition, outcome.cluster
    return partition, cluster
