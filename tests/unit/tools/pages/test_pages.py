"""The programs that make pages of docs/: each runs in the tests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from checkout import ROOT
from nights import World, job
from records import RecordBuilder

from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import TopicSetup, read_manifest, write_manifest
from ebbtide.record.verdict import Loss, Outage, Unavailability, Verdict, read_judgement, write_verdict
from harness.nightly.store import FinishedJob, Store
from tools.pages import acks, catalogue, facts, kinds, measurements, recovery
from tools.pages.measured import read_measured
from tools.pages.recovery_figures import read_figures

PROGRAMS = [path.stem for path in sorted((ROOT / "tools" / "pages").glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_has_a_test(name: str) -> None:
    takes = re.compile(rf"^from tools\.pages(?:\.{name} import | import .*\b{name}\b)", re.MULTILINE)
    tests = [path.name for path in (ROOT / "tests").rglob("test_*.py") if takes.search(path.read_text())]
    assert tests != [], f"no test takes what tools.pages.{name} makes"


def stored_run(folder: Path, scenario: str) -> Store:
    """A store with one judged run: each producer was told of three records, of which one is gone and one twice."""
    store = World(folder).store
    builder = RecordBuilder()
    for number, topic in enumerate(acks.PRODUCERS):
        builder.on(topic, base=number << 40).acked(1, 2, 3, at=0).final(1, 2, 2)
    builder.write(store.runs / "r")
    store.append_job(FinishedJob(night="n", job=job(1, scenario), run_id="r", ended="as-predicted", took_s=20.0))
    return store


def test_what_acks_buys_is_counted_in_the_records_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "RESULT", result := tmp_path / "acks.json")
    stored_run(tmp_path / "store", "acks-matrix-kill")
    assert acks.main([str(tmp_path / "store")]) == 0
    rows = read_measured(result).rows
    assert len(rows) == len(acks.PRODUCERS)
    assert rows[0][1:6] == ("4.3.1", "acks=0", "3", "1", "1")


def test_a_store_without_runs_of_the_matrix_leaves_the_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(acks, "RESULT", result := tmp_path / "acks.json")
    stored_run(tmp_path / "store", "healthy")
    with pytest.raises(SystemExit) as ended:
        acks.main([str(tmp_path / "store")])
    assert ended.value.code == 2
    assert "no STORE has judged runs of acks-matrix-kill, " in capsys.readouterr().err
    assert not result.exists()


def test_the_catalogue_takes_the_runs_of_a_store_into_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = Path(shutil.copytree(catalogue.DOCS, tmp_path / "docs"))
    for module, name in (
        (catalogue, "MEASURED"),
        (catalogue, "INDEX"),
        (catalogue, "PAGES"),
        (facts, "PAGE"),
        (kinds, "FAULTS"),
        (kinds, "STEPS"),
    ):
        monkeypatch.setattr(module, name, docs / getattr(module, name).name)
    (docs / "scenarios" / "no-more.md").write_text("")
    assert catalogue.main([]) == 0
    assert {path.name: path.read_text() for path in (docs / "scenarios").iterdir()} == {
        path.name: path.read_text() for path in (catalogue.DOCS / "scenarios").iterdir()
    }
    stored_run(tmp_path / "store", "healthy")
    assert catalogue.main([str(tmp_path / "store")]) == 0
    [row] = [
        row
        for row in catalogue.read_stored()
        if (row.scenario, row.target, row.runtime) == ("healthy", "4.3.1", "local")
    ]
    assert (row.outcomes, row.took_s) == ({"as-predicted": 1}, 20.0)
    assert (
        "| 4.3.1 | local | 1 as-predicted | none | 20 | 1970-01-01 |" in (docs / "scenarios" / "healthy.md").read_text()
    )


def recovered_run(folder: Path) -> Path:
    """A judged run of unclean-recovery: the last leader lost 534 records, and no other topic lost one."""
    RecordBuilder().write(folder)
    topics = {topic: TopicSetup(partitions=1, replication_factor=3, min_isr=2) for topic in recovery.WAYS}
    manifest = read_manifest(RecordFolder(folder))
    write_manifest(
        RecordFolder(folder),
        msgspec.structs.replace(manifest, scenario=recovery.SIDE_BY_SIDE, kafka="4.3.1", topics=topics),
    )
    lost = Loss(
        topic="last-leader",
        partition=0,
        acks=-1,
        committed=True,
        cause="last-known-leader",
        count=534,
        first_offset=0,
        last_offset=533,
        oldest_s=7.25,
    )
    outage = Outage(longest_s=53.2, total_s=53.2, spells=1)
    waited = Unavailability(topic="last-leader", partition=0, no_leader=outage)
    write_verdict(
        RecordFolder(folder), Verdict(run_id="r", outcome="as-predicted", losses=[lost], unavailable=[waited])
    )
    return folder


def recovery_figures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The figures of the recovery, in this folder; they begin empty."""
    monkeypatch.setattr(recovery, "FIGURES", figures := folder / "recovered.json")
    return figures


def recovered(figures: Path) -> list[tuple[str, ...]]:
    """The rows of the table that these figures make."""
    return [row[1:] for row in recovery.measured(read_figures(figures))[0].rows]


def test_the_ways_out_of_an_empty_isr_are_counted_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = recovery_figures(tmp_path, monkeypatch)
    assert recovery.main([str(recovered_run(tmp_path / "r"))]) == 0
    rows = recovered(figures)
    assert len(rows) == len(recovery.WAYS)
    assert ("the release: last leader", "1", "534", "7.2", "53.2", "-", "last-known-leader") in rows
    assert ("Balanced", "1", "0", "-", "-", "-", "-") in rows


def test_another_run_widens_the_ranges_and_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = recovery_figures(tmp_path, monkeypatch)
    first, second = recovered_run(tmp_path / "r"), recovered_run(tmp_path / "s")
    write_manifest(RecordFolder(second), msgspec.structs.replace(read_manifest(RecordFolder(second)), run_id="second"))
    verdict = read_judgement(RecordFolder(second))
    fewer = [msgspec.structs.replace(one, count=500, oldest_s=6.0) for one in verdict.losses]
    write_verdict(RecordFolder(second), msgspec.structs.replace(verdict, losses=fewer))
    assert recovery.main([str(first)]) == 0
    assert recovery.main([str(second)]) == 0
    row = ("the release: last leader", "2", "500 to 534", "6.0 to 7.2", "53.2", "-", "last-known-leader")
    assert row in recovered(figures)
    before = read_figures(figures)
    with pytest.raises(SystemExit):
        recovery.main([str(first)])
    assert "or it was added before" in capsys.readouterr().err
    assert recovery.main([]) == 0
    assert read_figures(figures) == before


def test_the_page_of_the_measurements_is_that_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = measurements.PAGE.read_text()
    monkeypatch.setattr(measurements, "ROOT", tmp_path)
    monkeypatch.setattr(measurements, "PAGE", page := tmp_path / "measurements.md")
    assert measurements.main() == 0
    assert page.read_text() == kept, "python -m tools.pages.measurements"


def test_a_row_of_a_measurement_has_a_cell_for_each_column(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_bytes((measurements.RESULTS / "demo.json").read_bytes().replace(b'"493b4ba0",', b"", 1))
    with pytest.raises(msgspec.ValidationError, match="3 columns, and a row of 2 cells"):
        read_measured(file)
