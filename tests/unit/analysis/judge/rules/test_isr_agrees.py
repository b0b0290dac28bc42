"""logs-of-the-isr-agree: two replicas that differ in the end are not both in the ISR."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from clause_cases import NOTHING_FOUND, checked
from records import as_record, write_table
from worked_examples import MadeRule, example_of, record_of

from analysis.judge.rules.clause import Judged
from analysis.judge.rules.losses import logs_of_the_isr_agree as rule
from analysis.reconcile.model import VanishedRange
from ebbtide.record.files import ANOMALIES_DIR
from ebbtide.record.manifest import write_manifest
from ebbtide.record.tables import ANOMALY_SCHEMA

KIND = "replica-divergence"
DIFFER = {1: 7, 2: 8, 3: 8}


def status(
    folder: Path,
    *,
    led: str = "leader=1",
    values: dict[int, int] | None = None,
    more: str = "",
    ended: str = "complete",
) -> str:
    """What the clause finds: brokers 1, 2 and 3 have these values at offset 5."""
    record = record_of(example_of(MadeRule(example=f"Rows.\npartitions: {led}\n{more}gives:")), folder / "record")
    replicas = [{"broker": broker, "leader_epoch": 0, "value": one} for broker, one in DIFFER.items()]
    place = {"topic": "t", "partition": 0}
    details = msgspec.json.encode({"replicas": replicas}).decode()
    row = {"kind": KIND, **place, "offset": 5, "value": None, "details": details}
    write_table(record.folder.path, ANOMALIES_DIR, pa.Table.from_pylist([row], schema=ANOMALY_SCHEMA))
    manifest = msgspec.structs.replace(record.manifest, status=ended)
    write_manifest(record.folder, manifest)
    group = VanishedRange(kind=KIND, **place, count=1, committed=False, first_offset=5, last_offset=5)
    found = msgspec.structs.replace(NOTHING_FOUND, groups=[group])
    return checked(rule, Judged(as_record(record.folder.path, manifest), found, ())).found.status


def test_two_members_of_the_isr_that_differ_violate_the_clause(tmp_path: Path) -> None:
    assert status(tmp_path) == "violated"


@pytest.mark.parametrize("led", ["leader=2 isr=2,3", "leader=1; at=9 leader=2 isr=2,3"])
def test_a_replica_outside_the_last_isr_may_differ(tmp_path: Path, led: str) -> None:
    assert status(tmp_path, led=led) == "holds"


def test_an_unclean_election_and_a_power_loss_explain_nothing(tmp_path: Path) -> None:
    unclean = "leader=1; at=9 leader=2 isr=2 leader_recovery_state=1; at=12 isr=1,2,3 leader_recovery_state=0"
    assert status(tmp_path, led=unclean, more="steps: step=power-loss nodes=2 at=5\n") == "violated"


def test_controllers_that_lost_their_log_may_use_an_epoch_twice(tmp_path: Path) -> None:
    assert status(tmp_path, more="steps: step=wipe-disk nodes=100 at=5\n") == "unknown"


def test_a_run_that_ended_early_says_nothing(tmp_path: Path) -> None:
    assert status(tmp_path, ended="interrupted") == "unknown"
