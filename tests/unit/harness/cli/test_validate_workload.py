"""`ebbtide scenarios check` takes what `ebbtide watch` takes, and says what the file is."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from checkout import ROOT

from ebbtide.errors import ExitCode
from ebbtide.scenario import catalogue
from harness.cli.main import main


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """The workload that the page on watches shows, in a file."""
    page = (ROOT / "docs" / "watch.md").read_text()
    begin = page.index("    [topics.orders]")
    text = page[begin : page.index("\n\nWith such a prediction", begin)]
    file = tmp_path / "orders.toml"
    file.write_text(textwrap.dedent(text))
    return file


def test_the_workload_that_the_page_shows_is_valid_and_is_called_one(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenarios", "check", str(workload)]) == ExitCode.AS_PREDICTED
    printed = capsys.readouterr().out
    assert "ok, a workload of `ebbtide watch`: 1 topic, 1 producer, 1 consumer" in printed
    assert "`ebbtide run` also needs name, title, kafka" in printed
    assert main(["scenarios", "check", str(workload), "--json"]) == ExitCode.AS_PREDICTED
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], found["scenario"], found["run_needs"]) == (True, None, ["name", "title", "kafka"])


def test_what_a_watch_refuses_of_a_workload_is_a_problem_of_the_file(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload.write_text(workload.read_text().replace("rate_per_s = 100", "rate_per_s = 5000"))
    assert main(["scenarios", "check", str(workload)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "the producers of a watch are limited" in error
    assert "`ebbtide run` also needs name, title, kafka" in error


def test_a_file_with_steps_is_a_scenario_and_misses_its_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cut.toml"
    lines = catalogue.text_of("last-replica-standing").splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith("kafka = [")))
    assert main(["scenarios", "check", str(file)]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "missing key" in error
    assert "watch" not in error
