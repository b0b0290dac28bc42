"""In a dynamic quorum only the disks that vote count, and only under the voters of their time (KIP-853)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import evidence_builders as build
import pytest

from ebbtide.kraft.commits import CommittedBatch, VoterSet, ruling_set, voter_sets_in
from ebbtide.kraft.follower import MetadataFollower
from ebbtide.kraft.quorum import QuorumLogs
from ebbtide.logs.checkpoint_file import cluster_id_in, directory_id_in
from ebbtide.logs.segments import METADATA_FOLDER

THREE = {100: "D100", 101: "D101", 102: "D102"}
LEVEL = build.feature("metadata.version", 21)


def directory_id(name: str) -> str:
    """The directory id as Kafka prints it."""
    return name.ljust(22, "A")


class Quorum:
    """Controllers 100 to 102 with the disks of `THREE`, whose logs grow batch by batch."""

    def __init__(self, folder: Path, voters: Mapping[int, str] = THREE) -> None:
        self._folder = folder
        self.batches = [build.voters(0, dict(voters))]
        for node, name in THREE.items():
            self.give_disk(node, name)
        self.logs = QuorumLogs({node: self.data(node) / METADATA_FOLDER for node in THREE}, is_dynamic=True)

    def data(self, node: int) -> Path:
        return self._folder / str(node)

    def give_disk(self, node: int, name: str) -> None:
        self.data(node).mkdir(exist_ok=True)
        (self.data(node) / "meta.properties").write_text(f"cluster.id=C\ndirectory.id={directory_id(name)}\n")

    def append(self, voters: Mapping[int, str] | None = None) -> None:
        at = len(self.batches)
        self.batches.append(build.metadata_batch(at, LEVEL) if voters is None else build.voters(at, dict(voters)))

    def look(self, *nodes: int) -> None:
        """Give these controllers all batches, and look twice: what was the newest is then at rest."""
        for node in nodes:
            build.write_log(self.data(node) / METADATA_FOLDER, *self.batches)
        self.logs.poll()
        self.logs.poll()

    def grow(self, *nodes: int) -> CommittedBatch | None:
        """Let these controllers acknowledge the newest batch, and one behind it; returns the newest committed one."""
        self.look(*nodes)
        self.append()
        self.look(*nodes)
        return self.logs.committed[-1] if self.logs.committed else None


def test_a_majority_of_the_voters_commits_a_batch(tmp_path: Path) -> None:
    batch = Quorum(tmp_path).grow(100, 101)
    assert batch is not None
    assert (batch.base_offset, batch.controllers, batch.voters) == (0, (100, 101), (100, 101, 102))


def test_an_observer_is_no_part_of_a_majority(tmp_path: Path) -> None:
    pair = {100: "D100", 101: "D101"}
    assert Quorum(tmp_path, pair).grow(100, 102) is None
    (tmp_path / "whole").mkdir()
    batch = Quorum(tmp_path / "whole", pair).grow(100, 101, 102)
    assert batch is not None
    assert (batch.controllers, batch.voters) == ((100, 101), (100, 101))


def test_a_voter_with_another_disk_is_an_observer(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.give_disk(102, "new")
    assert quorum.grow(100, 102) is None


def test_what_the_old_disk_acknowledged_does_not_count_for_the_new_one(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, {100: "D100", 101: "D101", 102: "new"})
    quorum.look(100, 102)  # with the disk that does not vote
    quorum.give_disk(102, "new")
    quorum.append()
    build.write_log(quorum.data(100) / METADATA_FOLDER, *quorum.batches)
    build.write_log(quorum.data(102) / METADATA_FOLDER, *quorum.batches)
    quorum.logs.poll()
    assert quorum.logs.committed == []


def test_the_voters_of_its_time_rule_over_a_batch(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.look(100, 102)
    quorum.append({100: "D100", 101: "D101"})
    quorum.look(100, 102)  # two of the three voters acknowledge the batch before the record
    batch = quorum.grow(100, 102)  # and one of the two voters acknowledges what is behind it
    assert batch is not None
    assert (batch.base_offset, batch.controllers, batch.voters) == (0, (100, 102), (100, 101, 102))
    batch = quorum.grow(100, 101)
    assert batch is not None
    assert (batch.controllers, batch.voters) == ((100, 101), (100, 101))


@pytest.mark.parametrize("voters", [{100: "D100"}, {}])
def test_fewer_than_two_voters_prove_no_flush(tmp_path: Path, voters: dict[int, str]) -> None:
    assert Quorum(tmp_path, voters).grow(100, 101, 102) is None


def test_without_a_record_of_voters_nothing_is_committed(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.batches = [build.metadata_batch(0, LEVEL)]
    assert quorum.grow(100, 101, 102) is None


def test_the_newest_voters_are_committed_once_a_majority_of_them_has_their_record(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.look(100)
    assert quorum.logs.committed_voters is None
    quorum.look(100, 101)
    voters = quorum.logs.committed_voters
    assert voters is not None
    assert voters.voters == {node: directory_id(name) for node, name in THREE.items()}
    quorum.append({100: "D100", 101: "D101", 102: "new"})
    quorum.look(100, 102)
    assert quorum.logs.committed_voters is None  # controller 102 does not have that disk
    quorum.give_disk(102, "new")
    assert quorum.logs.committed_voters is not None


def test_voters_that_a_newer_leader_cut_off_were_never_voters(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path)
    quorum.append({100: "D100", 101: "D101"})
    quorum.look(100)
    assert len(quorum.logs.image.voter_sets) == 2
    quorum.batches[-1] = build.metadata_batch(1, LEVEL, epoch=2)
    quorum.look(100, 101)
    assert len(quorum.logs.image.voter_sets) == 1


def test_a_log_at_rest_says_the_voters_of_each_offset(tmp_path: Path) -> None:
    build.write_log(tmp_path, build.voters(0, THREE), build.metadata_batch(1, LEVEL), build.voters(2, {100: "D100"}))
    sets = voter_sets_in(MetadataFollower(tmp_path).poll())
    assert [sorted(one.voters) for one in sets] == [[100, 101, 102], [100]]
    assert [ruling_set(sets, end) for end in (0, 1, 2, 3)] == [None, sets[0], sets[0], sets[1]]


def test_a_disk_whose_directory_id_is_not_known_counts_as_the_voters() -> None:
    voters = VoterSet(metadata_offset=0, epoch=1, voters=THREE)
    assert voters.majority_of({100: "D100", 101: None}) == (100, 101)
    assert voters.majority_of({100: "D100", 101: "other"}) is None
    assert voters.majority_of({100: "D100", 103: None}) is None


def test_ids_of_a_folder_that_was_not_formatted_are_not_known(tmp_path: Path) -> None:
    assert (cluster_id_in(tmp_path), directory_id_in(tmp_path)) == (None, None)
    (tmp_path / "meta.properties").write_text("#x\ncluster.id=C\n")
    assert (cluster_id_in(tmp_path), directory_id_in(tmp_path)) == ("C", None)
