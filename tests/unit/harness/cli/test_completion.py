"""What a shell is told that a word may become."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from ebbtide.releases.known_releases import KNOWN
from ebbtide.scenario import catalogue
from harness.cli.main import COMPLETE, SHELLS, VERBS, main

RELEASES_43 = [one.version for one in reversed(KNOWN) if one.version.startswith("4.3.")]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two run records and a scenario file; no release is fetched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("2026a", "2026b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "manifest.json").touch()
    (tmp_path / "healthier.toml").touch()
    return tmp_path


def completions(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What bash is told that the last of some words may become."""
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert main([]) == 0
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("ebbtide cl", ["plain,cluster", "plain,clean"]),
        ("ebbtide cluster d", ["plain,down"]),
        ("ebbtide spec v", ["plain,vectors"]),
        ("ebbtide cluster fault power", ["plain,power-loss"]),
        ("ebbtide --completion z", ["plain,zsh"]),
        ("ebbtide run --power", ["plain,--power-loss"]),
        ("ebbtide run x --runtime d", ["plain,docker"]),
        ("ebbtide run health", ["plain,healthy", "plain,healthy-transactions", "plain,healthier.toml"]),
        ("ebbtide cluster up health", ["plain,healthy", "plain,healthy-transactions", "plain,healthier.toml"]),
        ("ebbtide scenarios show health", ["plain,healthy", "plain,healthy-transactions"]),
        ("ebbtide scenarios sh", ["plain,show"]),
        ("ebbtide nightly --scenarios kafka-15489,kafka-15489", []),
        ("ebbtide run healthy --kafka 4.3", [f"plain,{release}" for release in RELEASES_43]),
        ("ebbtide replay r --kafka 3.9.1,4.3", [f"plain,3.9.1,{release}" for release in RELEASES_43]),
        ("ebbtide replay r --kafka 4.3.1,4.3.1", []),
        ("ebbtide run healthy --kafka ./he", ["file,./he"]),
        ("ebbtide run healthy --kafka 4.3.1,./heal", ["plain,4.3.1,./healthier.toml"]),
        ("ebbtide analyze ", ["plain,runs/2026b", "plain,runs/2026a"]),
        ("ebbtide analyze runs/2026a ./runs/", ["plain,./runs/2026b", "plain,./runs/2026a"]),
        ("ebbtide replay 2026a", ["plain,runs/2026a"]),
        ("ebbtide shrink elsewhere/", ["dir,elsewhere/"]),
        ("ebbtide scenarios check ", ["file,"]),
        ("ebbtide no-such-verb x", []),
    ],
)
def test_a_word_that_was_begun_may_become(
    words: str, told: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completions(words, monkeypatch, capsys) == told


def test_every_verb_and_every_scenario_is_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert completions("ebbtide ", monkeypatch, capsys) == [f"plain,{verb}" for verb in VERBS]
    told = completions("ebbtide run ", monkeypatch, capsys)
    assert told == [f"plain,{name}" for name in [*catalogue.names(), "healthier.toml"]]


def test_clusters_that_are_up_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ebbtide.daemon.control.cluster_names", lambda: ["one", "other", "two"])
    for words in (
        "cluster down o",
        "cluster status --cluster o",
        "cluster fault --cluster o",
        "cluster fault heal --cluster o",
    ):
        assert completions(f"ebbtide {words}", monkeypatch, capsys) == ["plain,one", "plain,other"]


def test_a_shell_hears_nothing_of_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ebbtide.scenario.catalogue.names", lambda: 1 / 0)
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "ebbtide run ")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) != 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{COMPLETE}={shell}_complete" in script
    assert shell != "fish" or "string split --max 1" in script


def test_bash_completes_with_the_script(working_folder: Path) -> None:
    command = working_folder / "bin" / "ebbtide"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ebbtide "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(ebbtide --completion bash)"\n'
        "COMP_WORDS=(ebbtide run healthy --kafka 3.9.1,4.3) COMP_CWORD=4\n"
        "_ebbtide_completion ebbtide\nprintf '%s\\n' \"${COMPREPLY[@]}\"\ncomplete -p ebbtide\n"
    )
    path = {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=os.environ | path | _path(), capture_output=True, text=True, check=True
    )
    *releases, registered = done.stdout.splitlines()
    assert releases == [f"3.9.1,{release}" for release in RELEASES_43]
    assert registered == "complete -o nosort -F _ebbtide_completion ebbtide"
    assert done.stderr == ""


def _path() -> dict[str, str]:
    return {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
