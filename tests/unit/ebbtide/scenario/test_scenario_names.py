"""A scenario is named on the command line; a mistyped name or action suggests what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import ExitCode
from harness.cli.main import main


def test_show_prints_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "my own.toml"
    mine.touch()
    for words, told in (
        ([], "error: missing: NAME\n"),
        ([str(mine)], f"next:    cat '{mine}'\n"),
        (["healthy.toml"], "next:    ebbtide scenarios    (lists all"),
    ):
        assert main(["scenarios", "show", *words]) == ExitCode.USAGE
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("healthy", "did you mean `ebbtide scenarios show healthy`?"),
        ("rack-powe", "did you mean `ebbtide scenarios show rack-power`?"),
        ("unclean-el", "did you mean `ebbtide scenarios show unclean-election`?"),
        ("rack", "did you mean a scenario, such as rack-power, rack-power-flushed?"),
        ("shw", "did you mean show?"),
        ("xyz", "error: unknown action\n  got:     xyz\n  allowed: show, from, check\n"),
    ],
)
def test_a_word_that_is_no_action_may_be_one_or_a_scenario(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenarios", word]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["run"], ["scenarios", "check"], ["scenarios", "show"]], ids=" ".join)
def test_the_beginning_of_a_name_is_enough_to_suggest_a_scenario(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert main([*verb, "unclean-el"]) == ExitCode.USAGE
    assert "error: unknown scenario, did you mean unclean-election?\n" in capsys.readouterr().err
    assert main([*verb, "rack"]) == ExitCode.USAGE
    assert "allowed: rack-power, rack-power-flushed, or the path of a .toml file\n" in capsys.readouterr().err
