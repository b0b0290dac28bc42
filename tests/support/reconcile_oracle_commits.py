"""What the rules of lost commits in plain Python share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconcile_cases import Case, Expected, Unknown
from reconcile_oracle_tables import PlacedTables, Row
from records import RecordBuilder

from ebbtide.record.manifest import Manifest
from ebbtide.scenario.internal_topics import OFFSETS_TOPIC


def coordinated() -> RecordBuilder:
    """A run whose groups have one coordinator, and late in the run another."""
    return RecordBuilder().coordinated_by(1).coordinated_by(3, epoch=1, at_ns=50_000)


def beside_a_record(cases: Mapping[str, tuple[Case, Expected]]) -> dict[str, tuple[Case, Expected]]:
    """The cases, each on a partition that the final read covers."""

    def on_a_record(build: Case) -> Case:
        return lambda b: build(b.acked(1, at=0).final(1, at=0))

    return {name: (on_a_record(build), expected) for name, (build, expected) in cases.items()}


def committed() -> RecordBuilder:
    """A run in which nobody asked for what a group committed."""
    return RecordBuilder().acked(1, at=0).final(1, at=0).commit(1, 10)


UNKNOWN_COMMITS: Unknown = {
    "the metadata log lacks the topic": (
        lambda: committed().answer(None, None),
        "the metadata log has no __consumer_offsets-0",
    ),
    "nobody asked": (lambda: committed().coordinated_by(1), "no coordinator was asked"),
    "nobody asked for its HW": (
        lambda: committed().led_by(1, epoch=0, topic=OFFSETS_TOPIC).answer(None, None),
        "no leader was asked for its HW of __consumer_offsets",
    ),
    "not in the final read": (
        lambda: committed().coordinated_by(1).not_in_final_read().answer(None, None),
        "the final read does not cover t-0",
    ),
}
"""When neither kind is known."""


def registers(tables: PlacedTables, manifest: Manifest) -> Iterator[list[Row]]:
    """The rows of each group and partition that the final read covers."""
    for key in {_register(row) for row in tables["commits"]}:
        if f"{key[1]}-{key[2]}" in manifest.final_offsets:
            yield [row for row in tables["commits"] if _register(row) == key]


def _register(row: Row) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]


def writes(rows: list[Row]) -> list[Row]:
    """Commits, whatever became of them."""
    return [row for row in rows if row["status"] != "served" and row["commit"] is not None]


def is_acked(row: Row) -> bool:
    """Whether it is known when a commit was acked."""
    return row["status"] == "acked" and row["done_ns"] is not None


def counting_answers(rows: list[Row], tables: PlacedTables) -> list[Row]:
    """The answers of coordinators that led all the time."""
    answers = [row for row in rows if row["status"] == "served" and row["done_ns"] is not None]
    return [row for row in answers if _led_all_the_time(row, tables)]


def _led_all_the_time(answer: Row, tables: PlacedTables) -> bool:
    states = [
        row
        for row in tables["partitions"]
        if row["topic"] == OFFSETS_TOPIC and row["partition"] == answer["offsets_partition"]
    ]
    in_force = [row for row in states if row["at_ns"] <= answer["asked_ns"]]
    changes = [row for row in states if answer["asked_ns"] < row["at_ns"] <= answer["done_ns"]]
    return bool(in_force) and in_force[-1]["leader"] == answer["broker"] and not changes


def is_settled(answer: Row, tables: PlacedTables) -> bool:
    """Whether the leader of the epoch had answered two questions in turn for its HW before."""
    states = [
        row
        for row in tables["partitions"]
        if row["topic"] == OFFSETS_TOPIC
        and row["partition"] == answer["offsets_partition"]
        and row["at_ns"] <= answer["asked_ns"]
    ]
    marks = [
        row
        for row in tables["watermarks"]
        if row["topic"] == OFFSETS_TOPIC
        and row["partition"] == answer["offsets_partition"]
        and row["source"] == "list_offsets"
        and row["asked_ns"] is not None
        and row["leader_epoch"] == states[-1]["leader_epoch"]
    ]
    return any(
        one["at_ns"] < other["asked_ns"] and other["at_ns"] < answer["asked_ns"] for one in marks for other in marks
    )


def shows_older(answer: Row, than: Row, rows: list[Row]) -> bool:
    """Whether the answer shows nothing, or a commit that was surely applied before the other."""
    if answer["offset"] is None:
        return True
    shown = [row for row in writes(rows) if row["commit"] == answer["commit"]]
    return bool(shown) and all(_is_sent_once(row) and row["done_ns"] < than["asked_ns"] for row in shown)


def _is_sent_once(row: Row) -> bool:
    return is_acked(row) and row["done_ns"] - row["asked_ns"] < 50_000_000
