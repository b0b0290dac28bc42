"""`ebbtide clean`: what it says, and its exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster import clean as cleaning
from cluster.clean import CleanOutcome
from ebbtide.errors import ExitCode
from harness.cli.main import main


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[CleanOutcome]:
    """What cleaning this host is made to find."""
    found: list[CleanOutcome] = []
    monkeypatch.setattr(cleaning, "clean", lambda forget: found)
    return found


def test_each_thing_undone_is_listed(outcomes: list[CleanOutcome], capsys: pytest.CaptureFixture[str]) -> None:
    outcomes.append(CleanOutcome(run_id="r1", undone=("network namespace a", "volume b")))
    assert main(["clean"]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out == "r1: undone: network namespace a\nr1: undone: volume b\n"


def test_what_could_not_be_undone_is_an_error(outcomes: list[CleanOutcome], capsys: pytest.CaptureFixture[str]) -> None:
    outcomes.append(CleanOutcome(run_id="r1", undone=("volume a",), failed=("volume b: busy",)))
    assert main(["clean"]) == ExitCode.HARNESS_FAILED
    assert "r1: NOT undone: volume b: busy" in capsys.readouterr().err
    assert main(["clean", "--forget"]) == ExitCode.AS_PREDICTED
    assert "r1: NOT undone, and forgotten: volume b: busy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("of_root", "code"), [(0, ExitCode.AS_PREDICTED), (3, ExitCode.HARNESS_FAILED), (None, ExitCode.AS_PREDICTED)]
)
def test_an_ordinary_user_cleans_its_own_ledgers_before_those_in_the_helper_container(
    outcomes: list[CleanOutcome],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    of_root: int | None,
    code: ExitCode,
) -> None:
    outcomes.append(CleanOutcome(run_id="w", undone=("topic ebbtide-watch-1",)))
    asked: list[list[str]] = []

    def rerun(request: object, argv: Sequence[str]) -> int | None:
        asked.append(list(argv))
        return of_root

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("cluster.privileges.choice.rerun_with_privileges", rerun)
    assert main(["clean"]) == code
    assert asked == [["clean"]]
    assert capsys.readouterr().out == "w: undone: topic ebbtide-watch-1\n"


def test_what_cannot_be_undone_stays_in_the_ledger_until_it_is_forgotten(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", _DIES_WITH_A_CONTAINER, str(tmp_path)], check=False)
    assert ended.returncode == 7
    for _ in range(2):
        [outcome] = cleaning.clean(tmp_path / "ledger")
        assert "no Docker daemon" in outcome.failed[0]
    [outcome] = cleaning.clean(tmp_path / "ledger", forget=True)
    assert outcome.failed
    assert cleaning.clean(tmp_path / "ledger") == []


_DIES_WITH_A_CONTAINER = """
import os, sys
from pathlib import Path
from cluster.host.containers import Container
from cluster.host.ledger import Ledger
folder = Path(sys.argv[1])
ledger = Ledger.open("r1", folder, ledgers=folder / "ledger")
ledger.record(Container(docker_host=f"unix://{folder}/socket", name="c", run_id="r1"))
os._exit(7)
"""
