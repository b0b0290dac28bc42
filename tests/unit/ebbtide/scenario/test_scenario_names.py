"""A scenario is named on the command line; a mistyped name or action suggests what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import ExitCode, UsageError
from ebbtide.scenario import catalogue
from harness.cli.main import main


def test_the_catalogue_lists_no_file_and_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "my own.toml"
    mine.touch()
    for words, next_ in (
        (["list", "healthy"], "ebbtide scenarios show healthy\n"),
        (["list", "my.toml"], "ebbtide scenarios\n"),
        (["list", "unclean-el"], "ebbtide scenarios show unclean-election\n"),
        (["healthy"], "ebbtide scenarios show healthy\n"),
        (["unclean-el"], "ebbtide scenarios show unclean-election\n"),
        (["rack"], "ebbtide scenarios    (lists all"),
        (["last"], "ebbtide scenarios    (lists all"),
        (["rack-powe"], "ebbtide scenarios show rack-power\n"),
        (["lst"], "ebbtide scenarios --help\n"),
        (["xyz"], "ebbtide scenarios --help\n"),
        (["show"], "ebbtide scenarios show healthy    (an example of a whole file)\n"),
        (["show", str(mine)], f"cat '{mine}'\n"),
        (["show", "healthy.toml"], "ebbtide scenarios    (lists all"),
    ):
        assert main(["scenarios", *words]) == ExitCode.USAGE
        assert f"next:    {next_}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("lst", "unknown action, did you mean list?"),
        ("xyz", "unknown action\n"),
        ("rack", "allowed: list, or show NAME, such as rack-power, rack-power-flushed\n"),
        ("unclean-el", "unknown action, did you mean a scenario?\n"),
    ],
)
def test_a_word_that_is_no_action_may_be_one_or_a_scenario(
    word: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scenarios", word]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["run"], ["validate"], ["scenarios", "show"]], ids=" ".join)
def test_the_beginning_of_a_name_is_enough_to_suggest_a_scenario(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert main([*verb, "unclean-el"]) == ExitCode.USAGE
    assert "error: unknown scenario, did you mean unclean-election?\n" in capsys.readouterr().err
    assert main([*verb, "rack"]) == ExitCode.USAGE
    assert "allowed: rack-power, rack-power-flushed, or the path of a .toml file\n" in capsys.readouterr().err


def test_an_unknown_scenario_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean healthy"):
        catalogue.find("heathy")
