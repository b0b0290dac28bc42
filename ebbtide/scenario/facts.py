"""The coverage facts by name.

The table says what each fact counts, the clause it bears on, and when its 0 says nothing. Every name in `coverage` of
a verdict is one of these, and so is every name in a prediction's `exercised` and `never`. docs/coverage-facts.md
shows the table; `python -m tools.pages.catalogue` makes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ebbtide.scenario.steps.table import KINDS

BELOW = "below-min-isr"
HELD = "while-alter-partition-held"
RECOVERING = "while-recovering"

ACTION_CLAUSES: Mapping[str, str] = {
    "fence": "KIP-966, Controller behaviors 2",
    "controlled-shutdown": "KIP-966, Controller behaviors 2",
    "unregister": "KIP-966, Controller behaviors 2",
    "unfence": "KIP-966, Controller behaviors 3",
    "register": "KIP-966, Controller behaviors 4",
    "register-clean": "KIP-966, Detection of an unclean shutdown 3",
    "register-unclean": "KIP-966, Controller behaviors 4",
    "isr-expand": "KIP-966, Controller behaviors 1; KIP-903, Controller",
    "isr-shrink": "KIP-966, Controller behaviors 1",
    "isr-change": "KIP-966, Controller behaviors 1; KIP-903, Controller",
    "recovered": "KIP-704, KRaft Controller",
    "reassignment-completed": "KIP-966, Other behaviors 4",
    "preferred-election": "KIP-966, Leader election",
    "unclean-election": "KIP-704, KRaft Controller",
    "reassign": "KIP-966, Other behaviors 4",
    "cancel-reassignment": "KIP-966, Other behaviors 4b",
    "clear-elr": "KIP-966, Other behaviors 2",
    "elr-feature": "KIP-966, Compatibility: ELR",
    "assign-directory": "KIP-858",
    "directory-offline": "KIP-858",
    "create": "KIP-631",
}
"""The clause that each action stands on; where a release departs from it, docs/kips.md says how."""


class Fact(NamedTuple):
    """A coverage fact; its 0 means something once a fact of `needs` came about."""

    name: str
    counts: str
    clause: str = ""
    needs: tuple[str, ...] = ()


_REJECTIONS = (
    Fact(
        "alter-partitions-rejected",
        "requests that the controllers' own logs say were rejected; left out where the record lacks these",
        "KIP-903, Controller; KIP-704, AlterPartition RPC",
    ),
    *(
        Fact(f"alter-partitions-rejected-for-{reason}", f"of them, {counts}", clause, ("alter-partitions-rejected",))
        for reason, counts, clause in (
            ("broker-epoch", "those whose new ISR names an earlier broker epoch", "KIP-903, Controller"),
            (
                "fenced-replica",
                "those whose new ISR has a broker that is fenced, shutting down or not registered",
                "KIP-841",
            ),
            ("partition-epoch", "those of an earlier partition epoch", "KIP-497"),
            ("recovering", "those with an ISR of several while the leader recovers", "KIP-704, AlterPartition RPC"),
        )
    ),
)

_TIMELINE = (
    Fact(
        "elections", "elections by which a partition got another leader, or a leader again", "KIP-966, Leader election"
    ),
    Fact("elections-from-elr", "such elections of an ELR member", "KIP-966, Leader election"),
    Fact("elections-of-last-known-leader", "such elections of the last known leader", "KIP-966, Leader election 4"),
    Fact("unclean-elections", "such elections of anyone else outside ISR and ELR", "KIP-704, KRaft Controller"),
    Fact(
        "elections-of-a-fenced-broker",
        "elections of a broker that was fenced or not registered",
        "KAFKA-19522; KIP-966, Leader election 4",
    ),
    Fact(
        "elections-while-recovering",
        "elections while the partition was RECOVERING",
        "KIP-704, Topic Partition Leader 2",
        needs=("recovering",),
    ),
    Fact("leaderless", "times that a partition lost its leader and got no other", "KIP-966, Leader election 3"),
    Fact(
        "leaderless-with-a-live-replica",
        "states without a leader during which a replica was unfenced",
        "KAFKA-12670; KIP-966, Leader election 3",
    ),
    Fact("isr-shrinks", "records by which an ISR lost members", "KIP-966, Controller behaviors 1"),
    Fact("isr-left-again", "replicas that left an ISR which they had joined under that leader epoch", "KAFKA-19996"),
    Fact("isr-below-min", "times that an ISR fell below min ISR", "KIP-966, HW 1"),
    Fact("isr-empty", "times that an ISR became empty", "KIP-966, ISR invariants 1"),
    Fact("elr-non-empty", "times that an empty ELR got members", "KIP-966, ELR update 2"),
    Fact("elr-of-two", "times that an ELR grew to two members or more", "KIP-966, ELR update 2"),
    Fact("recovering", "times that a partition became RECOVERING", "KIP-704, KRaft Controller"),
    Fact(
        "leader-epoch-raised-by-an-isr-shrink",
        "ISR shrinks that raised the epoch of a leader that stayed",
        "KAFKA-15021",
        needs=("isr-shrinks",),
    ),
    Fact("voters-added", "controllers that a step made voters of a dynamic quorum", "KIP-853"),
    Fact("voters-removed", "voters of a dynamic quorum that a step made observers", "KIP-853"),
    Fact("controller-failovers", "controllers that wrote a partition's state after another one had", "KIP-595"),
    Fact("brokers-fenced", "records that fence a broker", "KIP-966, Controller behaviors 2"),
    Fact(
        "unclean-registrations",
        "registrations after a proven kill or power loss",
        "KIP-966, Controller behaviors 4",
    ),
    Fact(
        "clean-registrations",
        "registrations after a proven clean stop",
        "KIP-966, Detection of an unclean shutdown 3",
    ),
    Fact(
        "clean-registrations-still-eligible",
        "such registrations of brokers that were in an ISR or ELR, and that stayed in one of the two",
        "KIP-966, Controller behaviors 4",
        needs=("clean-registrations",),
    ),
    Fact(
        "clean-registrations-taken-as-unclean",
        "such registrations that removed the broker from ISR and ELR, or of brokers that found no clean-shutdown file",
        "KIP-966, Detection of an unclean shutdown 3",
        needs=("clean-registrations",),
    ),
    Fact(
        "clean-shutdown-files-found",
        "such registrations of brokers that found the file of a clean shutdown, as their logs say; left out where the "
        "record lacks these",
        "KIP-966, Detection of an unclean shutdown 1",
        needs=("clean-registrations",),
    ),
    *_REJECTIONS,
    Fact(
        "reassignments-completed", "reassignments that ended with their target replicas", "KIP-966, Other behaviors 4a"
    ),
    Fact(
        "reassignments-completed-below-min-isr",
        "completed ones with an ISR below min ISR",
        "KAFKA-15665; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "reassignments-completed-without-a-replica",
        "completed ones with a target replica outside the ISR",
        "KAFKA-19975; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "reassignments-held-back",
        "reassignments that waited although every replica that they add was in the ISR",
        "KAFKA-15665, KAFKA-19975; KIP-966, Other behaviors 4a",
    ),
    Fact(
        "reassignments-cancelled-below-min-isr",
        "reassignments that were cancelled with an ISR below min ISR",
        "KIP-966, Other behaviors 4b",
    ),
)

_STEPS = (
    *(Fact(one.counted[0], f"{one.counted[1]}, with proof") for one in KINDS.values() if one.counted is not None),
    Fact("upgrades", "nodes that a step stopped and started on another release, with proof"),
    Fact("upgrades-refused", "nodes that refused to run on another release, as the step expected"),
    Fact("transitions-of-mixed-releases", "partition records that came while nodes ran different releases"),
    Fact("lost-bytes", "bytes that were lost in power losses"),
    Fact("partitions-cut", "network partitions, with proof"),
    Fact("one-way-cuts", "network partitions that left each pair one direction"),
    Fact("links-limited", "bandwidth limits, with proof"),
    Fact("requests-duplicated", "requests that were answered twice"),
    Fact(
        "diverging-answers-of-an-earlier-epoch",
        "held Fetch answers that make a follower truncate, and that arrived under a later epoch of the same leader "
        "while the follower was in the ISR and the HW was where the Fetch had asked from",
        "KAFKA-18991",
    ),
    Fact("partitions-added", "partitions that steps added to topics, with proof"),
    Fact("deleted-records", "offsets by which steps moved log starts (DeleteRecords), as the leader said"),
    Fact(
        "deleted-records-that-came-back",
        "such offsets that the final log has again",
        needs=("deleted-records",),
    ),
    Fact("expired-records", "offsets below final log starts that no step moved: retention deleted these records"),
    Fact("topics-recreated", "topics that a step made under the name of one that a step had deleted, with proof"),
    Fact(
        "records-of-deleted-topics-read",
        "records of a deleted topic that the final read returned from the topic that has its name now",
        needs=("topics-recreated",),
    ),
    Fact(
        "replicas-of-deleted-topics-made",
        "replicas that brokers made of a topic after it was deleted, as their logs say",
        "KAFKA-19383",
        needs=("topics-recreated",),
    ),
    Fact("requests-refused", "administrative steps that met the error which they expected"),
    Fact(
        "faults-while-recovering",
        "faults that fell on a RECOVERING partition",
        "KIP-704, Topic Partition Leader",
        needs=("recovering",),
    ),
)

_CLIENTS = (
    Fact("acked-with-acks-0", "records handed over with acks=0", "KIP-966, HW 5"),
    Fact("acks-0-gone", "of them, those that the final read does not have", "KIP-966, HW 5"),
    Fact("acked-with-acks-1", "records acked with acks=1", "KIP-966, HW 5"),
    Fact("acked-with-acks-all", "records acked with acks=all", "KIP-966, Motivation"),
    Fact(
        "acked-idempotent",
        "records acked to idempotent producers that are not transactional",
        "KIP-98, idempotent producer",
    ),
    Fact("acked-by-librdkafka", "records acked to producers that use librdkafka", "KIP-966, HW 5"),
    Fact("acked-by-java", "records acked to producers that use Kafka's own Java client", "KIP-966, HW 5"),
    Fact("transactions-committed", "transactions that ended committed", "KIP-98"),
    Fact("transactions-aborted", "transactions that ended aborted", "KIP-98, read_committed"),
    Fact("transactions-unknown", "transactions of which the producer never heard how they ended", "KIP-98"),
    Fact(
        "transactions-torn", "committed transactions of which some acked records are lost, and some are not", "KIP-98"
    ),
    Fact("transactions-lost-whole", "committed transactions of which all acked records are lost", "KIP-98"),
    Fact(
        "markers-with-a-later-epoch",
        "committed transactions whose marker in a replica's log has a later producer epoch than their records, as with "
        "transaction.version 2; left out where the record lacks the logs",
        "KIP-890, part 2",
        ("transactions-committed",),
    ),
    Fact(
        "markers-with-the-same-epoch",
        "committed transactions whose marker has the producer epoch of their records, as before transaction.version 2; "
        "left out where the record lacks the logs",
        "KIP-98",
        ("transactions-committed",),
    ),
    Fact(
        "hanging-transactions",
        "partitions whose last stable offset stayed below the HW after every transaction had ended",
        "KIP-890",
    ),
    Fact("copies-sent", "records that copiers sent, each a copy of a record that they read", "KIP-98"),
    Fact(
        "inputs-copied-twice",
        "records of which a group's copiers committed two copies or more",
        "KIP-98",
        ("copies-sent",),
    ),
    Fact(
        "inputs-skipped",
        "records below the committed offset of a copiers' group of which it committed no copy",
        "KIP-98",
        ("copies-sent",),
    ),
    Fact("producers-fenced", "producers that Kafka refused for a newer incarnation", "KIP-98"),
    Fact("producers-replaced", "producers that a new incarnation took over from", "KIP-98"),
    Fact("group-rebalances", "assignments to group members after their first"),
    Fact(
        "consumers-read-past-an-election",
        "consumers that returned records before an election of the partition, and then some that were written after it",
    ),
    Fact("truncations-detected", "times that a consumer found its position cut off", "KIP-320"),
    Fact("offsets-out-of-range", "times that a consumer asked for an offset that is not there"),
    Fact("offsets-reset", "resets that followed either"),
    Fact("offsets-reset-to-earlier", "such resets to an earlier offset"),
    Fact("offsets-reset-to-later", "such resets to a later offset"),
    Fact(
        "records-read-then-gone",
        "records that a consumer had read and that were missing later (`vanished`)",
        "KAFKA-15583",
    ),
    Fact(
        "described-answers",
        "answers of brokers that were held against the metadata log",
        "KIP-966, Other behaviors 5",
    ),
    Fact("described-elr", "such answers that named an ELR", "KIP-966, Other behaviors 5"),
    Fact("described-last-known-elr", "such answers that named a last known ELR", "KIP-966, Other behaviors 5"),
    Fact(
        "described-as-in-force",
        "such answers that said what was in force when they were asked for",
        "KIP-966, Other behaviors 5",
    ),
)


def _of_stretches(suffix: str, clause: str) -> tuple[Fact, ...]:
    """Return the facts about what clients saw within stretches of one kind.

    Without such a stretch, clients can see nothing in it.
    """
    observed = f"hw-observed-{suffix}"
    sends = [
        Fact(f"{word}-{suffix}-acks-{acks}", counts.format(acks), clause, needs=(f"{other}-{suffix}-acks-{acks}",))
        for acks in ("0", "1", "all")
        for word, other, counts in (
            ("acked", "not-acked", "records sent with acks={} and acked within such a stretch"),
            ("not-acked", "acked", "records sent with acks={} within such a stretch, and not acked in it"),
        )
    ]
    return (
        *sends,
        Fact(observed, "such stretches in which the leader's HW was seen twice or more", clause),
        Fact(
            f"hw-frozen-{suffix}",
            "stretches so observed in which the leader took records with acks=1 and served one HW",
            clause,
            (observed,),
        ),
        Fact(f"hw-advanced-{suffix}", "stretches so observed in which the HW moved", clause, (observed,)),
        Fact(
            f"read-{suffix}",
            "rows that consumers got in stretches so observed, at or above the HW seen first",
            clause,
            (observed,),
        ),
    )


_ACTIONS = (
    Fact("transitions-explained", "records in the metadata log that the model explains"),
    *(
        Fact(f"action-{name}", "such records that this action explains", clause)
        for name, clause in ACTION_CLAUSES.items()
    ),
)

GROUPS: Mapping[str, tuple[Fact, ...]] = {
    "In the metadata log": _TIMELINE,
    "What was done": _STEPS,
    "What clients did and saw": _CLIENTS,
    "Below min ISR, while the leader surely knew of it (as for `hw-frozen-below-min-isr`)": _of_stretches(
        BELOW, "KIP-966, HW 1 and 5"
    ),
    "While a leader's AlterPartition was held, from the last cut in that time on": _of_stretches(HELD, "KIP-966, HW 3"),
    "While a partition was RECOVERING and its leader surely knew of it": _of_stretches(
        RECOVERING, "KIP-704, Topic Partition Leader 3"
    ),
    "Transitions; left out where the model could check none": _ACTIONS,
}
"""All facts, by what they are about."""

FACTS: Mapping[str, Fact] = {fact.name: fact for group in GROUPS.values() for fact in group}


def missing_needs(name: str, facts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the needed facts that never came about; empty if the 0 says something.

    Without a needed fact, the fact's 0 says nothing.
    """
    needs = FACTS[name].needs if name in FACTS else ()
    return () if any(facts.get(one) for one in needs) else needs
