"""Groups that also run without a subcommand, and what a wrong word in its place is told."""

from __future__ import annotations

import pytest

from ebbtide.errors import ExitCode
from harness.cli.main import main


@pytest.mark.parametrize(
    ("line", "where"),
    [("nightly --budget 2h site nights", "--budget"), ("runs --json --runs x compare a b", "--runs, --json")],
)
def test_a_subcommand_refuses_the_options_of_a_call_without_one(
    line: str, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == ExitCode.USAGE
    _, told, next_ = capsys.readouterr().err.splitlines()
    assert told == f"  where:   {where}"
    assert next_.startswith(f"  next:    ebbtide {line.split()[0]} ")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nightly sit", "did you mean site?"),
        ("nightly zzz --budget 2h", "got:     zzz"),
        ("runs compar a", "did you mean compare?"),
        ("runs zzz zzz", "got:     zzz"),
        ("scenarios brigde", "did you mean `ebbtide scenarios show bridge`?"),
        ("scenarios unclean-el", "did you mean `ebbtide scenarios show unclean-election`?"),
        ("scenarios zzz", "allowed: show, check"),
        ("cluster fautl", "did you mean fault?"),
        ("kafka imgae", "did you mean image?"),
        ("--completion", "this option needs a value"),
        ("--completion tcsh", "allowed: bash, zsh, fish"),
    ],
)
def test_a_wrong_word_in_the_place_of_a_subcommand_gets_one_error(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert told in printed.err
    assert printed.err.count("error:") == 1
