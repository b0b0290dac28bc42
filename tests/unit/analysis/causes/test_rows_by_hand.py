"""A history of each row of the table: its cause, its election, the verdict's sentence, and the story of `explain`."""

from __future__ import annotations

from dataclasses import dataclass

import causes_rows as row
import pytest
from causes_by_hand import ask, disk, rules

from analysis.causes.partition import EvidentPartition
from analysis.causes.table import NEEDS, TABLE, Condition
from analysis.causes.words import sentence, tell
from ebbtide.record.verdict import Cause

WROTE = "broker 1 appended it under leader epoch 0; "


@dataclass(frozen=True)
class Example:
    """A partition with what the judge says of its lost record: `road` is how the guilty one was elected."""

    cause: Cause
    partition: EvidentPartition
    guilty: int
    epoch: int
    road: str
    why: str
    acks_all: bool = True


EXAMPLES = (
    Example(
        "uncommitted-at-failover",
        row.uncommitted(),
        1,
        1,
        "broker 2 was elected from the ISR and never had the record",
        "nothing shows that the record was committed before",
        acks_all=False,
    ),
    Example(
        "unclean-recovery",
        row.recovered(),
        2,
        2,
        "broker 2 was elected by the unclean recovery that Ebbtide carried out and never had the record",
        "an unclean recovery elects the best log among the replies (KIP-966)",
    ),
    Example(
        "last-known-leader",
        row.last_known(),
        5,
        2,
        "broker 1 was elected as the last known leader and had lost the record with its disk",
        "at least min ISR disks lost the record, which is beyond the tolerance of KIP-966",
    ),
    Example(
        "unexplained",
        row.last_known(min_isr=3),
        5,
        2,
        "broker 1 was elected as the last known leader and had lost the record with its disk",
        "fewer than min ISR disks lost the record, which KIP-966 promises to survive",
    ),
    Example(
        "unclean-election",
        row.unclean(),
        2,
        2,
        "broker 2 was elected from outside the ISR and the ELR and never had the record",
        "a config allowed that, or an operator asked for it",
    ),
    Example(
        "stale-isr-join",
        row.stale_join(),
        3,
        1,
        "broker 2 was elected from the ISR and had entered the ISR by an old request, without the record",
        "its metadata.version is before KIP-903",
    ),
    Example(
        "beyond-tolerance",
        row.every_disk(1, 2, 3),
        2,
        2,
        "broker 1 was elected from the ISR and had lost the record with its disk",
        "the disk of every replica lost the record",
    ),
    Example(
        "last-replica-standing",
        row.last_replica(),
        3,
        2,
        "broker 1 was elected from the ISR and had lost the record with its disk",
        "it was the only member of the ISR, and there was no ELR",
    ),
)
CONTRADICTED = "lacked the record, as a measurement shows, although the protocol says that it must have it"
FORBIDDEN = "the protocol does not allow that"


def test_each_row_has_an_example() -> None:
    assert [one.cause for one in EXAMPLES] == [one.cause for one in TABLE]


@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: one.cause)
def test_a_row_has_its_cause_its_election_and_its_sentences(one: Example) -> None:
    found = ask(one.partition, acks_all=one.acks_all)
    assert (found.cause, found.guilty, found.holder) == (one.cause, one.guilty, 0)
    assert found.is_allowed == (one.cause != "unexplained")
    assert not found.may_be_kept
    assert sentence(one.partition, found) == f"{one.road}; {one.why}"
    assert tell(one.partition, found) == [f"{WROTE}{one.road} (leader epoch {one.epoch}); {one.cause}: {one.why}"]


@pytest.mark.parametrize(
    ("partition", "road"),
    [
        (row.uncommitted(), f"from the ISR and {CONTRADICTED}"),
        (row.recovered(requests=()), "from outside the ISR and the ELR and never had the record"),
        (row.unclean(rules=(rules(unclean=False),)), "from outside the ISR and the ELR and never had the record"),
        (row.stale_join(rules(kip_903=True)), f"from the ISR and {CONTRADICTED}"),
        (row.every_disk(1, 2), "from the ISR and had lost the record with its disk"),
        (row.last_replica(isr=(1, 2)), "from the ISR and had lost the record with its disk"),
        (row.last_replica(rules=(rules(elr=True),)), "from the ISR and had lost the record with its disk"),
    ],
)
def test_a_row_of_which_a_condition_is_not_met_allows_nothing(partition: EvidentPartition, road: str) -> None:
    found = ask(partition)
    assert (found.cause, found.why, found.is_allowed) == ("unexplained", "no history that fits allows it", False)
    assert sentence(partition, found).partition(" was elected ")[2] == f"{road}; {FORBIDDEN}"
    assert [one.rpartition("; ")[2] for one in tell(partition, found)] == [FORBIDDEN]


def test_a_disk_excuses_no_record_that_it_never_had() -> None:
    found = ask(partition := row.never_had())
    assert (found.cause, found.guilty, found.is_allowed) == ("unexplained", None, False)
    # The replica may have lacked it as the first leader after the append, too.
    elected = f"broker 3 was elected from the ISR and {CONTRADICTED}"
    assert sentence(partition, found) == f"{elected}; or some leader {CONTRADICTED}; {FORBIDDEN}"


@pytest.mark.parametrize(
    ("partition", "condition"),
    [
        (row.last_known(min_isr=None), "beyond the tolerance of KIP-966"),
        (row.last_known(rules=(rules(elr=None, min_isr=2),)), "beyond the tolerance of KIP-966"),
        (row.unclean(rules=(rules(unclean=None),)), "unclean election allowed"),
        (row.stale_join(rules(kip_903=None)), "broker epochs not compared"),
        (row.every_disk(1, 2, disks=(disk(1, 4, 6), disk(2, 4, 6), disk(3, 4))), "every replica's disk took it"),
        (row.last_replica(rules=(rules(elr=None),)), "no ELR"),
    ],
)
def test_a_row_of_which_a_condition_is_not_known_says_what_would_decide(
    partition: EvidentPartition, condition: Condition
) -> None:
    found = ask(partition)
    assert (found.cause, found.is_allowed) == (None, False)
    assert found.why == sentence(partition, found) == f"not known: {NEEDS[condition]}"
    assert [one.rpartition("; ")[2] for one in tell(partition, found)] == [f"not known: {NEEDS[condition]}"]
