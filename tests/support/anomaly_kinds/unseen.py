"""Records that a session passed over."""

from __future__ import annotations

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete, transactional
from reconcile_oracle_run import is_final, is_in_final_read, may_see
from reconcile_oracle_tables import Item, PlacedTables, place_of
from records import RecordBuilder

from analysis.judge.rules.reads import unseen as rule
from ebbtide.record.manifest import Manifest

KIND = "unseen"

CASES: Cases = {
    complete: {
        "a record that a session passed over and nobody got is unseen": (
            lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2),
            {"unseen": [(1, None)]},
        ),
        "what another consumer got was seen": (
            lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2).read(2, at=1, consumer=2),
            {},
        ),
        "between two sessions nothing is unseen": (
            lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2, session=2),
            {},
        ),
        "before the first and behind the last row nothing is unseen": (lambda b: b.final(1, 2, 3).read(2, at=1), {}),
        "sessions of two consumers do not add up": (
            lambda b: b.final(1, 2, 3).read(1, at=0).read(3, at=2, consumer=2),
            {},
        ),
        "an offset at which a consumer got another value was seen": (
            lambda b: b.final(1, 2, 3).read(1, 9, 3, at=0),
            {"vanished": [(1, 9)], "inconsistent-offset": [(1, None)]},
        ),
        "what the final read lacks is not unseen": (
            lambda b: b.final(1).final(3, at=2).read(1, at=0).read(3, at=2),
            {},
        ),
        "unseen offsets of far blocks are found": (
            lambda b: b.final(1, at=10).final(2, 3, at=5_000).read(1, at=10).read(3, at=5_001),
            {"unseen": [(5_000, None)]},
        ),
        "an offset at each end of a block is found": (
            lambda b: b.final(1, 2, at=62).final(3, 4, at=64).read(1, at=62).read(4, at=65),
            {"unseen": [(63, None), (64, None)]},
        ),
        "below a block that was read under another leader epoch nothing is unseen": (
            lambda b: (
                b.acked(*range(1, 129), at=0)
                .final(*range(1, 129), at=0, leader_epoch=0)
                .read(1, at=0, leader_epoch=0)
                .read(*range(65, 129), at=64, leader_epoch=7)
            ),
            {},
        ),
        "above a session's last row that stands nothing is unseen": (
            lambda b: b.final(1, 2, 3, 4, 5).read(1, at=0).read(3, at=2).read(9, at=4),
            {"unseen": [(1, None)], "vanished": [(4, 9)], "inconsistent-offset": [(4, None)]},
        ),
    },
    transactional: {
        "read_committed passes over what is not known to be committed": (
            lambda b: (
                b.send(1, at=0)
                .send(2, at=1, txn=1, txn_outcome="aborted")
                .send(3, at=2, txn=2, txn_outcome="unknown")
                .send(4, at=3)
                .final(1, 2, 3, 4)
                .read(1, at=0, isolation="read_committed")
                .read(4, at=3, isolation="read_committed", prev_offset=0)
            ),
            {},
        ),
        "read_committed passes over what sends does not know": (
            lambda b: (
                b.send(1, at=0)
                .send(3, at=2)
                .final(1, 2, 3)
                .read(1, at=0, isolation="read_committed")
                .read(3, at=2, isolation="read_committed", prev_offset=0)
            ),
            {},
        ),
        "read_committed must not pass over what is committed": (
            lambda b: (
                b.send(1, at=0)
                .send(2, status="unknown", txn=1, txn_outcome="committed")
                .send(3, at=2)
                .final(1, 2, 3)
                .read(1, at=0, isolation="read_committed")
                .read(3, at=2, isolation="read_committed", prev_offset=0)
            ),
            {"unseen": [(1, None)], "poll-skip": [(2, 3)]},
        ),
        "offsets of aborted records that were cut off and filled again are neither unseen nor skipped": (
            lambda b: (
                b.send(1, at=0, txn=1, txn_outcome="committed")
                .send(2, at=2, txn=2, txn_outcome="aborted")
                .send(3, at=4, txn=3, txn_outcome="committed")
                .read(1, at=0, isolation="read_committed", leader_epoch=0)
                .read(3, at=4, isolation="read_committed", leader_epoch=0, prev_offset=0)
                .acked(4, 5, 6, 7, at=1, txn=4, txn_outcome="committed")
                .final(1, leader_epoch=0)
                .final(4, 5, 6, 7, at=1, leader_epoch=1)
            ),
            {"lost": [(4, 3)], "vanished": [(4, 3)], "inconsistent-offset": [(2, None), (4, None)]},
        ),
        "read_uncommitted must not pass over what was aborted": (
            lambda b: (
                b.send(1, at=0)
                .send(2, at=1, txn=1, txn_outcome="aborted")
                .send(3, at=2)
                .final(1, 2, 3)
                .read(1, at=0)
                .read(3, at=2, prev_offset=0)
            ),
            {"unseen": [(1, None)], "poll-skip": [(2, 3)]},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, 'one["first"] < F.col("offset")', 'one["first"] <= F.col("offset") - 2'),
    (rule, 'one["last"] > F.col("offset")', 'one["last"] > F.col("offset") + 1'),
    (rule, '(~one["read_committed"] | F.col("shown"))', "F.lit(True)"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """An offset that a session passed over and no consumer returned."""
    items = set()
    for row in tables["polls"]:
        if not is_final(row, manifest):
            continue
        here = [poll for poll in tables.polls_at(place_of(row)) if not is_final(poll, manifest)]
        if any(poll["offset"] == row["offset"] for poll in here):
            continue
        for below in here:
            for above in here:
                same = all(below[name] == above[name] for name in ("consumer", "session", "isolation"))
                between = below["offset"] < row["offset"] < above["offset"]
                over = same and between and is_in_final_read(above, tables, manifest)
                if over and may_see(below, row, tables, manifest):
                    items.add(("unseen", *place_of(row), row["offset"], None))
    return list(items)


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Records that one session passes over."""
    for number in range(n + 1):
        b.acked(100 + number, at=HEALTHY + number).final(100 + number, at=HEALTHY + number)
    b.read(100 + n, at=HEALTHY + n)
    return {"unseen": n}
