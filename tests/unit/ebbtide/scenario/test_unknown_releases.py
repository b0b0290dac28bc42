"""`ebbtide scenarios check` warns of releases that Ebbtide does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.jars.maven import ArtifactMissing
from cluster.jars.releases import _missing_error
from ebbtide.errors import ExitCode
from ebbtide.scenario import catalogue
from ebbtide.scenario.steps.process import UpgradeStep
from harness.cli.main import main


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
