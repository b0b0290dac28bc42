"""The spellings of the release before still work, and stand nowhere else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT
from replay_records import LOST

from ebbtide.errors import ExitCode
from harness.cli.main import COMPLETE, main
from harness.cli.old_spellings import MOVED, respelled

KNOWS_THEM = (
    "changes/+verbs.changed.md",
    "CHANGELOG.md",
    "docs/decisions/verbs.md",
    "harness/cli/old_spellings.py",
    "tests/unit/harness/cli/test_old_spellings.py",
)
OLD = re.compile(
    rf"""\bebbtide (?:{"|".join(" ".join(old) for old in MOVED)})(?![\w-])"""
    r"""|\bebbtide runs (?!--|compare\b|lists\b|writes\b)[\w./{'<]"""
)
"""What a page or a message would tell a user to type."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fault kill broker(1)", "cluster fault kill broker(1)"),
        ("fault --cluster one heal", "cluster fault --cluster one heal"),
        ("image list --json", "kafka image list --json"),
        ("validate my.toml", "scenarios check my.toml"),
        ("report nights --out public", "nightly site nights --out public"),
        ("compare a b", "runs compare a b"),
        ("completion bash", "--completion bash"),
        ("scenarios list --json", "scenarios --json"),
        ("runs elsewhere --json", "runs --runs elsewhere --json"),
        ("runs --json elsewhere", "runs --json --runs elsewhere"),
        ("help validate", "help scenarios check"),
        ("spec check --variant kraft --kills 1 --rf=2", "spec check --variant kraft --bounds kills=1,rf=2"),
        (
            "spec find --late-configs --no-recovery-manager",
            "spec find --bounds late-configs=true,recovery-manager=false",
        ),
        ("spec check --admin 1 --admin-kinds move,feature", "spec check --bounds admin=1,admin-kinds=move+feature"),
        ("spec check --max-time 90", "spec check --budget 90s"),
    ],
)
def test_an_old_spelling_becomes_the_new_one_and_says_it(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert respelled(old.split()) == new.split()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"`ebbtide [^`]+` is now `ebbtide [^`]+`\n", printed.err)


@pytest.mark.parametrize(
    "line",
    [
        "runs",
        "runs --json --runs x",
        "runs compare a b",
        "runs help",
        "scenarios check x",
        "run validate",
        "nightly",
        "",
    ],
)
def test_a_spelling_of_today_stays_as_it_is(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert respelled(line.split()) == line.split()
    assert capsys.readouterr() == ("", "")


def test_a_folder_of_runs_is_listed_under_its_old_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(LOST.parent), "--json"]) == ExitCode.AS_PREDICTED
    old = capsys.readouterr().out
    assert main(["runs", "--runs", str(LOST.parent), "--json"]) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out == old != ""


def test_neither_the_help_nor_completion_has_an_old_spelling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    shown = re.findall(r"^  (\w+) {2,}", capsys.readouterr().out, re.MULTILINE)
    monkeypatch.setenv(COMPLETE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "ebbtide ")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert main([]) == 0
    shown += [word.removeprefix("plain,") for word in capsys.readouterr().out.split()]
    assert {"run", "doctor"} < set(shown)
    assert {old[0] for old in MOVED if len(old) == 1} & set(shown) == set()


def test_no_page_and_no_message_has_an_old_spelling() -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name in names.split("\0")
        if name
        and name not in KNOWS_THEM
        and Path(name).suffix in {".md", ".py", ".toml", ".yaml", ".yml", ".html", ""}
        if (ROOT / name).is_file()
        for text in [(ROOT / name).read_text(errors="replace")]
        for match in OLD.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_old"),
    [
        ("type `ebbtide validate my.toml`", True),
        ("next: ebbtide fault kill", True),
        ('eval "$(ebbtide completion bash)"', True),
        ("ebbtide runs nightly/runs", True),
        ("ebbtide cluster fault kill", False),
        ("ebbtide scenarios check my.toml", False),
        ("ebbtide runs    (lists the runs)", False),
        ("ebbtide runs --runs nightly/runs", False),
        ("ebbtide reports what it saw", False),
    ],
)
def test_an_old_spelling_is_seen_in_a_text(line: str, is_old: bool) -> None:
    assert (OLD.search(line) is not None) == is_old
