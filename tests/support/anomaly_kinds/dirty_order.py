"""Sends out of order."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete
from reconcile_oracle_run import is_final
from reconcile_oracle_tables import Item, PlacedTables, Row, place_of
from records import RecordBuilder

from analysis.judge.rules.appends import send_order
from ebbtide.record.manifest import Manifest

KIND = "dirty-order"

CASES: Cases = {
    complete: {
        "a later send at a lower offset is out of order": (
            lambda b: b.acked(1, at=1).acked(2, at=0).final(2, 1),
            {"dirty-order": [(0, 2)]},
        ),
        "every adjacent inversion counts once": (
            lambda b: b.acked(1, at=3).acked(2, at=2).acked(3, at=4).acked(4, at=1).final(4, 2, 1, 3, at=1),
            {"dirty-order": [(1, 4), (2, 2)]},
        ),
        "two producers may interleave": (
            lambda b: b.acked(1, at=1, producer=1).acked(2, at=0, producer=2).final(2, 1),
            {},
        ),
        "two partitions have orders of their own": (
            lambda b: b.acked(1, at=1).acked(2, at=0, partition=1).final(1, at=1).final(2, partition=1),
            {},
        ),
        "after a truncation offsets may begin lower": (
            lambda b: b.acked(1, at=5).acked(2, at=0).final(2),
            {"lost": [(5, 1)]},
        ),
        "what the last leader's log holds was not cut": (
            lambda b: b.acked(1, at=5).acked(2, at=0).final(2).led_by(1, epoch=0).replica(1, 1, at=5),
            {"dirty-order": [(0, 2)]},
        ),
        "the order is that of the sequence, not of time": (
            lambda b: b.acked(1, at=1, sequence=2).acked(2, at=0, sequence=1).final(2, 1),
            {},
        ),
        "an unknown send has no place in the order": (
            lambda b: b.acked(1, at=1).send(2, at=0, status="unknown").final(2, 1),
            {},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (send_order, "matters[1:] |= back", "pass"),
    (send_order, "matters[:-1] |= back", "pass"),
    (send_order, "(np.diff(some[:, 0]) > 0).all()", "True"),
    (send_order, "some = columns[here[placed[here]]]", "some = columns[here]"),
    (send_order, "matters[0] = matters[-1] = True", "matters[0] = True"),
    (send_order, "matters[0] = matters[-1] = True", "matters[-1] = True"),
    (send_order, "after[0] <= before[1]", "after[0] < before[1]"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A send whose offset is below that of the one before it, which stands."""
    producers: dict[tuple[str, int, int], list[Row]] = defaultdict(list)
    for send in tables["sends"]:
        if send["status"] == "acked" and send["offset"] is not None:
            producers[(*place_of(send), send["producer"])].append(send)
    items: list[Item] = []
    for sent in producers.values():
        sent.sort(key=lambda send: send["sequence"])
        for first, second in pairwise(sent):
            place = place_of(first)
            final = [poll for poll in tables.polls_at(place) if is_final(poll, manifest)]
            stands = any(
                row["offset"] == first["offset"] and row["value"] == first["value"]
                for row in [*final, *tables.leader_log(place)]
            )
            if second["offset"] < first["offset"] and stands and tables["polls"]:
                items.append(("dirty-order", *place_of(second), second["offset"], second["value"]))
    return items


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Pairs of sends in the wrong order."""
    for pair in range(n):
        for value, offset in ((2 * pair, 2 * pair + 1), (2 * pair + 1, 2 * pair)):
            b.acked(100 + value, at=HEALTHY + offset).final(100 + value, at=HEALTHY + offset)
    return {"dirty-order": n}
