"""Whether a judged run lets its test pass, and what pytest shows of the run where it does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import tomli_w
from checkout import DATA, ROOT
from fake_runner import ENDS, LOST, write_record
from records import as_record

from analysis.judge.outcome.deciding import decide
from analysis.judge.outcome.prediction import ObservedRun, compare
from ebbtide.pytest_plugin.chaos_scenario import chaos_scenario
from ebbtide.pytest_plugin.judgement import (
    allowed_expectations,
    failure_message,
    one_line_summary,
    report_properties,
    where_to_look,
)
from ebbtide.pytest_plugin.run_record import RunRecord, read_record
from ebbtide.record.files import RecordFolder
from ebbtide.record.judged_by import JudgedBy
from ebbtide.record.manifest import read_manifest
from ebbtide.record.own_producers import OwnProducer
from ebbtide.record.verdict import AnomalyCount, Loss, PropertyResult, Regression
from ebbtide.scenario import catalogue
from ebbtide.scenario.write import text_of
from harness.cli.verdict_output import VerdictOutput


@pytest.mark.parametrize(
    ("prediction", "also"),
    [
        ('never = ["elections", "kills"]', "elections"),
        ('anomalies = "none"', "poll-skip"),
        ("elected_from_elr = false", "elections-from-elr"),
        ('loss = { uncommitted = "none" }', "uncommitted-at-failover"),
    ],
)
def test_an_expected_violation_excuses_nothing_else_that_the_prediction_rules_out(
    tmp_path: Path, prediction: str, also: str
) -> None:
    uncommitted = msgspec.structs.replace(LOST, committed=False, cause="uncommitted-at-failover")
    verdict = msgspec.structs.replace(
        ENDS["loses"],
        losses=[LOST, uncommitted],
        anomalies=[AnomalyCount(kind=kind, topic="t", partition=0, count=12) for kind in ("lost", "poll-skip")],
        coverage={"elections": 2, "elections-from-elr": 1, "kills": 0},
    )
    run = write_record(tmp_path / "run", "4.3.1", 7, verdict)
    expected = ["last-replica-standing"]
    assert failure_message(run, expected) is None
    scenario = tomllib.loads(catalogue.text_of("healthy")) | {
        "predictions": [{"kafka": ">=3.3", "clause": "a clause", **tomllib.loads(prediction)}]
    }
    (run.path / "scenario.toml").write_text(tomli_w.dumps(scenario))
    heading = f"contradicted: expected only last-replica-standing, but the run also shows {also}"
    assert str(failure_message(run, expected)).splitlines()[0] == heading
    assert failure_message(run, [*expected, also]) is None


STANDING = "last-replica-standing"
HARMLESS = "uncommitted-at-failover"
UNCOMMITTED = msgspec.structs.replace(LOST, committed=False, cause="uncommitted-at-failover")
FALL = Regression(topic="t", partition=0, from_=9, to=3, leader_epoch=2, cause="last-replica-standing")


def chaos_run(
    folder: Path, expected: list[str], losses: list[Loss], falls: list[Regression], acked: int = 100
) -> RunRecord:
    """A run of `chaos` with this marker, held to what its scenario file predicts."""
    run = write_record(folder, "4.3.1", 7, ENDS["holds"])
    (folder / "scenario.toml").write_text(text_of(chaos_scenario({}, "4.3.1", expected)))
    seen = ObservedRun(
        committed_lost=sum(one.count for one in losses if one.committed),
        uncommitted_lost=sum(one.count for one in losses if not one.committed),
        causes={str(one.cause): one.count for one in losses if one.committed},
        kinds={"hw-regression": len(falls)},
        acked=acked,
    )
    comparison = compare(as_record(folder).prediction, read_manifest(RecordFolder(folder)), seen)
    outcome, why = decide(checked=[], blamed=[], comparison=comparison, no_scenario=None, faulty=[])
    verdict = msgspec.structs.replace(run.verdict, outcome=outcome, why=why, losses=losses, regressions=falls)
    return replace(run, verdict=verdict)


@pytest.mark.parametrize(
    ("expected", "losses", "falls", "says"),
    [
        ([STANDING], [LOST], [], None),
        ([STANDING], [], [FALL], None),
        ([STANDING, "unclean-election"], [LOST], [FALL], None),
        ([HARMLESS], [UNCOMMITTED], [], None),
        ([STANDING], [], [], f"not violated: expected {STANDING}, and nothing was lost or violated"),
        ([HARMLESS], [], [], f"not violated: expected {HARMLESS}, and nothing was lost or violated"),
        (
            [STANDING],
            [UNCOMMITTED],
            [],
            f"not violated: expected {STANDING}, and nothing was lost except by {HARMLESS} or violated",
        ),
        (
            [HARMLESS],
            [UNCOMMITTED, LOST],
            [],
            f"contradicted: expected only {HARMLESS}, but the run also shows {STANDING}",
        ),
        (["unclean-election"], [LOST], [], f"contradicted: expected unclean-election, but the run shows {STANDING}"),
    ],
)
def test_a_chaos_run_passes_only_if_it_shows_the_violation_that_is_expected(
    tmp_path: Path, expected: list[str], losses: list[Loss], falls: list[Regression], says: str | None
) -> None:
    told = failure_message(chaos_run(tmp_path / "run", expected, losses, falls), expected)
    assert (told.splitlines()[0] if told is not None else None) == says


OWN = OwnProducer(client="orders-1", acks=1, topic="orders", partition=0, acked=9, lost=2, why="a leader lacked them")


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ([HARMLESS], None),
        ([STANDING], f"contradicted: expected {STANDING}, but the run shows {HARMLESS}"),
    ],
)
def test_a_loss_of_the_tests_own_acks_1_producer_passes_only_if_it_is_expected(
    tmp_path: Path, expected: list[str], says: str | None
) -> None:
    run = chaos_run(tmp_path / "run", expected, [], [])
    verdict = msgspec.structs.replace(run.verdict, outcome="as-predicted", own_producers=[OWN])
    told = failure_message(replace(run, verdict=verdict), expected)
    assert (told.splitlines()[0] if told is not None else None) == says


def test_reports_have_what_own_producers_lost_if_their_traffic_was_recorded(tmp_path: Path) -> None:
    run = chaos_run(tmp_path / "run", [STANDING], [], [])
    own = replace(run, verdict=msgspec.structs.replace(run.verdict, own_producers=[OWN]))
    added = {*report_properties(own)} - {*report_properties(run)}
    line = "your producers: 9 acked records, 2 lost"
    assert added == {("ebbtide_own_acked", 9), ("ebbtide_own_lost", 2), ("ebbtide_own", line)}
    assert one_line_summary(own).endswith(f"; {line}")


def test_a_chaos_run_with_published_ports_predicts_that_no_acked_record_is_lost() -> None:
    (plain,), (published,) = (
        chaos_scenario({}, "4.3.1", None, publish=publish).predictions for publish in (False, True)
    )
    assert (plain.loss.uncommitted, published.loss.uncommitted) == ("any", "none")


def test_a_chaos_run_that_acked_nothing_proves_no_expected_violation(tmp_path: Path) -> None:
    told = failure_message(chaos_run(tmp_path / "run", [STANDING], [], [], acked=0), [STANDING])
    assert str(told).startswith("inconclusive: no record was acked")


def test_an_expected_violation_that_could_not_be_decided_is_not_said_to_be_absent(tmp_path: Path) -> None:
    run = chaos_run(tmp_path / "run", [STANDING], [], [])
    open_ = [PropertyResult(name="no-aborted-read", kip="KIP-98", status="unknown")]
    run = replace(run, verdict=msgspec.structs.replace(run.verdict, outcome="contradicted", properties=open_))
    told = str(failure_message(run, [STANDING])).splitlines()[0]
    assert told == f"inconclusive: expected {STANDING}, which did not happen; undecided: no-aborted-read"


def test_what_can_be_expected_is_what_a_verdict_can_say() -> None:
    causes, others = allowed_expectations()
    assert {STANDING, HARMLESS, "unexplained"} < set(causes)
    assert {"no-aborted-read", "elections", "poll-skip"} < set(others)
    # They have causes, and are named by these.
    assert {"lost", "hw-regression"}.isdisjoint(others)


def test_what_can_be_expected_is_known_without_spark() -> None:
    script = "\n".join(
        (
            "import sys",
            "from ebbtide.pytest_plugin.judgement import allowed_expectations",
            "allowed_expectations()",
            "print('pyspark' in sys.modules)",
        )
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"


RECORD = DATA / "runs" / "last-replica-standing-3.9.1"


def test_a_run_is_shown_in_one_short_line() -> None:
    run = read_record(RECORD)
    assert repr(run) == f"RunRecord({str(run.path)!r}, as-predicted, lost_committed=2000, lost_uncommitted=0)"


def test_pytest_and_the_command_say_the_same_line_to_type_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # in the folder above a record, the command leaves the folder out of its path
    run = read_record(RECORD)
    output = VerdictOutput(1, as_json=False)
    output.add(RecordFolder(RECORD), run.verdict)
    output.end()
    (said,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  next: "))
    assert said in where_to_look(run)
    assert said.startswith(f"  next:   ebbtide explain {RECORD} ")


def test_a_build_says_by_which_rules_it_is_judged() -> None:
    run = read_record(RECORD)
    assert not any("judged" in line for line in where_to_look(run))
    protocol = JudgedBy(variant="elr-43", nearest="4.4.0", known=False)
    build = replace(run, kafka="4.5.0@0123abcd", verdict=msgspec.structs.replace(run.verdict, protocol=protocol))
    said = "  judged: by elr-43; 4.5.0@0123abcd is newer than every release that Ebbtide knows"
    assert where_to_look(build)[0] == said


def test_a_run_can_be_replayed_unless_its_cluster_was_only_watched(tmp_path: Path) -> None:
    assert where_to_look(read_record(RECORD))[-1] == f"  again:  ebbtide replay {RECORD}"
    shutil.copytree(RECORD, tmp_path / "watched")
    file = tmp_path / "watched" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"runtime": "foreign", "watch": {}}))
    assert not any("ebbtide replay" in line for line in where_to_look(read_record(tmp_path / "watched")))


def test_a_test_with_clients_of_its_own_runs_again_in_pytest_because_a_replay_has_none_of_them() -> None:
    run = read_record(RECORD)
    own = replace(run, verdict=msgspec.structs.replace(run.verdict, own_producers=[OWN]))
    assert where_to_look(own)[-1] == "  again:  pytest -x --lf"
    assert not any("again:" in line for line in where_to_look(own, has_failed=False)), "--lf would run all tests"
