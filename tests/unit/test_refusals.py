"""What the command refuses before it searches or starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "healthy", "--kafka", ""], "no Kafka release is named"),
        (["run", "healthy", "--kafka", " , "], "no Kafka release is named"),
        (["spec", "check", "--variant", "elr-43", "--admin-kinds", "move"], "none may be made"),
        (["spec", "find", "--variant", "elr-43", "--out", "/nowhere/x.toml"], "cannot be written there"),
        (
            ["spec", "find", "--variant", "elr-43", "--out", "x.toml", "--rf", "6", "--brokers", "7"],
            "a scenario has no room for so many brokers",
        ),
    ],
    ids=[
        "an empty release",
        "no release between commas",
        "kinds without a budget",
        "a folder that is not there",
        "more brokers than a scenario has",
    ],
)
def test_what_can_have_no_effect_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    assert told in capsys.readouterr().err


def test_a_file_is_no_folder_for_records(tmp_path: Path) -> None:
    from harness.errors import UsageError
    from harness.runner.host import require_space

    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="no folder"):
        require_space(tmp_path / "file" / "runs")


def test_a_search_says_what_it_was_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "check", "--variant", "elr-43", "--power-losses", "1"]) == 0
    assert "bounds:    3 brokers, 1 records with acks=all, power losses 1" in capsys.readouterr().out


def test_steps_that_need_volumes_are_refused_where_power_is_lost_by_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness import doctor
    from harness.errors import UsageError
    from harness.runner.launch import Wanted, check
    from harness.scenario import catalogue

    monkeypatch.setattr(doctor, "require_host", lambda _steps: None)
    wanted = Wanted(power_loss="truncate", runtime="local")
    check(wanted, catalogue.find("last-replica-standing"), ["4.3.1"])
    with pytest.raises(UsageError, match="fill-disk"):
        check(wanted, catalogue.find("disk-full"), ["4.3.1"])
    monkeypatch.setattr(doctor, "why_no_volumes", lambda: "loop mounts: none")
    monkeypatch.setattr(doctor, "require_host", lambda _steps: pytest.fail("asked before"))
    with pytest.raises(UsageError, match="fill-disk; loop mounts: none"):
        check(Wanted(runtime="local"), catalogue.find("disk-full"), ["4.3.1"])
