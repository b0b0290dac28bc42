"""Records of simulated clusters whose truth is known: the causes of their losses, record by record."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from real_records import KNOWN_TRUTHS, unpack_record
from records import as_record

from analysis.causes.columns import PartitionTables
from analysis.causes.evidence import NEVER, Ints
from analysis.causes.from_record import cluster_evidence, partition_evidence
from analysis.causes.partition import EvidentPartition
from analysis.causes.ranges import answers_of_sends
from analysis.judging.one_record import prepare_record
from ebbtide.record.files import RecordFolder

Found = Counter[tuple[int, int, str | None, int | None]]
"""How many records of a partition have these acks, cause and election (its metadata offset)."""


def causes_in(name: str, to: Path) -> Found:
    record = prepare_record(RecordFolder(unpack_record(name, to, KNOWN_TRUTHS)))
    found = Found()
    for topic, number in sorted(record.timeline.partitions):
        partition = EvidentPartition(partition_evidence(record, topic, number, cluster_evidence(record)))
        is_read = partition.epochs.send_read_ns < NEVER
        for acks, committed in ((-1, True), (1, True), (1, False)):
            alike = (partition.evidence.sends.acks == acks) & ((acks == -1) | (is_read == committed))
            lost = partition.lost[alike[partition.lost]]
            answers, which = answers_of_sends(partition, lost, committed=committed)
            for one in (answers[at] for at in which.tolist()):
                election = None if one.guilty is None else partition.evidence.states[one.guilty].metadata_offset
                found[number, acks, one.cause, election] += 1
    return found


@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in KNOWN_TRUTHS.glob("*.tar.xz")))
def test_a_partition_of_which_only_a_part_is_read_has_the_same_causes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = causes_in(name, tmp_path / "whole")
    of_all = as_record(tmp_path / "whole" / name)
    lost = {place: _lost(PartitionTables(of_all, *place)) for place in of_all.timeline.partitions}
    monkeypatch.setattr("analysis.causes.columns._WHOLE_MAX", 90)
    monkeypatch.setattr("analysis.causes.columns.listed", lambda _: lost)
    assert causes_in(name, tmp_path / "thinned") == whole


def test_of_a_record_that_is_to_be_explained_no_row_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack_record("late-acks", tmp_path, KNOWN_TRUTHS)
    whole = PartitionTables(as_record(folder), "t", 0).sends().value
    monkeypatch.setattr("analysis.causes.columns._WHOLE_MAX", 90)
    monkeypatch.setattr("analysis.causes.columns.listed", lambda _: {})
    thinned = PartitionTables(as_record(folder), "t", 0).sends().value
    left_out = int(whole[~np.isin(whole, thinned)][0])
    record = as_record(folder)
    record.explained = left_out
    tables = PartitionTables(record, "t", 0)
    of_logs = [log.value for log in tables.replicas().values()]
    assert all(left_out in values for values in (tables.sends().value, *of_logs))


def _lost(tables: PartitionTables) -> tuple[Ints, Ints]:
    """Return the lost records, as the reconciliation lists them in anomalies/."""
    sends = tables.sends()
    _, final = tables.polls()
    lost = ~np.isin(sends.value, final.value)
    return np.unique(sends.value[lost]), np.unique(sends.offset[lost])


def test_acks_that_a_client_noted_after_the_power_loss_accuse_nobody(tmp_path: Path) -> None:
    assert causes_in("late-acks", tmp_path) == {(0, -1, "last-replica-standing", 36): 2}


def test_another_record_at_the_offset_is_not_the_lost_record(tmp_path: Path) -> None:
    assert causes_in("replaced-record", tmp_path) == {(0, 1, "uncommitted-at-failover", 19): 6}


def test_a_disk_excuses_only_the_records_that_it_had(tmp_path: Path) -> None:
    # Its log went from 49 to 40: the committed records from 49 on it never had.
    found = causes_in("disk-never-had-it", tmp_path)
    assert found == {(0, -1, "last-replica-standing", 38): 9, (0, -1, "unexplained", 38): 21}


def test_a_kill_loses_nothing_so_a_last_known_leader_must_have_all(tmp_path: Path) -> None:
    assert causes_in("kills-only", tmp_path) == {(0, -1, "unexplained", 41): 6}


def test_an_election_by_name_does_not_explain_a_record_that_its_winner_had(tmp_path: Path) -> None:
    found = causes_in("held-election", tmp_path)
    assert found[0, -1, "last-replica-standing", 51] == 40
    assert found[0, 1, "unclean-election", 43] == 11


@pytest.mark.parametrize(("partition", "election"), [(0, 86), (1, 87)])
def test_a_disk_lost_before_a_record_was_sent_does_not_count_for_it(
    partition: int, election: int, tmp_path: Path
) -> None:
    found = causes_in("one-disk-earlier", tmp_path)
    assert {cause for number, _, cause, at in found if (number, at) == (partition, election)} <= {
        "last-replica-standing",
        "uncommitted-at-failover",
    }
