"""The comparison of runs: one time axis, what differs in words, and what does not count as different."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from checkout import DATA
from judge_records import Story
from records import as_record

from analysis.compare.differences import election_rows, failures_of, rows_of, sentences_of
from analysis.compare.page import align, common_partition, compare_runs, render_comparison
from analysis.report.drawing.layout import LEGEND, draw
from analysis.report.drawing.model import DrawnPartition
from analysis.report.drawing.scale import WIDE
from analysis.report.picture.building import picture_of
from analysis.report.picture.model import RunPicture
from analysis.report.summary import JudgedRun, judged_run
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import failure_keys, read_manifest, write_manifest
from ebbtide.record.verdict import Counts, read_judgement, unfinished_verdict, write_verdict
from harness.cli.main import main

WITHOUT_ELR = DATA / "runs" / "last-replica-standing-3.9.1"
WITH_ELR = DATA / "runs" / "last-replica-standing-4.3.1"


def read_picture(record: Path) -> RunPicture:
    picture = picture_of(as_record(record), read_judgement(RecordFolder(record)))
    assert picture is not None
    return picture


def read_run_of(record: Path) -> JudgedRun:
    return judged_run(as_record(record), read_judgement(RecordFolder(record)))


@pytest.fixture(scope="module")
def pictures() -> tuple[RunPicture, ...]:
    return align([read_picture(WITHOUT_ELR), read_picture(WITH_ELR)]).pictures


def test_the_first_common_step_is_at_the_same_place_of_both_axes(pictures: tuple[RunPicture, ...]) -> None:
    places = [(one.steps[0].begin_ns - one.begin_ns, one.end_ns - one.steps[0].begin_ns) for one in pictures]
    assert places[0] == places[1]
    assert [one.zero_ns for one in pictures] == [one.steps[0].begin_ns for one in pictures]


def test_an_axis_holds_the_whole_of_every_run(pictures: tuple[RunPicture, ...]) -> None:
    for record, aligned in zip((WITHOUT_ELR, WITH_ELR), pictures, strict=True):
        own = read_picture(record)
        assert aligned.begin_ns <= own.begin_ns
        assert aligned.end_ns >= own.end_ns


def test_runs_without_a_common_step_begin_together() -> None:
    one, two = read_picture(WITHOUT_ELR), msgspec.structs.replace(read_picture(WITH_ELR), steps=())
    aligned = align([one, two])
    assert aligned.step is None
    assert [picture.zero_ns for picture in aligned.pictures] == [one.zero_ns, two.zero_ns]


def test_the_election_that_differs_is_said_in_a_sentence(pictures: tuple[RunPicture, ...]) -> None:
    sentences = sentences_of([read_run_of(WITHOUT_ELR), read_run_of(WITH_ELR)], pictures, "t-0")
    assert sentences[0] == "Kafka 3.9.1 lost 2,000 records; Kafka 4.3.1 lost no record."
    assert sentences[1] == (
        "Kafka 4.3.1 elected broker 3 from the ELR, "
        "where Kafka 3.9.1 elected broker 2 from the ISR, which lost 2,000 records (t-0)."
    )


def test_runs_of_different_scenarios_say_so_first(pictures: tuple[RunPicture, ...]) -> None:
    one, two = read_run_of(WITHOUT_ELR), read_run_of(WITH_ELR)
    other = msgspec.structs.replace(two, manifest=msgspec.structs.replace(two.manifest, scenario="rack-power"))
    assert sentences_of([one, other], pictures, "t-0")[0] == (
        "The runs are of different scenarios (last-replica-standing, rack-power), "
        "so a difference need not come from the release."
    )


def test_a_run_beside_itself_differs_in_nothing(pictures: tuple[RunPicture, ...]) -> None:
    run = read_run_of(WITHOUT_ELR)
    assert sentences_of([run, run], [pictures[0], pictures[0]], "t-0") == ["Nothing differs but times."]
    assert not any(row.differs for row in rows_of([run, run]))


def test_another_broker_elected_by_the_same_road_is_no_difference(pictures: tuple[RunPicture, ...]) -> None:
    (partition,) = pictures[1].partitions
    other = msgspec.structs.replace(
        pictures[1],
        partitions=(
            msgspec.structs.replace(
                partition,
                elections=tuple(msgspec.structs.replace(one, leader=one.leader + 1) for one in partition.elections),
            ),
        ),
    )
    assert not any(row.differs for row in election_rows([pictures[1], other], "t-0"))
    assert any(row.differs for row in election_rows(pictures, "t-0"))


def test_the_partition_that_lost_records_is_compared(pictures: tuple[RunPicture, ...]) -> None:
    assert common_partition(pictures) == "t-0"
    assert common_partition([pictures[0], msgspec.structs.replace(pictures[1], partitions=())]) is None


def test_an_election_that_only_one_run_had_differs_and_another_broker_does_not() -> None:
    one, two = read_run_of(WITHOUT_ELR), read_run_of(WITH_ELR)
    (by_elr,) = two.from_elr
    other = msgspec.structs.replace(two, from_elr=(msgspec.structs.replace(by_elr, leader=by_elr.leader + 1),))
    names = ("guilty election", "elected from ELR")
    assert [row.name for row in rows_of([one, two]) if row.differs and row.name in names] == [*names]
    assert [row.name for row in rows_of([two, other]) if row.differs and row.name in names] == []


def test_how_long_a_run_took_is_no_difference() -> None:
    rows = {row.name: row for row in rows_of([read_run_of(WITHOUT_ELR), read_run_of(WITH_ELR)])}
    assert len(set(rows["longest phases"].cells)) == len(set(rows["took"].cells)) == 2
    assert not rows["longest phases"].differs
    assert not rows["took"].differs


def test_the_page_says_what_its_colours_and_signs_mean() -> None:
    page = render_comparison(compare_runs([WITHOUT_ELR, WITH_ELR], WITH_ELR.parent))
    assert page.count('<details class="legend">') == 1
    for _, name, meaning in LEGEND:
        assert f"{name}</dt><dd>{meaning}</dd>" in page


def test_the_acked_line_goes_to_the_end_of_each_run() -> None:
    for record in (WITHOUT_ELR, WITH_ELR):
        picture = read_picture(record)
        drawn = [draw(one).partitions[0] for one in (picture, align([read_picture(WITHOUT_ELR), picture]).pictures[1])]
        alone, aligned = (_end_of_line(one, "acked-end") for one in drawn)
        assert alone == WIDE
        assert aligned == pytest.approx(_place_of_end(picture), abs=WIDE / 50)


def _end_of_line(drawn: DrawnPartition, look: str) -> float:
    (path,) = (path for panel in drawn.panels for path in panel.paths if path.look == look)
    return float(path.d.rpartition("H")[2].partition("V")[0])


def _place_of_end(picture: RunPicture) -> float:
    """Return where the run ends on the axis that it has beside the run without ELR."""
    axis = align([read_picture(WITHOUT_ELR), picture]).pictures[1]
    return WIDE * (picture.end_ns - axis.begin_ns) / (axis.end_ns - axis.begin_ns)


def test_the_page_has_both_pictures_under_ids_of_their_own() -> None:
    page = render_comparison(compare_runs([WITHOUT_ELR, WITH_ELR], WITH_ELR.parent))
    assert page.count('<figure class="partition"') == 2
    assert 'id="r0p0"' in page
    assert 'id="r1p0"' in page
    assert 'http-equiv="Content-Security-Policy"' in page


def test_the_command_says_what_differs_and_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "both.html"
    assert main(["runs", "compare", str(WITHOUT_ELR), str(WITH_ELR), "--out", str(page)]) == 0
    lost, *_, last = capsys.readouterr().out.splitlines()
    assert (lost, last) == ("Kafka 3.9.1 lost 2,000 records; Kafka 4.3.1 lost no record.", f"comparison: {page}")
    assert page.is_file()


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """A run that failed because Kafka refused its topic, so that nothing was sent; its cluster had started."""
    story = Story(tmp_path / "refused", kafka="4.3.1")
    story.counts = Counts()
    for broker in (1, 2, 3):
        story.broker(1, broker)
    error = UsageError("Kafka does not know flush.message", where="topics.t.config", next="correct it")
    story.change(status="failed", scenario="last-replica-standing", **failure_keys(error))
    write_verdict(RecordFolder(story.record), story.judge())
    return story.record


WHY = "Kafka does not know flush.message (topics.t.config)"
REFUSED = f"Kafka 4.3.1 failed before it sent a record, so nothing can be compared for it: {WHY}."


def test_a_run_that_failed_before_it_sent_a_record_is_named_with_the_reason(
    refused: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "both.html"
    assert main(["runs", "compare", str(WITHOUT_ELR), str(refused), "--out", str(page)]) == 2
    assert capsys.readouterr().out == f"{REFUSED}\ncomparison: {page}\n"
    shown = page.read_text()
    assert f"<h1>{REFUSED}</h1>" in shown
    assert f"The run did not complete: {WHY}" in shown
    assert shown.count('<figure class="partition"') == 1
    assert 'class="differs"' not in shown


def test_a_run_that_was_not_judged_can_be_named_as_failed_too(refused: Path, tmp_path: Path) -> None:
    write_verdict(RecordFolder(refused), unfinished_verdict("run-1"))
    assert compare_runs([WITHOUT_ELR, refused], tmp_path).sentences == (REFUSED,)


def test_a_failed_run_whose_record_lost_its_tables_is_not_said_to_have_sent_nothing(
    refused: Path, tmp_path: Path
) -> None:
    verdict = read_judgement(RecordFolder(refused))
    write_verdict(RecordFolder(refused), msgspec.structs.replace(verdict, counts=Counts(sends=3, acked=3)))
    compared = compare_runs([WITHOUT_ELR, refused], tmp_path)
    assert compared.failures == (f"Kafka 4.3.1 failed, so a difference may come from that: {WHY}.",)
    assert compared.runs[1].is_compared
    assert "cannot tell:\n" in read_run_of(refused).protocol


def test_a_failed_run_without_a_reason_is_said_to_have_none(refused: Path, tmp_path: Path) -> None:
    manifest = msgspec.structs.replace(read_manifest(RecordFolder(refused)), failure=None, failure_clause=None)
    write_manifest(RecordFolder(refused), manifest)
    compared = compare_runs([WITHOUT_ELR, refused], tmp_path)
    assert compared.failures[0].endswith(": its record gives no reason.")
    assert compared.runs[1].failure == "its record gives no reason"


def test_other_runs_are_compared_beside_one_that_failed(refused: Path, tmp_path: Path) -> None:
    page = str(tmp_path / "three.html")
    assert main(["runs", "compare", str(refused), str(WITHOUT_ELR), str(WITH_ELR), "--out", page]) == 0
    compared = compare_runs([refused, WITHOUT_ELR, WITH_ELR], tmp_path)
    name = "Run 1 (Kafka 4.3.1)"
    assert compared.sentences[:2] == (
        REFUSED.replace("Kafka 4.3.1", name, 1),
        "Kafka 3.9.1 lost 2,000 records; run 3 (Kafka 4.3.1) lost no record.",
    )
    assert compared.partition == "t-0"
    assert [row.cells[0] for row in compared.elections] == ["-"]
    assert {row.name for row in compared.rows if row.differs} == {
        row.name for row in compare_runs([WITHOUT_ELR, WITH_ELR], tmp_path).rows if row.differs
    }


def test_runs_of_which_none_sent_a_record_are_refused_with_each_reason(refused: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(refused, other)
    with pytest.raises(UsageError, match="no run sent a record") as caught:
        compare_runs([refused, other], tmp_path)
    assert str(caught.value.got).count(WHY) == 2
    assert caught.value.next == "correct it"


def test_what_a_run_lost_is_not_known_if_its_clause_is_not(pictures: tuple[RunPicture, ...]) -> None:
    whole, two = read_run_of(WITHOUT_ELR), read_run_of(WITH_ELR)
    unknown = tuple(
        msgspec.structs.replace(one, status="unknown") if one.name.startswith("no-committed-loss") else one
        for one in two.verdict.properties
    )
    cut = msgspec.structs.replace(
        two,
        verdict=msgspec.structs.replace(two.verdict, properties=[*unknown]),
        manifest=msgspec.structs.replace(two.manifest, status="failed", failure="broker-1 died by itself"),
    )
    runs = [whole, cut]
    assert sentences_of(runs, pictures, "t-0", failures=failures_of(runs, pictures))[:2] == [
        "Kafka 4.3.1 failed, so a difference may come from that: broker-1 died by itself.",
        "Kafka 3.9.1 lost 2,000 records; it is not known what Kafka 4.3.1 lost.",
    ]


def test_a_complete_run_must_have_been_judged(tmp_path: Path) -> None:
    record = tmp_path / "record"
    shutil.copytree(WITH_ELR, record)
    write_verdict(RecordFolder(record), unfinished_verdict(read_manifest(RecordFolder(record)).run_id))
    with pytest.raises(UsageError, match="the record has not been judged"):
        compare_runs([WITHOUT_ELR, record], tmp_path)


def test_a_folder_that_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run record"):
        compare_runs([WITH_ELR, tmp_path], tmp_path)


def test_a_single_run_and_a_folder_of_runs_say_what_to_type(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, content in (("1", WITHOUT_ELR), ("2", WITH_ELR)):
        shutil.copytree(content, runs / name)
    for typed, got in (
        (runs, f"{runs}, a folder of 2 runs"),
        (tmp_path, f"{tmp_path}, a folder of 2 runs"),
        (runs / "1", f"only {runs / '1'}"),
    ):
        assert main(["runs", "compare", str(typed)]) == 4
        said = capsys.readouterr().err
        assert f"got:     {got}\n" in said
        assert f"next:    ebbtide runs --runs {runs}    (lists the runs; then type `ebbtide runs compare RUN" in said
    assert main(["runs", "compare", str(tmp_path / "nothing-there")]) == 4
    assert "no such run record" in capsys.readouterr().err
