"""metadata-log-keeps-what-it-committed: what a majority of the controllers had acknowledged is in the final log."""

from __future__ import annotations

from pathlib import Path

import evidence_builders as build
import msgspec
import pytest
from judge_records import Story, by_name
from worked_examples import metadata_log, write_acknowledged

from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import QUORUM_FILE, RAW_DIR, RecordFolder
from ebbtide.record.manifest import Topology
from ebbtide.record.sums import write_sums

CLAUSE = "metadata-log-keeps-what-it-committed"
NEWEST = 9
"""The offset of the newest batch that a majority had acknowledged; every batch has one record."""


def quorum(record: Path, *ends: tuple[int, int], lost: str = "power-loss") -> Story:
    """Three controllers: all had the batches up to `NEWEST`, then lost power. `ends` says what they have in the end."""
    story = Story(record)
    story.broker(0, 1)
    story.state(1)
    story.change(topology=Topology(controllers=(100, 101, 102), brokers=(1, 2, 3)))
    story.step(20, lost, 100, 101, 102)
    write_acknowledged(record, NEWEST + 1)
    for controller, (end, epoch) in zip((100, 101, 102), ends, strict=False):
        metadata_log(record, controller, end=end, epoch=epoch)
    return story


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([(10, 2), (10, 2), (10, 2)], "holds"),
        ([(10, 2), (4, 1), (4, 1)], "holds"),  # the controllers that are behind do not lead
        ([(4, 2), (4, 2), (4, 2)], "violated"),
        ([(10, 1), (9, 2), (9, 2)], "violated"),  # a newer epoch leads, without the last batch
        ([(10, 1), (10, 1), (10, 1)], "holds"),
    ],
)
def test_the_most_advanced_log_must_have_every_committed_batch(
    tmp_path: Path, ends: list[tuple[int, int]], status: str
) -> None:
    assert by_name(quorum(tmp_path, *ends).judge())[CLAUSE] == status


def test_a_missing_batch_is_shown_with_the_controllers_that_had_it(tmp_path: Path) -> None:
    verdict = quorum(tmp_path, *[(9, 2)] * 3).judge()
    (kept,) = [one for one in verdict.properties if one.name == CLAUSE]
    [row] = kept.evidence
    assert isinstance(row, dict)
    assert (row["metadata_offset"], row["epoch"], row["controllers"]) == (9, 1, [100, 101])
    assert verdict.outcome == "contradicted"


def test_where_no_controller_went_down_nothing_was_at_risk(tmp_path: Path) -> None:
    assert by_name(quorum(tmp_path, *[(10, 2)] * 3, lost="wait").judge())[CLAUSE] == "not-exercised"


@pytest.mark.parametrize(("ends", "status"), [([(4, 2)], "unknown"), ([(4, 2)] * 2, "violated")])
def test_the_log_of_a_minority_may_lack_what_was_committed(
    tmp_path: Path, ends: list[tuple[int, int]], status: str
) -> None:
    assert by_name(quorum(tmp_path, *ends).judge())[CLAUSE] == status


@pytest.mark.parametrize("lost", ["wipe-disk", "fail-disk"])
def test_a_disk_that_was_replaced_or_damaged_explains_what_is_missing(tmp_path: Path, lost: str) -> None:
    assert by_name(quorum(tmp_path, *[(4, 2)] * 3, lost=lost).judge())[CLAUSE] == "unknown"


def test_without_its_evidence_the_clause_is_unknown_and_the_run_is_still_as_predicted(tmp_path: Path) -> None:
    story = quorum(tmp_path, *[(4, 2)] * 3)
    (tmp_path / QUORUM_FILE).unlink()
    verdict = story.judge()
    assert by_name(verdict)[CLAUSE] == "unknown"
    story.predict("", steps=1)
    assert story.judge().outcome == "as-predicted"
    story.predict(f'holds = ["{CLAUSE}"]', steps=1)
    assert story.judge().outcome == "inconclusive"


def test_raw_files_that_changed_after_the_run_show_no_violation(tmp_path: Path) -> None:
    story = quorum(tmp_path, *[(10, 2)] * 3)
    story.judge()
    write_sums(RecordFolder(tmp_path))
    for controller in (100, 101, 102):
        [segment] = (tmp_path / RAW_DIR / f"controller-{controller}" / METADATA_FOLDER).glob("*.log")
        segment.write_bytes(segment.read_bytes()[:200])
    assert by_name(story.judge())[CLAUSE] == "unknown"


def test_a_damaged_file_of_batches_is_no_violation(tmp_path: Path) -> None:
    story = quorum(tmp_path, *[(4, 2)] * 3)
    (tmp_path / QUORUM_FILE).write_bytes(b"{}\n")
    assert by_name(story.judge())[CLAUSE] == "unknown"


OLD, NEW = {100: "D100", 101: "D101", 102: "D102"}, {100: "D100", 101: "D101"}


def dynamic_quorum(record: Path, ends: dict[int, int], disks: dict[int, str] = OLD) -> Story:
    """Three voters, two of them behind offset 4; both had all batches up to `NEWEST`, then lost power."""
    story = quorum(record)
    lines = [
        msgspec.json.decode(line) | {"voters": [100, 101]} for line in (record / QUORUM_FILE).read_bytes().splitlines()
    ]
    (record / QUORUM_FILE).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines[5:]))
    plain = [build.metadata_batch(at, build.feature("metadata.version", 7)) for at in range(NEWEST + 1)]
    batches = [build.voters(0, OLD), *plain[1:4], build.voters(4, NEW), *plain[5:]]
    for controller, end in ends.items():
        node = record / RAW_DIR / f"controller-{controller}"
        build.write_log(node / METADATA_FOLDER, *batches[:end])
        (node / "meta.properties").write_text(f"directory.id={disks[controller].ljust(22, 'A')}\n")
    return story


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ({100: 10, 101: 5}, "holds"),
        ({100: 10, 101: 5, 102: 3}, "holds"),
        ({100: 9, 101: 9}, "violated"),
        ({100: 9, 101: 9, 102: 10}, "holds"),  # an observer has it from a leader
        ({100: 9}, "unknown"),
        ({100: 9, 102: 9}, "unknown"),  # two of three controllers, and one of two voters
        ({100: 3, 102: 3}, "violated"),  # the newest voters of these logs are three
    ],
)
def test_the_final_logs_are_those_of_a_majority_of_the_last_voters(
    tmp_path: Path, ends: dict[int, int], status: str
) -> None:
    assert by_name(dynamic_quorum(tmp_path, ends).judge())[CLAUSE] == status


def test_the_log_on_a_disk_that_does_not_vote_is_no_part_of_a_majority(tmp_path: Path) -> None:
    story = dynamic_quorum(tmp_path, {100: 9, 101: 9}, {100: "D100", 101: "new"})
    assert by_name(story.judge())[CLAUSE] == "unknown"
