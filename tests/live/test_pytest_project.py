"""A project of its own that has Ebbtide's wheel installed: how its tests end on real Kafka, and what CI is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import runner_contract
from host_state import HostState, left_after

from ebbtide_pytest.runner import CommandRunner
from ebbtide_pytest.settings import Settings
from harness.releases import ensure

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]


def _install(where: Path, scratch: Path) -> None:
    """Ebbtide's wheel, built from what git knows, in a folder of its own."""
    source = scratch / "source"
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in os.fsdecode(listing.stdout).splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", where]
    subprocess.run([*pip, source], check=True)


def test_a_project_with_the_wheel_is_told_the_truth(tmp_path: Path) -> None:
    ensure(["3.9.1", "4.3.1"])
    project, site = tmp_path / "project", tmp_path / "site"
    shutil.copytree(ROOT / "tests" / "sample_project", project)
    _install(site, tmp_path)
    before = HostState.now()
    done = subprocess.run(
        # The other two take as long again, and end in ways that are seen elsewhere.
        [
            sys.executable,
            "-m",
            "pytest",
            "--junitxml=junit.xml",
            "--ebbtide-runtime=local",
            "-k",
            "not 4.3.1 or docker",
        ],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(site), "DOCKER_HOST": "unix:///nonexistent", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "1 failed, 1 skipped, 3 deselected" in done.stdout, done.stdout + done.stderr
    assert "contradicted: predicted no loss of committed records, seen 2,000 lost" in done.stdout
    assert "first at offset 0, last at 1999; cause: last-replica-standing" in done.stdout
    assert "ebbtide replay " in done.stdout
    assert "needs docker: " in done.stdout
    failed = ElementTree.parse(project / "junit.xml").find(".//testcase[failure]")
    assert failed is not None
    told = {one.get("name"): one.get("value") for one in failed.iter("property")}
    assert (told["ebbtide_outcome"], told["ebbtide_lost"]) == ("contradicted", "2000")
    record = Path(str(told["ebbtide_record"]))
    assert record.parent == project / "runs"
    assert (record / "report.html").is_file()
    assert left_after(before, str(tmp_path), record.name) == []


def test_the_real_runner_keeps_the_contract_that_the_stand_in_keeps(tmp_path: Path) -> None:
    ensure([runner_contract.KAFKA])
    settings = Settings(runs=tmp_path / "runs", seed=3, runtime="local", kafka=None, require=False, keep_cluster=False)
    before = HostState.now()
    runner = CommandRunner()
    runner_contract.abilities_have_names_and_reasons(runner)
    runner_contract.an_unknown_scenario_is_the_harness_failing(runner, settings)
    runner_contract.a_chaos_run_is_judged_with_its_steps(runner, settings)
    assert left_after(before, str(tmp_path), *(record.name for record in settings.runs.iterdir())) == []
