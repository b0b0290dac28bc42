"""Jumps of consumers."""

from __future__ import annotations

from reconcile_cases import Cases, Mutant, complete, no_final_read
from reconcile_oracle_run import is_final, is_in_final_read, may_see
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.judge.rules.reads import poll_skip as rule
from ebbtide.record.manifest import Manifest

KIND = "poll-skip"

CASES: Cases = {
    complete: {
        "a jump over a record is a skip": (
            lambda b: b.final(1, 2, 3).read(1, at=0, consumer=2).read(2, at=1, consumer=2).read(3, at=2, prev_offset=0),
            {"poll-skip": [(2, 3)]},
        ),
        "a jump over many records is one skip": (
            lambda b: b.final(*range(1, 201)).read(*range(1, 201), at=0).read(200, at=199, prev_offset=0, consumer=2),
            {"poll-skip": [(199, 200)]},
        ),
        "a jump over offsets that do not exist is none": (
            lambda b: b.final(1).final(2, at=70).read(2, at=70, prev_offset=0),
            {},
        ),
        "a jump is over what lies strictly between": (
            lambda b: b.final(1, 2, at=63).read(1, 2, at=63).read(2, at=64, prev_offset=63),
            {},
        ),
        "two equal jumps are two skips": (
            lambda b: (
                b.final(1, 2, 3)
                .read(1, 2, 3, at=0)
                .read(3, at=2, prev_offset=0, consumer=2)
                .read(3, at=2, prev_offset=0, consumer=3)
            ),
            {"poll-skip": [(2, 3), (2, 3)]},
        ),
        "a jump that ends at what was cut off since skips nothing": (
            lambda b: b.final(1, 2, 3).read(2, at=1).read(1, at=0, consumer=2).read(9, at=2, consumer=2, prev_offset=0),
            {"vanished": [(2, 9)], "inconsistent-offset": [(2, None)]},
        ),
        "a jump that ends at a value appended again under a later epoch skips nothing": (
            lambda b: (
                b.final(1).final(2, 3, at=1, leader_epoch=1).read(1, at=0).read(3, at=2, prev_offset=0, leader_epoch=0)
            ),
            {},
        ),
        "the first row of a session skips nothing": (lambda b: b.final(1, 2, 3).read(3, at=2), {}),
        "control records and aborted transactions leave holes": (
            lambda b: (
                b.acked(1, 2, at=0, txn=1, txn_outcome="aborted")
                .acked(3, at=3, txn=2, txn_outcome="committed")
                .final(1, 2)
                .final(3, at=3, prev_offset=1)
                .read(9, at=5, isolation="read_committed", consumer=2)
                .final(9, at=5, prev_offset=3)
                .send(9, at=5, txn=3, txn_outcome="committed")
                .read(3, at=3, isolation="read_committed")
                .read(9, at=5, isolation="read_committed", prev_offset=3)
            ),
            {},
        ),
    },
    no_final_read: {
        "without a final read nothing is skipped, unseen or out of order": (
            lambda b: b.acked(1, at=2).acked(2, at=1).read(1, at=2, prev_offset=0),
            {},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "offset - 1 > prev_offset", "offset - 2 > prev_offset"),
    (rule, "skipped > 0 AND", "skipped > 1 AND"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A row before which its session jumped over a record."""
    return [
        ("poll-skip", *place_of(poll), poll["offset"], poll["value"])
        for poll in tables["polls"]
        if poll["prev_offset"] is not None
        and is_in_final_read(poll, tables, manifest)
        and any(
            is_final(row, manifest)
            and poll["prev_offset"] < row["offset"] < poll["offset"]
            and may_see(poll, row, tables, manifest)
            for row in tables.polls_at(place_of(poll))
        )
    ]


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Jumps of a second consumer over two records each."""
    for number in range(n):
        b.read(3 * number + 2, at=3 * number + 2, consumer=2, prev_offset=3 * number, leader_epoch=0)
    return {"poll-skip": n}
