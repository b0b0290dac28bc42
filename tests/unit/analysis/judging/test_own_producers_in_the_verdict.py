"""Own producers in the verdict of a real record, to which a table of their traffic was added."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from real_records import unpack_record
from records import write_table

from analysis.items import check_record
from analysis.judging.one_record import prepare_record, verdict_of
from analysis.reconcile.model import Reconciliation
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.record.own_producers import WireFacts
from ebbtide.record.sums import write_sums
from ebbtide.record.tables import WIRE
from ebbtide.record.verdict import Counts, Verdict

PREDICTS_NO_LOSS = "tolerated-power-losses-3-2-4.4.0"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_record(PREDICTS_NO_LOSS, tmp_path_factory.mktemp("record"))


def judged(packed: Path, *rows: dict[str, object], facts: WireFacts | None = None) -> Verdict:
    """The verdict with these rows of `orders-0`."""
    record = RecordFolder(packed)
    columns = {name: [{"topic": "orders", "partition": 0, **row}.get(name) for row in rows] for name in WIRE.names}
    write_table(packed, "wire", pa.table(columns, schema=WIRE))
    write_manifest(record, msgspec.structs.replace(read_manifest(record), wire=facts or WireFacts()))
    write_sums(record)
    prepared = prepare_record(record)
    check_record(prepared)
    return verdict_of(prepared, Reconciliation(counts=Counts(sends=1, acked=1)))


def sent(offset: int, *, acks: int = -1) -> dict[str, object]:
    return {
        "kind": "produce",
        "client": "orders-1",
        "acks": acks,
        "status": "acked",
        "offset": offset,
        "digest": offset,
    }


READ = {"kind": "final-log", "offset": 0, "high_watermark": 9}


def final(offset: int) -> dict[str, object]:
    return {"kind": "final", "offset": offset, "digest": offset, "leader_epoch": 0}


def test_a_committed_loss_of_an_own_producer_contradicts_a_prediction_of_none_and_comes_first(packed: Path) -> None:
    verdict = judged(packed, sent(0), sent(1), final(0), READ)
    assert verdict.outcome == "contradicted"
    assert verdict.why[0].startswith("your producer (client.id orders-1, acks=all) got acks for 1 record of orders-0")
    assert "predicted no loss of committed records, seen 1 lost, 1 of them yours" in verdict.why
    assert [one.lost for one in verdict.own_losses] == [1]
    (seen,) = (why for why in verdict.why if why.startswith("seen: "))
    assert seen.startswith(
        "seen: of 1 acked records of Ebbtide's producers none was lost, "
        "of 2 acked records of your producers 1 committed and 0 uncommitted were lost"
    )


def test_a_loss_with_acks_1_breaks_a_prediction_that_no_uncommitted_record_is_lost(packed: Path) -> None:
    assert judged(packed, sent(0), final(0), READ).outcome == "as-predicted"
    lost = judged(packed, sent(0, acks=1), READ)
    assert lost.outcome == "contradicted"
    assert lost.why[0].startswith("your producer (client.id orders-1, acks=1) got acks for 1 record")
    assert "predicted no loss of uncommitted records, seen 1 lost, 1 of them yours" in lost.why


@pytest.mark.parametrize(
    ("rows", "facts", "why"),
    [
        ([READ], None, "no producer got an ack through the published ports"),
        ([sent(0)], WireFacts(no_final_read={"orders": "it was deleted"}), "orders-0 was not read at the end: it was"),
        ([sent(0), final(0), READ], WireFacts(unread={"connections": 1}), "what your clients sent is not known whole"),
        ([], WireFacts(why_incomplete="the relay was killed"), "what your clients sent is not known: the relay"),
    ],
    ids=["no ack", "no final read", "unread", "no table"],
)
def test_less_than_a_proof_is_inconclusive(
    packed: Path, rows: list[dict[str, object]], facts: WireFacts | None, why: str
) -> None:
    verdict = judged(packed, *rows, facts=facts)
    assert verdict.outcome == "inconclusive"
    assert any(one.startswith(why) for one in verdict.why)


def test_a_loss_is_proven_whatever_else_is_not_known(packed: Path) -> None:
    verdict = judged(packed, sent(1), READ, facts=WireFacts(unread={"connections": 1}))
    assert verdict.outcome == "contradicted"
