"""The pages of kinds of steps, of known bugs and of the catalogue are what the programs make of the code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from checkout import ROOT

from analysis.advise.known import DEFECTS
from analysis.advise.release import ReleaseFacts
from ebbtide.errors import UsageError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import read_manifest, write_manifest
from ebbtide.scenario import catalogue
from ebbtide.scenario.catalogue import find, names
from ebbtide.scenario.steps.disk import FailDiskStep
from ebbtide.scenario.steps.table import ADMIN_KINDS, HEALED_BY, KINDS, STEP_TYPES
from harness.nightly.job import Job, ReleaseTarget
from harness.nightly.store import FinishedJob, JobEnd
from tools.pages import kinds, known_bugs
from tools.pages.catalogue import INDEX, PAGES, index, measurements_of, page, read_stored, scenarios
from tools.pages.kinds import FAULTS, STEPS, faults_page, steps_page
from tools.pages.known_bugs import PAGE
from tools.pages.recorded_runs import finished_jobs


def rows(page: str, first: str) -> list[str]:
    """The rows of the page that begin with this cell."""
    return [line for line in page.splitlines() if line.startswith(f"| {first} |")]


def test_both_pages_are_those_of_the_code() -> None:
    assert FAULTS.read_text() == faults_page(FAULTS.read_text()), "python -m tools.pages.catalogue"
    assert STEPS.read_text() == steps_page(STEPS.read_text()), "python -m tools.pages.catalogue"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_one_row_of_steps_and_all_but_waiting_one_of_proofs(kind: str) -> None:
    table_of_steps = STEPS.read_text().partition("\n## ")[0]
    assert len(rows(table_of_steps, f"`{kind}`")) == 1
    assert [line for line in rows(FAULTS.read_text(), kind) if KINDS[kind].proof in line] == (
        [] if kind == "wait" else [f"| {kind} | {KINDS[kind].does} | {KINDS[kind].proof} | {KINDS[kind].ended_by} |"]
    )


def test_every_kind_with_an_effect_says_how_it_is_undone() -> None:
    lasting = {kind for kind, one in KINDS.items() if kind in HEALED_BY or one.ends_itself or kind in ADMIN_KINDS}
    assert {kind for kind in lasting if KINDS[kind].undone is None} == set()


def test_a_new_disk_fault_comes_into_every_table_by_its_struct_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class RotDiskStep(FailDiskStep, frozen=True, kw_only=True, tag="rot-disk"):
        pass

    monkeypatch.setattr(kinds, "KINDS", {**KINDS, "rot-disk": FailDiskStep.kind})
    monkeypatch.setitem(STEP_TYPES, "rot-disk", RotDiskStep)  # type: ignore[arg-type]
    faults, steps = faults_page(FAULTS.read_text()), steps_page(STEPS.read_text())
    assert len(rows(faults, "rot-disk")) == len(rows(steps, "`rot-disk`")) == 1
    assert "| fill-disk, read-only, fail-disk, rot-disk | loop mounts |" in faults


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(AssertionError, match="the mark of catalogue and the table"):
        faults_page("# Faults\n")


# The known bugs of docs/findings/README.md and of `ebbtide advise` are one list.


ROWS = re.findall(r"^\| \[([\w-]+)\]\(([\w-]+\.md)\): (.*?) \|", PAGE.read_text(), re.MULTILINE)


def test_the_program_writes_the_table_that_the_page_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    copy = tmp_path / "README.md"
    copy.write_text(text.replace("| KAFKA-14139 |", "| KAFKA-1 |"))
    monkeypatch.setattr(known_bugs, "PAGE", copy)
    assert known_bugs.main() == 0
    assert copy.read_text() == text, "python -m tools.pages.known_bugs"


def test_every_scenario_of_a_bug_exists_and_every_known_bug_of_the_catalogue_is_listed() -> None:
    scenarios = {one.scenario for one in DEFECTS if one.scenario}
    assert scenarios <= {*names()}
    bugs = {name for name in names() if re.match(r"kafka-(pr-)?\d", name)}
    assert bugs
    assert bugs <= scenarios


@pytest.mark.parametrize("finding", [name for name, _, _ in ROWS[:6]])
def test_every_finding_on_the_newest_releases_is_one_that_advise_names(finding: str) -> None:
    (defect,) = [one for one in DEFECTS if finding in one.name.split(", ")]
    assert defect.change
    assert defect.affected[-1][1] == ""


@pytest.mark.parametrize("bug", ["KAFKA-14402", "KAFKA-17754"])
def test_a_bug_that_a_release_repairs_only_with_a_feature_is_not_open_and_older_levels_have_it(bug: str) -> None:
    (defect,) = [one for one in DEFECTS if one.name == bug]
    affected, fixed = known_bugs._row(defect)[3:]
    assert fixed == "4.0, with transaction.version 2 and a client that speaks it"
    assert affected == "before 4.0, and newer ones without transaction.version 2 and a client that speaks it"
    assert defect.applies(
        ReleaseFacts(kafka="4.4.0", shown="4.4.0", variant="elr_43", features={"transaction.version": 1})
    )
    opened = {one.name for one in DEFECTS if known_bugs._row(one)[4] == "none: open"}
    with_level = {one.known_bug for one in find(defect.scenario).predictions if one.features}
    assert bug not in opened | with_level


# docs/scenarios.md and the pages of the scenarios say what the scenario files say, and what runs showed.


def finished_job(ended: JobEnd, number: int, **causes: int) -> FinishedJob:
    job = Job(scenario="healthy", target=ReleaseTarget(kafka="4.3.1"), runtime="local", number=number)
    return FinishedJob(night="n", job=job, run_id=f"r{number}", ended=ended, causes=causes, took_s=10.0 * number)


def test_the_index_and_the_pages_are_those_of_the_files() -> None:
    assert INDEX.read_text() == index(scenarios(), read_stored()), "python -m tools.pages.catalogue"
    written = {path.stem: path.read_text() for path in PAGES.iterdir()}
    assert written == {one.name: page(one, read_stored()) for one in scenarios()}, "python -m tools.pages.catalogue"


def test_repetitions_are_one_row_and_failures_of_the_host_are_none() -> None:
    [row] = measurements_of(
        [finished_job("as-predicted", 1), finished_job("contradicted", 2, unexplained=1_000), finished_job("failed", 9)]
    )
    assert row.outcomes == {"as-predicted": 1, "contradicted": 1}
    assert row.lost == ("1,000 unexplained", "none")
    assert row.took_s == 15.0
    text = page(catalogue.find("healthy"), [row])
    assert "| 4.3.1 | local | 1 as-predicted, 1 contradicted | 1,000 unexplained; none | 15 |" in text


def test_a_lost_commit_of_a_group_is_a_loss() -> None:
    lost = msgspec.structs.replace(finished_job("as-predicted", 1), commits={"unclean-election": 1})
    assert measurements_of([lost])[0].lost == ("1 commit of a group: unclean-election",)


def recorded(folder: Path, release: str, name: str) -> Path:
    """A judged run of last-replica-standing from the tests' data."""
    return Path(shutil.copytree(ROOT / "tests" / "data" / "runs" / f"last-replica-standing-{release}", folder / name))


def test_records_of_single_runs_count_like_those_of_a_night(tmp_path: Path) -> None:
    recorded(tmp_path, "3.9.1", "a")
    recorded(tmp_path, "4.3.1", "b")
    old, new = measurements_of(finished_jobs(tmp_path))
    assert (old.scenario, old.target, old.runtime, old.outcomes) == (
        "last-replica-standing",
        "3.9.1",
        "local",
        {"as-predicted": 1},
    )
    assert (old.lost, new.lost) == (("2,000 last-replica-standing",), ("none",))
    assert old.date.startswith("20")
    assert old.took_s > 5


def test_replays_interrupted_runs_and_scenarios_of_a_user_are_not_counted(tmp_path: Path) -> None:
    for name, changed in (
        ("replay", {"replay_of": "another"}),
        ("interrupted", {"status": "interrupted"}),
        ("own", {"scenario": "my-own"}),
    ):
        record = recorded(tmp_path, "4.3.1", name)
        write_manifest(RecordFolder(record), msgspec.structs.replace(read_manifest(RecordFolder(record)), **changed))
    assert list(finished_jobs(tmp_path)) == []


def test_a_record_that_was_not_judged_is_refused(tmp_path: Path) -> None:
    (recorded(tmp_path, "4.3.1", "r") / "verdict.json").unlink()
    with pytest.raises(UsageError, match="has not been judged"):
        list(finished_jobs(tmp_path))
