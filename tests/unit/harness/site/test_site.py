"""The site of the nights: what each cell shows, that links lead somewhere, and that texts are escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from nights import job
from records import RecordBuilder

from ebbtide.errors import UsageError
from ebbtide.record.files import write_atomically
from harness.cli.main import main
from harness.nightly.store import OF_OWN_CLIENTS, FinishedJob, Followup, JobEnd, NightPlan, Store
from harness.site.model import MARKS, gravest, mark_of, page_name, site_of, write_site

FIRST, SECOND = "20261120T020000", "20261121T020000"


def finished(
    night: str, ended: JobEnd, *, scenario: str = "healthy", kafka: str = "4.3.1", number: int = 1, **more: object
) -> FinishedJob:
    run_id = f"{night}-{scenario}-{kafka}-{number}"
    done = FinishedJob(night=night, job=job(number, scenario, kafka), run_id=run_id, ended=ended, took_s=30)
    return msgspec.structs.replace(done, **more)


def store_of(folder: Path, *runs: FinishedJob, reports: bool = True) -> Store:
    store = Store(folder)
    for run in runs:
        store.append_job(run)
        if reports:
            write_atomically(store.runs / str(run.run_id) / "report.html", b"<p>the report</p>")
    return store


class _Links(HTMLParser):
    """Collects the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]


def links_of(page: Path) -> list[str]:
    parser = _Links()
    parser.feed(page.read_text())
    return parser.targets


def test_a_cell_has_the_gravest_mark_of_each_night_and_says_what_is_new(tmp_path: Path) -> None:
    store = store_of(
        tmp_path,
        finished(FIRST, "as-predicted"),
        finished(SECOND, "as-predicted"),
        finished(SECOND, "contradicted", number=2),
    )
    site = site_of([store])
    cell = site.cells["healthy", "4.3.1 (local)"]
    assert cell.nights == ("ok", "contradicted")
    assert cell.change == "new"
    assert [night.counts for night in site.nights] == [{"ok": 1}, {"contradicted": 1, "ok": 1}]


@pytest.mark.parametrize(
    ("done", "mark"),
    [
        (finished(FIRST, "as-predicted"), "ok"),
        (finished(FIRST, "as-predicted", causes={"beyond-tolerance": 3}), "loss"),
        (finished(FIRST, "as-predicted", causes={OF_OWN_CLIENTS: 3}), "loss"),
        (finished(FIRST, "contradicted", known_bug="KAFKA-1"), "known-bug"),
        (finished(FIRST, "inconclusive"), "inconclusive"),
        (finished(FIRST, "failed"), "failed"),
    ],
)
def test_a_predicted_loss_has_another_mark_than_a_run_that_lost_nothing(done: FinishedJob, mark: str) -> None:
    assert mark_of(done) == mark


def test_a_contradiction_is_graver_than_every_other_mark() -> None:
    assert gravest(list(MARKS)[::-1]) == "contradicted"
    assert gravest([]) is None


def test_every_link_of_the_site_leads_to_a_file(tmp_path: Path) -> None:
    runs = [finished(night, "as-predicted", kafka=kafka) for night in (FIRST, SECOND) for kafka in ("3.9.1", "4.3.1")]
    index = write_site(site_of([store_of(tmp_path / "store", *runs)]), tmp_path / "site")
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len([page for page in pages if page.parent.name == "cells"]) == 2
    assert len([page for page in pages if page.parent.name == "reports"]) == 4
    links = [(page, link) for page in pages for link in links_of(page)]
    assert len(links) > 6
    assert [link for page, link in links if not (page.parent / link).is_file()] == []
    assert index == tmp_path / "site" / "index.html"


def test_a_run_whose_record_was_removed_has_no_link(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", finished(FIRST, "as-predicted"), reports=False)
    write_site(site_of([store]), tmp_path / "site")
    (cell,) = (tmp_path / "site" / "cells").iterdir()
    assert links_of(cell) == ["../index.html"]
    assert "removed" in cell.read_text()


def test_two_stores_of_one_night_make_one_site_and_a_shared_run_counts_once(tmp_path: Path) -> None:
    shared = finished(FIRST, "as-predicted")
    one = store_of(tmp_path / "one", shared)
    two = store_of(tmp_path / "two", shared, finished(FIRST, "as-predicted", kafka="3.9.1"))
    site = site_of([one, two])
    assert site.nights[0].total == 2
    assert site.targets == ("3.9.1 (local)", "4.3.1 (local)")


def test_replays_of_contradictions_are_counted(tmp_path: Path) -> None:
    done = finished(FIRST, "contradicted")
    store = store_of(tmp_path, done)
    store.append_followup(FIRST, Followup(run_id=str(done.run_id), times=3, same=2))
    assert site_of([store]).replayed == (2, 3)


def test_texts_of_runs_are_escaped(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    done = finished(FIRST, "contradicted", scenario=hostile, why=(hostile,), run_id="r")
    store = store_of(tmp_path / "store", done, reports=False)
    write_site(site_of([store]), tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        assert "<script>" not in page.read_text()


def test_names_of_pages_are_files_and_differ_where_groups_differ() -> None:
    assert re.fullmatch(r"[A-Za-z0-9.-]+\.html", page_name("../../etc on 4.3.1 (local)"))
    assert page_name("a b on 4.3.1 (local)") != page_name("a-b on 4.3.1 (local)")


def test_a_run_id_that_leads_out_of_the_store_is_refused(tmp_path: Path) -> None:
    write_atomically(tmp_path / "outside" / "report.html", b"x")
    store = store_of(tmp_path / "store", finished(FIRST, "as-predicted", run_id="../../outside"), reports=False)
    with pytest.raises(UsageError, match="a line of the history cannot be read"):
        site_of([store])


def test_the_command_writes_the_site_into_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_of(tmp_path, finished(FIRST, "as-predicted"))
    assert main(["nightly", "site", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"site: {tmp_path}/site/index.html\n"


def test_a_folder_that_is_no_store_and_two_stores_without_a_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nightly", "site", str(tmp_path)]) == 4
    assert "not a store of nights: history.jsonl is missing" in capsys.readouterr().err
    store_of(tmp_path / "a", finished(FIRST, "as-predicted"))
    store_of(tmp_path / "b", finished(FIRST, "as-predicted"))
    assert main(["nightly", "site", str(tmp_path / "a"), str(tmp_path / "b")]) == 4
    assert "--out DIR" in capsys.readouterr().err


def test_a_run_record_has_its_report_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RecordBuilder().write(tmp_path)
    assert main(["nightly", "site", str(tmp_path)]) == 4
    shown = capsys.readouterr().err
    assert "this is a run record, not a store of nights; its report is report.html" in shown
    assert f"ebbtide analyze {tmp_path}" in shown


def test_a_store_in_which_no_run_has_ended_yet_is_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store(tmp_path).save_plan(NightPlan(night=FIRST, settings={}, started_s=0.0))
    assert main(["nightly", "site", str(tmp_path)]) == 4
    shown = capsys.readouterr().err
    assert "error: no run of this store has ended yet\n" in shown
    assert f"ebbtide nightly --store {tmp_path}    (with the options of the night that was interrupted" in shown
