"""Which releases a scenario may name: the current ones by one word, and unknown ones with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT

from analysis.spec.variants import protocol_for
from cluster.jars.maven import ArtifactMissing
from cluster.jars.releases import _missing_error
from ebbtide.errors import ExitCode
from ebbtide.releases import known_releases
from ebbtide.releases.known_releases import KNOWN, KnownRelease
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import load
from ebbtide.scenario.steps.process import UpgradeStep
from harness.cli.main import main

SHIPPED = ROOT / "ebbtide" / "scenarios" / "elections-and-settings" / "healthy.toml"


def test_the_word_stands_for_the_releases_whose_rows_say_so() -> None:
    assert '"@current"' in SHIPPED.read_text()
    assert load(SHIPPED).kafka == ("3.9.1", *(known.version for known in KNOWN if known.is_current))


def test_a_new_row_reaches_every_scenario_and_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = KnownRelease("4.5.0", "elr_43", 34, KNOWN[-1].features, is_current=True)
    monkeypatch.setattr(known_releases, "KNOWN", (*KNOWN, planted))
    assert load(SHIPPED, strict=True).kafka[-1] == "4.5.0"
    assert protocol_for("4.5.0", {}).name == "elr_43"
    assert known_releases.minor_release_of(34) == "4.5"


def test_a_release_that_is_named_beside_the_word_runs_once() -> None:
    raw = known_releases.with_current_releases({"kafka": [KNOWN[-1].version, "@current"]})
    assert raw["kafka"] == [KNOWN[-1].version, *(one.version for one in KNOWN[:-1] if one.is_current)]


def test_a_release_that_ebbtide_does_not_know_is_a_warning_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.toml"
    text = catalogue.text_of("healthy")
    file.write_text(text.replace('"3.9.1"', '"9.9.9"'))
    line = next(number for number, one in enumerate(text.splitlines(), 1) if one.startswith("kafka"))
    assert main(["scenarios", "check", str(file)]) == ExitCode.AS_PREDICTED
    told = capsys.readouterr()
    assert told.out.startswith(f"{file}: ok, healthy: ")
    missing = _missing_error("9.9.9", ArtifactMissing("org.apache.kafka:kafka_2.13:9.9.9", Path("log")))
    assert told.err.splitlines() == [
        f"warning: {file}: Ebbtide does not know this Kafka release; a run ends at once if Maven's repository does not "
        "have it",
        f"  where:   kafka[0] (line {line})",
        f"  got:     {missing.got}",
        f"  allowed: {missing.allowed}",
        "  next:    ebbtide kafka fetch 9.9.9    (says whether it exists)",
    ]


def test_the_releases_of_upgrades_count_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new.toml"
    text = catalogue.text_of("rolling-upgrade")
    to = next(step.to for step in catalogue.find("rolling-upgrade").steps if isinstance(step, UpgradeStep))
    file.write_text(text.replace(f'to = "{to}"', 'to = "4.3.99"'))
    assert main(["scenarios", "check", str(file)]) == ExitCode.AS_PREDICTED
    told = capsys.readouterr().err
    assert "].to (line " in told
    assert "the nearest known is 4.3.1" in told
