"""What is missing makes unknown what depends on it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
import pytest
from reconcile_cases import Case
from reconcile_together import record_of
from records import RecordBuilder

from analysis.judge.rules.registry import ANOMALIES
from analysis.reconcile.model import Reconciliation
from analysis.record.record import Record
from analysis.rows.deletions import Deletion
from analysis.rows.facts import (
    CheckpointFacts,
    CopyFacts,
    Facts,
    Peak,
    PollFacts,
    SendFacts,
    ServedFacts,
)
from ebbtide.record.manifest import FinalOffsets
from ebbtide.record.tables import TABLES

BY_VALUE = {"inconsistent-offset", "duplicate", "aborted-read"}
OF_POLLS = {"unseen", "poll-skip", "poll-back", "damaged"}
OF_PLACES = {"lost", "dirty-order", "inconsistent-offset", "duplicate"}
FULL = FinalOffsets(log_start=0, high_watermark=1)
OF_FINAL_READ = {"lost", "vanished", "unseen", "poll-skip", "dirty-order"}
OF_COPIES = {"copied-twice", "input-skipped"}
KINDS = BY_VALUE | OF_POLLS | OF_PLACES | OF_FINAL_READ | OF_COPIES | {"hw-regression", "replica-divergence"}
"""The kinds of these tests. Others say with their cases when they are unknown."""


def facts(**changes: object) -> Facts:
    """Facts of a record in which everything can be judged, but for the changes."""
    whole: dict[str, object] = {
        "rows": dict.fromkeys(TABLES, 1),
        "missing": frozenset(),
        "sends": [SendFacts("t", 0, "acked", 1, 1)],
        "polls": [PollFacts("t", 0, True, 1, 0, 0, False)],
        "served": [ServedFacts("t", 0, "list_offsets", 0, [Peak(1, 1)], 1, 1)],
        "checkpoints": [CheckpointFacts("t", 0, 1, 1)],
        "epochs": [],
        "final_consumer": 9999,
        "final_offsets": {"t-0": FinalOffsets(log_start=0, high_watermark=1)},
        "complete": True,
        "idempotent": (),
        "transactional": False,
    }
    return Facts(**(whole | changes))  # type: ignore[arg-type]


def unknown_kinds(changed: Facts) -> dict[str, str]:
    asked = [(kind.name, kind.why_unknown(changed)) for kind in ANOMALIES if kind.name in KINDS and kind.why_unknown]
    return {name: why for name, why in asked if why is not None}


def facts_after_move(log_start: int, *, first_acked: int, status: str = "acked") -> Facts:
    """Facts of a log that begins at `log_start` in the end, and was acked at `first_acked` first."""
    ends = FinalOffsets(log_start=log_start, high_watermark=log_start + 1)
    sent = SendFacts("t", 0, status, 2, 2, first_offset=first_acked)
    return facts(sends=[sent], final_offsets={"t-0": ends})


def facts_after_deletion(log_start: int) -> Facts:
    """Facts of a partition whose log start a step moved to 5, and which begins at `log_start` in the end."""
    deletion = Deletion(
        topic="t", partition=0, log_start=5, answered_ns=9, began_ns=1, ended_ns=None, is_first_epoch=True
    )
    return facts(deletions=(deletion,), final_offsets={"t-0": FinalOffsets(log_start=log_start, high_watermark=9)})


def rows(**changes: int) -> dict[str, int]:
    return dict.fromkeys(TABLES, 1) | changes


def test_a_whole_record_leaves_nothing_unknown() -> None:
    assert unknown_kinds(facts()) == {}


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        (facts(rows=rows(sends=0)), {"lost", "dirty-order"} | BY_VALUE),
        (
            facts(rows=rows(polls=0), missing=frozenset({"polls"})),
            {"lost", "vanished", "dirty-order"} | BY_VALUE | OF_POLLS,
        ),
        (facts(rows=rows(watermarks=0), served=[], checkpoints=[]), {"hw-regression", "replica-divergence"}),
        (facts(rows=rows(replicas=0)), {"replica-divergence"}),
        (facts(rows=rows(partitions=0, brokers=0, configs=0)), set()),
        (facts(final_consumer=None), OF_FINAL_READ),
        (facts(complete=False), {"lost", "vanished", "unseen", "poll-skip"}),
        (
            facts(complete=False, copies=[CopyFacts("t", 0, "copiers", "t", 1)]),
            {"lost", "vanished", "unseen", "poll-skip"} | OF_COPIES,
        ),
        (facts(compacted=["t"]), {"lost", "vanished"}),
        (
            facts(polls=[PollFacts("t", 0, final, 2, 0, 0, False) for final in (True, False)]),
            {"poll-skip", "poll-back"},
        ),
        (facts(final_offsets={}), OF_FINAL_READ),
        (facts(final_offsets={"t-0": FULL, "t-1": FULL}), OF_FINAL_READ),
        (facts(final_consumer=1, polls=[PollFacts("t", 0, False, 1, 0, 0, False)]), OF_FINAL_READ),
        (facts(final_offsets={"t-0": FULL, "t-1": FinalOffsets(log_start=7, high_watermark=7)}), set()),
        (facts_after_move(1, first_acked=0), {"lost"}),
        (facts_after_move(1, first_acked=1), set()),
        (facts_after_move(1, first_acked=0, status="failed"), set()),
        (facts_after_deletion(5), set()),
        (facts_after_deletion(4), {"unseen", "poll-skip"}),
        (facts(clock_went_back=True), {"hw-regression"}),
        (facts(sends=[SendFacts("t", 0, "acked", 3, 1, unplaced=2)]), OF_PLACES),
        (facts(sends=[SendFacts("t", 0, "acked", 3, 1), SendFacts("t", 0, "unknown", 3, 0, unplaced=3)]), set()),
        (facts(checkpoints=[]), {"replica-divergence"}),
        (facts(served=[ServedFacts("t", 0, "fetch", 0, [Peak(1, 1)], 1, 1)]), {"hw-regression"}),
        (facts(served=[ServedFacts("t", 0, "list_offsets", None, [Peak(1, 1)], 1, 1)]), {"hw-regression"}),
        (facts(served=[ServedFacts("t", 0, "list_offsets", 0, [Peak(1, 1)], 1, 0)]), {"hw-regression"}),
    ],
)
def test_what_is_missing_makes_unknown_what_depends_on_it(changed: Facts, kinds: set[str]) -> None:
    assert unknown_kinds(changed).keys() == kinds


def test_what_was_acked_below_the_final_log_start_is_not_known_to_be_safe() -> None:
    assert unknown_kinds(facts_after_move(7, first_acked=0))["lost"] == (
        "what was acked below the final log start is not known to have been there: t-0"
    )


def test_an_empty_polls_table_is_a_final_read_of_nothing_if_the_final_offsets_say_so() -> None:
    without = facts(rows=rows(polls=0), polls=[], final_offsets={"t-0": FinalOffsets(log_start=5, high_watermark=5)})
    assert unknown_kinds(without) == {}
    assert "is not" in unknown_kinds(facts(rows=rows(polls=0), polls=[]))["lost"]
    for change in ({"missing": frozenset({"polls"})}, {"final_offsets": {}}, {"final_consumer": None}):
        assert unknown_kinds(msgspec.structs.replace(without, **change)).keys() >= OF_POLLS


REST: dict[str, tuple[Case, set[str]]] = {
    "no tables": (lambda b: b, set()),
    "empty tables": (lambda b: b.empty(*TABLES), set()),
    "all lost": (lambda b: b.acked(1, at=0).empty("polls").end(high_watermark=0), {"lost"}),
    "polls cut off": (lambda b: b.acked(1, at=0).empty("polls").end(), set()),
    "final read gone": (lambda b: b.acked(1, 2, at=0).read(1, 2, at=0).end(high_watermark=2), set()),
    "gone of one partition": (
        lambda b: b.acked(1, at=0).read(1, at=0).acked(2, at=0, partition=1).final(2, partition=1).end(),
        set(),
    ),
    "no offset": (lambda b: b.send(1, acks=-1).send(2, acks=0).acked(3, at=1).final(4, at=5), {"lost"}),
    "no sends": (lambda b: b.read(1, at=0), {"vanished"}),
    "partition not read": (lambda b: b.acked(1, at=0).final(2, at=1).not_in_final_read(), set()),
}
"""What the record has, and the kinds that are found in it."""

OWN_TOPICS: dict[str, set[str]] = {"__consumer_offsets": set(), "u": {"lost", "vanished"}}
"""A compacted topic, and the kinds that are unknown then."""

CLEANUP = {"metadata_offset": 1, "at_ns": 1, "resource": "cluster", "name": "log.cleanup.policy", "value": "compact"}


def built(build: Case) -> RecordBuilder:
    builder = RecordBuilder()
    build(builder)
    return builder


def begins_above() -> RecordBuilder:
    """The final log of t begins above what was acked; that of u does not."""
    builder = RecordBuilder().acked(*range(7), at=0).final(5, 6, at=5).end(log_start=5, high_watermark=7)
    builder.on("u", base=100).acked(5, 6, at=5).send(1, at=1, status="failed").final(5, 6, at=5)
    return builder.end(log_start=5, high_watermark=7)


def compacted(topic: str) -> RecordBuilder:
    return RecordBuilder().acked(1, 2, at=0).read(1, 2, at=0).final(1, 2, at=0).compacted(topic)


def lacking() -> RecordBuilder:
    return RecordBuilder().acked(1, 2, at=0).read(1, at=0).final(2, at=1)


def compacted_by_default() -> RecordBuilder:
    builder = lacking()
    builder.tables["configs"] = [CLEANUP]
    return builder


RECORDS = {
    **{name: record_of(partial(built, build)) for name, (build, _) in REST.items()},
    **{topic: record_of(partial(compacted, topic)) for topic in OWN_TOPICS},
    "begins above": record_of(begins_above),
    "compacted by the log": record_of(compacted_by_default),
    "compacted by the scenario": record_of(lacking, '[cluster.broker_properties]\n"log.cleanup.policy" = "compact"\n'),
}


@pytest.mark.spark
@pytest.mark.parametrize("name", REST)
def test_the_rest_is_judged(found: Mapping[str, Reconciliation], made: Mapping[str, Record], name: str) -> None:
    _, kinds = REST[name]
    assert {one.kind for one in found[name].anomalies} == kinds
    assert (made[name].folder / "anomalies").is_dir()


@pytest.mark.spark
def test_the_lowest_offset_that_was_acked_tells_whether_the_final_log_begins_above_it(
    found: Mapping[str, Reconciliation],
) -> None:
    assert found["begins above"].anomalies == []
    assert found["begins above"].unknown["lost"].endswith("is not known to have been there: t-0")


@pytest.mark.spark
@pytest.mark.parametrize("topic", OWN_TOPICS)
def test_that_kafka_compacts_its_own_topics_leaves_nothing_unknown(
    found: Mapping[str, Reconciliation], topic: str
) -> None:
    assert found[topic].unknown.keys() & {"lost", "vanished"} == OWN_TOPICS[topic]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["compacted by the log", "compacted by the scenario"])
def test_what_a_topic_lacks_that_brokers_compact_is_not_lost(found: Mapping[str, Reconciliation], name: str) -> None:
    assert found[name].anomalies == []
    assert "compacted" in found[name].unknown["lost"]
    assert "compacted" in found[name].unknown["vanished"]
