"""How long acks=all producers waited for an ack, from the sends of hand-made records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judge_records import ns
from records import as_record

from analysis.judge.history import service_cells
from analysis.judge.history.service_cells import CELL_NS, ServiceCells
from analysis.judge.history.spells import Spell, ack_spells
from ebbtide.record.tables import SENDS


def _send(sent_s: float, done_s: float | None, status: str = "acked", **fields: Any) -> dict[str, Any]:
    usual = {"topic": "t", "partition": 0, "value": 1, "producer": 1, "sequence": 0, "acks": -1, "status": status}
    times = {"sent_ns": ns(sent_s), "done_ns": None if done_s is None else ns(done_s)}
    return dict.fromkeys(SENDS.names) | usual | times | fields


def _spells(record: Path, *sends: dict[str, Any]) -> list[tuple[float, float, bool]]:
    """The spells of t-0: from and to in seconds, and whether the end is open."""
    pq.write_table(pa.Table.from_pylist(list(sends), schema=SENDS), record / "sends.parquet")
    found = ack_spells(as_record(record).seen(ServiceCells))["t", 0]
    assert not isinstance(found, str), found
    return [_in_seconds(one) for one in found]


def _in_seconds(one: Spell) -> tuple[float, float, bool]:
    return round((one.from_ns - ns(0)) / 1e9, 3), round((one.to_ns - ns(0)) / 1e9, 3), one.is_open


def test_a_record_that_waits_for_its_ack_makes_a_spell_from_the_ack_before(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(0.99, 1), _send(0.995, 9), _send(9, 9.01)]
    assert _spells(tmp_path, *sends)[-1] == (1, 9, False)


def test_a_producer_that_sends_nothing_waits_for_no_ack(tmp_path: Path) -> None:
    spells = _spells(tmp_path, _send(0, 0.01), _send(30, 30.01), _send(60, 60.01))
    assert [to - from_ for from_, to, _ in spells] == [pytest.approx(0.01)]


def test_a_spell_begins_with_the_first_record_that_was_handed_over_in_it(tmp_path: Path) -> None:
    assert _spells(tmp_path, _send(0, 0.01), _send(20, 25))[-1] == (20, 25, False)


def test_a_failed_record_waits_like_an_acked_one_and_ends_no_spell(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(5, 6, "failed"), _send(8, 9)]
    assert _spells(tmp_path, *sends)[-1] == (5, 9, False)


def test_records_that_nobody_acked_in_the_end_leave_the_spell_open(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(5, 8, "failed"), _send(7, None, "unknown")]
    assert _spells(tmp_path, *sends)[-1] == (5, 8, True)


def test_a_partition_without_any_ack_waits_from_its_first_record(tmp_path: Path) -> None:
    assert _spells(tmp_path, _send(1, 4, "failed"), _send(2, 6, "unknown")) == [(1, 6, True)]


def test_acks_by_acks_1_do_not_end_a_spell(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(1, 9), *(_send(at, at + 0.01, acks=1) for at in range(2, 9))]
    assert _spells(tmp_path, *sends)[-1] == (1, 9, False)


def test_an_ack_of_any_acks_all_producer_ends_a_spell(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(1, 9), *(_send(at, at + 0.01, producer=2) for at in range(2, 9))]
    assert max(to - from_ for from_, to, _ in _spells(tmp_path, *sends)) == pytest.approx(1.01)


def test_partitions_are_apart(tmp_path: Path) -> None:
    sends = [_send(0, 0.01), _send(1, 9), *(_send(at, at + 0.01, partition=1) for at in range(9))]
    assert _spells(tmp_path, *sends)[-1] == (1, 9, False)


def test_a_clock_that_went_back_leaves_the_spells_unknown(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([_send(5, 4), _send(6, 7)], schema=SENDS), tmp_path / "sends.parquet")
    assert ack_spells(as_record(tmp_path).seen(ServiceCells)) == {("t", 0): "the clients' clock went back"}


@pytest.mark.parametrize("seed", range(20))
def test_the_folded_cells_give_the_longest_spell_of_all_acks(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_cells, "_FOLDED_FROM", 7)
    dice = random.Random(seed)
    sends, at = [], 0.0
    for _ in range(300):
        at += dice.choice((0.001, 0.02, 0.3, 2.0))
        took = dice.choice((0.001, 0.05, 0.5, 4.0))
        sends.append(_send(round(at, 3), round(at + took, 3), dice.choice(("acked", "acked", "failed"))))
    dice.shuffle(sends)
    found = max(to - from_ for from_, to, is_open in _spells(tmp_path, *sends) if not is_open)
    assert found == pytest.approx(_longest_by_definition(sends))


def _longest_by_definition(sends: list[dict[str, Any]]) -> float:
    """The longest closed spell, from all acks and all records that still waited in a later cell."""
    acks = sorted(one["done_ns"] for one in sends if one["status"] == "acked")
    longest = 0
    for before, after in zip([0, *acks], acks, strict=False):
        later = [one for one in sends if one["done_ns"] // CELL_NS > before // CELL_NS]
        began = min((max(before, one["sent_ns"]) for one in later), default=after)
        longest = max(longest, after - began)
    return longest / 1e9
