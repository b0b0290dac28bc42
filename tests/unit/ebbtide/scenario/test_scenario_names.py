"""A scenario is named on the command line, and in an error as an example of the key which is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.errors import ExitCode
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import ClusterSpec
from ebbtide.scenario.shipped import example_with
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


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("cluster.log_dirs", "log_dirs"),
        ("cluster.log_dir", "log_dirs"),
        ("cluster.quorum", "quorum"),
        ("cluster.initial_voters", "quorum"),
        ("cluster.inital_voters", "quorum"),
        ("cluster.features, or --feature", "features"),
        ("producers[1].client", "client"),
        ("producers[0].properties.retries", "properties"),
        ("consumers[0].group_protocol", "group_protocol"),
        ("topics.t.assignment", "assignment"),
    ],
)
def test_the_suggested_scenario_uses_the_key(where: str, key: str) -> None:
    text = catalogue.text_of(example_with(where))
    assert f"\n{key} = " in text or f".{key}]\n" in text, text


@pytest.mark.parametrize("key", sorted(ClusterSpec.__struct_fields__))
def test_every_key_of_a_cluster_has_a_scenario_that_shows_it(key: str) -> None:
    assert example_with(f"cluster.{key}") != "healthy"


def test_the_first_mistake_of_a_file_chooses_the_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(catalogue.text_of("healthy").replace("[topics.t]", "[cluster]\nlog_dirs = 9\n[topics.t]"))
    assert main(["scenarios", "check", str(file)]) == ExitCode.USAGE
    name = example_with("cluster.log_dirs")
    assert f"next:    ebbtide scenarios show {name}    (an example of [cluster])\n" in capsys.readouterr().err


def test_validate_takes_the_name_of_a_shipped_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["scenarios", "check", "healthy"]) == ExitCode.AS_PREDICTED
    assert "healthy: ok, 1 step on" in capsys.readouterr().out
    # A file of this name comes first.
    (tmp_path / "healthy").write_text("name = 3")
    assert main(["scenarios", "check", "healthy"]) == ExitCode.USAGE
