"""Records that a consumer got and that the final log lacks."""

from __future__ import annotations

from healthy_history import HEALTHY
from reconcile_cases import Cases, Mutant, complete, interrupted, no_final_read, read_committed
from reconcile_draws import Draws, Parts, Setup, epoch_of
from reconcile_oracle_run import compacted_topics, is_final, is_unread, lowest_epoch, stands_at
from reconcile_oracle_tables import Item, PlacedTables, Row, place_of
from records import RecordBuilder

from analysis.judge.rules.losses import vanished as rule
from ebbtide.record.manifest import Manifest

KIND = "vanished"

CASES: Cases = {
    complete: {
        "what a consumer read and the final log lacks has vanished": (
            lambda b: b.read(1, 2, at=0).final(1),
            {"vanished": [(1, 2)]},
        ),
        "two readers of one value are one vanished item": (
            lambda b: b.read(1, at=0).read(1, at=0, consumer=2),
            {"vanished": [(0, 1)]},
        ),
        "another value in the final log means vanished": (
            lambda b: b.read(1, at=0).final(2),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "another value in a later poll means vanished": (
            lambda b: b.read(1, at=0).read(2, at=0, consumer=2).final(2),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "below the log start nothing vanishes, not even what was replaced": (
            lambda b: b.read(1, at=0).read(2, at=0).final(3, at=5).end(log_start=5),
            {"inconsistent-offset": [(0, None)]},
        ),
        "what moved to another offset has vanished from the first": (
            lambda b: b.read(1, at=0).final(1, at=4),
            {"vanished": [(0, 1)], "duplicate": [(0, 1)]},
        ),
        "what the last leader holds has not vanished": (
            lambda b: b.read(1, at=0).led_by(1, epoch=0).replica(1, 1),
            {},
        ),
        "a damaged record has not vanished": (lambda b: b.read(1, at=0).final(None), {"damaged": [(0, None)]}),
        "what a slow consumer got late, though the final log has another, is what vanished": (
            lambda b: (
                b.read(2, at=5, leader_epoch=1, polled_ns=100)
                .read(1, at=5, leader_epoch=0, consumer=2, polled_ns=300)
                .final(2, at=5, leader_epoch=1, polled_ns=900)
            ),
            {"vanished": [(5, 1)], "inconsistent-offset": [(5, None)]},
        ),
        "what the last leader holds was not replaced, whatever a later poll returned": (
            lambda b: b.read(2, at=0).read(1, at=0, consumer=2).led_by(1, epoch=0).replica(1, 2),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "what the final read replaced itself has vanished": (
            lambda b: b.read(1, at=0).final(1).final(2),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "a null value cannot vanish": (lambda b: b.read(None, at=0), {"damaged": [(0, None)]}),
        "the final read's own rows do not vanish": (lambda b: b.final(1), {}),
    },
    read_committed: {
        "a value of an aborted transaction is hidden, not vanished": (
            lambda b: b.send(1, status="unknown", txn=1, txn_outcome="aborted").read(1, at=0),
            {},
        ),
        "a value of a transaction that may be open is hidden, not vanished": (
            lambda b: b.acked(1, at=0, txn=1, txn_outcome="unknown").read(1, at=0),
            {},
        ),
        "a value of a committed transaction is not hidden": (
            lambda b: b.acked(1, at=0, txn=1, txn_outcome="committed").read(1, at=0),
            {"lost": [(0, 1)], "vanished": [(0, 1)]},
        ),
        "a value outside transactions is not hidden": (
            lambda b: b.acked(1, at=0).read(1, at=0),
            {"lost": [(0, 1)], "vanished": [(0, 1)]},
        ),
        "a value that sends does not know may be hidden where there are transactions": (lambda b: b.read(1, at=0), {}),
        "a hidden value that another one replaced has vanished": (
            lambda b: b.send(1, status="unknown", txn=1, txn_outcome="aborted").read(1, at=0).final(2),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
    },
    interrupted: {
        "what the final read passed by has vanished": (
            lambda b: b.read(1, 2, 3, at=0).final(1).final(3, at=2),
            {"vanished": [(1, 2)]},
        ),
        "what it did not reach has not": (lambda b: b.read(1, 2, 3, at=0).final(1), {}),
        "what the last row of the final read replaced has vanished, though of an older leader epoch": (
            lambda b: b.read(1, at=0, leader_epoch=1).final(2, leader_epoch=0),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "what lies above its HW has vanished": (
            lambda b: b.read(1, 2, at=0).final(1).end(high_watermark=1),
            {"vanished": [(1, 2)]},
        ),
    },
    no_final_read: {
        "a later poll shows what was replaced": (
            lambda b: b.read(1, at=0).read(2, at=0),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "a later poll of a record of an older leader epoch shows nothing": (
            lambda b: b.read(2, at=0, leader_epoch=1).read(1, at=0, leader_epoch=0, consumer=2),
            {"inconsistent-offset": [(0, None)]},
        ),
        "a later poll of a record of a newer leader epoch shows what was replaced": (
            lambda b: b.read(1, at=0, leader_epoch=0).read(2, at=0, leader_epoch=1),
            {"vanished": [(0, 1)], "inconsistent-offset": [(0, None)]},
        ),
        "of two values, one without a leader epoch, the one that was polled first was replaced": (
            lambda b: b.read(1, at=0).read(2, 3, at=0, leader_epoch=3).read(4, at=1),
            {"vanished": [(0, 1), (1, 3)], "inconsistent-offset": [(0, None), (1, None)]},
        ),
        "of two values of one leader epoch, each got before the other, each was replaced": (
            lambda b: b.read(1, at=0, leader_epoch=3).read(2, at=0, leader_epoch=3).read(1, at=0, leader_epoch=3),
            {"vanished": [(0, 1), (0, 2)], "inconsistent-offset": [(0, None)]},
        ),
        "a poll at the same time is not later": (
            lambda b: b.read(1, at=0, polled_ns=5).read(2, at=0, polled_ns=5),
            {"inconsistent-offset": [(0, None)]},
        ),
    },
}


MUTANTS: tuple[Mutant, ...] = (
    (rule, "(replaced | gone)", "replaced"),
    (rule, "(replaced | gone)", "gone"),
    (rule, "& ~_can_be_hidden(runs)", ""),
    (rule, '~F.col("in_final_log") & F.coalesce(other_ns', "F.coalesce(other_ns"),
    (rule, '_is_replaced_in_final_read(F.col("last_final.final_ns")) | _is_replaced_later', "_is_replaced_later"),
)


def found_in(tables: PlacedTables, manifest: Manifest) -> list[Item]:
    """A record that a consumer got, and that was replaced or is gone."""
    final_rows = [poll for poll in tables["polls"] if is_final(poll, manifest)]
    hides = any(poll["isolation"] == "read_committed" for poll in final_rows)
    transactional = any(producer.transactional for producer in manifest.producers.values())
    items = set()
    for poll in tables["polls"]:
        if is_final(poll, manifest) or poll["value"] is None:
            continue
        place, offset = place_of(poll), poll["offset"]
        ends = manifest.final_offsets.get(f"{poll['topic']}-{poll['partition']}")
        if ends is not None and poll["offset"] < ends.log_start:
            continue
        same_place = tables.polls_of_offset(place, offset)
        replaced = _was_replaced(poll, tables, manifest)
        gone = False
        if manifest.final_consumer is not None and ends is not None and not is_unread(poll, tables, manifest):
            last = max((row["offset"] for row in tables.polls_at(place) if is_final(row, manifest)), default=-1)
            reached = manifest.status == "complete" or poll["offset"] < last or poll["offset"] >= ends.high_watermark
            here = any(row["value"] == poll["value"] and is_final(row, manifest) for row in same_place)
            damaged = any(row["value"] is None for row in same_place)
            held = any(log["offset"] == offset and log["value"] == poll["value"] for log in tables.leader_log(place))
            sends = [send for send in tables["sends"] if send["value"] == poll["value"]]
            hidden = hides and (
                any(
                    (send["txn"] is not None or send["txn_outcome"] is not None) and send["txn_outcome"] != "committed"
                    for send in sends
                )
                if sends
                else transactional
            )
            gone = reached and not (here or damaged or held or hidden or poll["topic"] in compacted_topics(tables))
        if replaced or gone:
            items.add(("vanished", *place, offset, poll["value"]))
    return list(items)


def _was_replaced(poll: Row, tables: PlacedTables, manifest: Manifest) -> bool:
    """Whether another value was at the offset after a consumer got the one of `poll`."""
    here = [
        row
        for row in [*tables.polls_at(place_of(poll)), *tables.leader_log(place_of(poll))]
        if row["offset"] == poll["offset"]
    ]
    polls = [row for row in here if "polled_ns" in row]
    same = [row["polled_ns"] for row in polls if row["value"] == poll["value"] and is_final(row, manifest)]
    epochs = {value: lowest_epoch(value, here) for value in {row["value"] for row in here}}
    epoch, stands = epochs[poll["value"]], stands_at(poll, poll["value"], tables, manifest)
    for other in polls:
        if other["value"] is None or other["value"] == poll["value"]:
            continue
        if is_final(other, manifest) and other["polled_ns"] > max(same, default=poll["polled_ns"]):
            return True
        theirs = epochs[other["value"]]
        older = epoch is not None and theirs is not None and theirs < epoch
        if other["polled_ns"] > poll["polled_ns"] and not older and not stands:
            return True
    return False


def plant(b: RecordBuilder, n: int) -> dict[str, int]:
    """Records that only a consumer got."""
    b.read(*range(100, 100 + n), at=HEALTHY)
    return {"vanished": n}


def _draw_values_in_turn(d: Draws, b: RecordBuilder, setup: Setup) -> None:
    """Draw two values that consumers got in turn at one offset of a leader epoch: each came back after the other."""
    offset, value = d.offset(), d.one_of(1, 6)
    for number in range(d.number(2, 4)):
        columns = {"polled_ns": 50 + number, "leader_epoch": epoch_of(offset, value), "partition": 1}
        b.read(value, at=offset, consumer=d.one_of(1, 2), **columns)
        value = 7 - value


PARTS: Parts = {_draw_values_in_turn: 20}
