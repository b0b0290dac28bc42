"""What verbs print with --json is what docs/schemas/ says, key by key."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from checkout import ROOT
from command_tree import commands
from daemon_up import Up
from made_cluster import MadeCluster, served_cluster
from recorded_nights import store_of_nights
from schema_checks import assert_fits, breaks_of

from cluster.clean import CleanOutcome
from cluster.jars.releases import CachedRelease, FetchEvent
from ebbtide.errors import ExitCode
from ebbtide.record.steps import StepEntry
from ebbtide.record.verdict import VERDICT
from ebbtide.scenario import catalogue
from harness.cli.cluster_fault import result_of
from harness.cli.main import main
from tools.pages import schemas
from tools.pages.schemas import json_outputs

OUTPUTS = {one.name: one for one in json_outputs()}
LOST = ROOT / "tests" / "data" / "runs" / "last-replica-standing-3.9.1"
LAST_STANDING = "--bounds power-losses=1"


def test_the_schemas_are_those_of_the_outputs() -> None:
    for path, content in schemas.files().items():
        assert (schemas.DOCS / path).read_bytes() == content, "run: python -m tools.pages.schemas"


def test_every_verb_has_the_flag_and_a_schema() -> None:
    listed = {verb for one in OUTPUTS.values() for verb in one.verbs}
    without = {"scenarios show", "scenarios from", "cluster exec"}
    seen = set()
    for path, command in commands():
        if isinstance(command, click.Group) and not command.invoke_without_command:
            continue
        # All kinds of a fault print the same.
        verb = " ".join(path[:2] if path[:2] == ("cluster", "fault") else path)
        assert any("--json" in one.opts for one in command.params) == (verb not in without), verb
        seen.add(verb)
    # Forms of `analyze` and `advise` that print something else.
    forms = {"analyze -", "advise --down", "advise BEFORE AFTER", "advise --save"}
    assert seen == listed - forms | without


def test_patterns_are_regular_expressions_of_json_schema() -> None:
    patterns = [
        found
        for path in (ROOT / "docs" / "schemas").iterdir()
        for found in re.findall(r'"pattern": "(.*)"', path.read_text())
    ]
    assert patterns != []
    assert [one for one in patterns if r"\Z" in one or "(?P" in one] == []


def test_a_wrong_value_breaks_its_schema() -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "clean.json").read_text())
    for wrong in ({}, {"run_id": 1}, {"run_id": "r", "live": "no"}, {"run_id": "r", "undone": [1]}, {"x": 1}):
        assert list(breaks_of(schema, wrong, schema["$defs"])) != []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("scenarios", "scenarios --json"),
        ("kafka", "kafka list --json"),
        ("runs", f"runs --runs {LOST.parent} --json"),
        ("explain", f"explain {LOST} --json"),
        ("random", "random --seed 5 --steps 4 --json"),
        ("spec-check", f"spec check --variant kraft {LAST_STANDING} --json"),
        ("spec-check", f"spec check --variant elr-43 {LAST_STANDING} --json"),
        ("spec-rules", "spec rules elr-43 fence --json"),
    ],
)
def test_what_a_verb_prints_fits_its_schema(capsys: pytest.CaptureFixture[str], name: str, line: str) -> None:
    main(line.split())
    assert_fits(OUTPUTS[name], capsys.readouterr().out)


def test_a_recorded_verdict_fits_its_schema() -> None:
    for record in LOST.parent.iterdir():
        assert_fits(OUTPUTS["verdict"], json.dumps(json.loads((record / VERDICT).read_text())))


def test_checked_files_fit_their_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(LOST / "scenario.toml", good := tmp_path / "good.toml")
    (bad := tmp_path / "bad.toml").write_text('name = "x"\n[[producers]]\nacks = -1\n')
    main(["scenarios", "check", str(good), str(bad), "--json"])
    first, second = assert_fits(OUTPUTS["scenarios-check"], capsys.readouterr().out)
    assert (first["valid"], second["valid"]) == (True, False)
    acks = next(one for one in second["problems"] if one["where"] == "producers[0].acks")
    assert (acks["got"], acks["line"]) == ("-1", 3)
    assert re.search(r'-1 is "all"', acks["allowed"])


def test_a_valid_file_fits_its_schema_with_its_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.toml"
    file.write_text(catalogue.text_of("healthy").replace('"3.9.1"', '"9.9.9"'))
    assert main(["scenarios", "check", str(file), "--json"]) == ExitCode.AS_PREDICTED
    [found] = assert_fits(OUTPUTS["scenarios-check"], capsys.readouterr().out)
    assert (found["valid"], [one["got"] for one in found["warnings"]]) == (True, ["9.9.9"])


def test_a_counterexample_is_data_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"spec check --variant kraft {LAST_STANDING} --json".split()) == ExitCode.CONTRADICTED
    [found] = assert_fits(OUTPUTS["spec-check"], capsys.readouterr().out)
    first, last = found["counterexample"][0], found["counterexample"][-1]
    assert (first["kind"], first["leader"], first["isr"], first["lost"]) == ("beginning", 1, [1, 2, 3], "")
    assert last["lost"] == "a"
    assert last["logs"][str(last["leader"])] == ""


def test_a_counterexample_as_a_file_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"spec find --variant kraft {LAST_STANDING} --json --out {tmp_path / 'lost.toml'}"
    assert main(line.split()) == ExitCode.AS_PREDICTED
    [found] = assert_fits(OUTPUTS["spec-find"], capsys.readouterr().out)
    assert {one["loss"]["committed"] for one in found["predictions"]} == {"some", "none"}
    assert main(line.replace("kraft", "elr-43").replace("lost", "none").split()) == ExitCode.CONTRADICTED
    [found] = assert_fits(OUTPUTS["spec-find"], capsys.readouterr().out)
    assert (found["file"], found["why"]) == (None, "the property holds within the bounds")


def test_compared_runs_fit_their_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = f"{LOST} {LOST.parent / 'last-replica-standing-4.3.1'}"
    assert main(f"runs compare {both} --out {tmp_path / 'page.html'} --json".split()) == ExitCode.AS_PREDICTED
    [found] = assert_fits(OUTPUTS["runs-compare"], capsys.readouterr().out)
    assert [one["loses"] for one in found["runs"]] == [True, False]
    assert any("lost 2,000 records" in sentence for sentence in found["sentences"])
    assert Path(found["page"]).is_file()


def test_a_site_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_of_nights(tmp_path / "store", [LOST], nights=2)
    assert main(["nightly", "site", str(tmp_path / "store"), "--json"]) == ExitCode.AS_PREDICTED
    [found] = assert_fits(OUTPUTS["nightly-site"], capsys.readouterr().out)
    assert len(found["nights"]) == 2
    assert all(Path(one["page"]).is_file() for one in found["cells"])
    assert sum(one["runs"] for one in found["cells"]) >= 2


def test_a_fault_fits_its_schema(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, result in {"stop": "took-effect", "kill": "no-proof"}.items():
        assert main(["cluster", "fault", kind, "broker(1)", "--json"]) == (
            ExitCode.INCONCLUSIVE if result == "no-proof" else ExitCode.AS_PREDICTED
        )
        [found] = assert_fits(OUTPUTS["cluster-fault"], capsys.readouterr().out)
        assert (found["result"], found["step"]["step"]) == (result, kind)


def test_a_rule_that_met_nothing_yet_is_armed_and_a_step_without_a_time_never_fired() -> None:
    assert result_of(StepEntry(index=0, step="hold-request", fired_ns=1)) == "armed"
    assert result_of(StepEntry(index=0, step="hold-request", why="no leader")) == "never-fired"


def test_fetched_releases_fit_their_schema_and_progress_is_not_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fetch(version: str, note: Callable[[FetchEvent], None]) -> CachedRelease:
        note(FetchEvent(version=version, phase="fetching", jars=0))
        return CachedRelease(version=version, dir=tmp_path, digests={}, size_bytes=7)

    monkeypatch.setattr("harness.cli.kafka.fetch", fetch)
    assert main(["kafka", "fetch", "4.3.1", "--json"]) == ExitCode.AS_PREDICTED
    out, err = capsys.readouterr()
    [[row]] = assert_fits(OUTPUTS["kafka"], out)
    assert (row["version"], row["state"], row["size_bytes"]) == ("4.3.1", "ok", 7)
    assert "fetching with Maven" in err


def test_a_stopped_cluster_fits_its_schema(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "down", "--json"]) == ExitCode.AS_PREDICTED
    [found] = assert_fits(OUTPUTS["down"], capsys.readouterr().out)
    assert (found["name"], found["has_run"]) == ("one", False)


def test_no_lost_record_is_null_and_no_text_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", str(LOST.parent / "last-replica-standing-4.3.1"), "--json"])
    out, err = capsys.readouterr()
    assert assert_fits(OUTPUTS["explain"], out) == [None]
    assert "no acked record is lost" in err


def test_the_advice_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = MadeCluster()
    with served_cluster(cluster) as address:
        assert main(["advise", "--bootstrap", address, "--assume", "flush.messages=1", "--json"]) == 0
    [found] = assert_fits(OUTPUTS["advise"], capsys.readouterr().out)
    assert set(found["groups"][0]["lines"][0]["acks"]) == {"0", "1", "all"}


def test_the_status_of_a_cluster_fits_its_schema(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    main(["cluster", "status", "--json"])
    [status] = assert_fits(OUTPUTS["cluster"], capsys.readouterr().out)
    assert status["partitions"][0]["leader"] == 2
    assert status["nodes"]["broker-1"]["registration"] == "unfenced"


def test_what_clean_undid_fits_its_schema(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [CleanOutcome(run_id="a", undone=("volume x",)), CleanOutcome(run_id="b", failed=("no",))]
    monkeypatch.setattr("cluster.clean.clean", lambda **_: outcomes)
    assert main(["clean", "--json"]) == 3
    assert len(assert_fits(OUTPUTS["clean"], capsys.readouterr().out)) == 2
