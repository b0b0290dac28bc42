"""What docs and examples tell to type or to copy for a night."""

from __future__ import annotations

import re
from pathlib import Path

from checkout import ROOT

from ebbtide.scenario import catalogue
from harness.runner.run import RunRequest
from harness.runner.side_by_side import limit_s

EXAMPLES = ROOT / "examples" / "nightly"


def test_the_command_is_named_by_its_path_where_no_virtual_environment_is_on_the_path() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *EXAMPLES.iterdir()]
    bare = re.compile(r"^.*(?:\b(?:sudo|root) |Exec\w+=)ebbtide\b.*$", re.MULTILINE)
    assert {page.name: found for page in pages if (found := bare.findall(page.read_text()))} == {}


def test_the_history_is_kept_of_nights_that_fail_the_job_too() -> None:
    steps = re.split(r"\n      - ", (EXAMPLES / "github-workflow.yml").read_text())
    [restored] = [at for at, step in enumerate(steps) if step.startswith("uses: actions/cache/restore@")]
    [night] = [at for at, step in enumerate(steps) if "ebbtide nightly" in step and "run:" in step]
    [saved] = [at for at, step in enumerate(steps) if step.startswith("uses: actions/cache/save@")]
    assert restored < night < saved
    assert "if: always()" in steps[saved]
    assert not [step for step in steps if step.startswith("uses: actions/cache@")]
    same = re.compile(r" (?:path: \|(?:\n {12}\S+)+|key: .*)")
    assert same.findall(steps[restored]) == same.findall(steps[saved])
    assert len(same.findall(steps[saved])) == 2


def test_the_unit_ends_a_night_that_does_not_end_and_not_one_whose_last_run_hangs() -> None:
    unit = (EXAMPLES / "ebbtide-nightly.service").read_text()
    [budget_h], [limit_h] = re.findall(r"--budget (\d+)h", unit), re.findall(r"\nTimeoutStartSec=(\d+)h\n", unit)
    requests = [
        RunRequest(scenario=catalogue.find(name), kafka="4.3.1", seed=1, runs=Path()) for name in catalogue.names()
    ]
    assert int(limit_h) * 3600 > int(budget_h) * 3600 + max(map(limit_s, requests))
