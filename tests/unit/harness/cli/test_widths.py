"""Everything that a command prints fits the width, and no word is broken."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from command_tree import commands
from made_snapshots import ELR, cluster, topic
from quick import quick_first

from analysis.advise.advice import advise
from ebbtide.folding import fold_line
from ebbtide.scenario import catalogue
from ebbtide.scenario.shipped import GROUPS, files_by_group
from ebbtide.streams import shown_output
from harness.cli.advise_table import print_advice
from harness.cli.main import main

WIDTHS = (80, 40)
WHOLE = 10_000
"""So many columns that nothing is folded."""
RUNS = Path(__file__).parents[3] / "data" / "runs"
LEFT_OUT = re.compile(r"\(no room for: ([^;]*); [^)]*\)")
"""What a table says of columns that it has no room for."""
COMMAND = re.compile(r"\s*`?ebbtide ")


HELP = [shlex.join([*path, "--help"]) for path, _ in commands()]
LISTINGS = [
    "scenarios",
    "kafka list",
    "runs runs",
    "runs runs/last-replica-standing-3.9.1",
    f"scenarios check {' '.join(catalogue.names()[:3])}",
    "random --seed 7 --out drawn.toml",
]
MISTAKES = [
    "",
    "nothing",
    "scenarios show last-replica-standng",
    "scenarios list healthy",
    "run healthy --kafka 1.0 --runtime nothing --jobs many --no-such-option",
    "run no-such-scenario --kafka 4.3.1",
    "scenarios check broken.toml misplaced.toml",
    "advise broken.toml",
    "explain runs/nothing",
    "analyze runs/nothing broken.toml",
    "spec check nothing",
    "cluster fault nothing",
    "kafka image build nothing",
    "kafka fetch 0.1",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records and files with mistakes."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(RUNS, folder / "runs")
    (folder / "broken.toml").write_text("name = \n")
    mistakes = ('acks = "all"', catalogue.text_of("healthy"), "[stepps]", f'fsync = "{"x " * 80}"')
    (folder / "misplaced.toml").write_text("\n".join(mistakes))
    return folder


@pytest.fixture(autouse=True)
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, in which each command runs."""
    monkeypatch.chdir(made)
    return made


def printed(words: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command at a width; return what it prints to both streams."""
    monkeypatch.setenv("COLUMNS", str(columns))
    with contextlib.suppress(FileNotFoundError):
        Path("drawn.toml").unlink()
    main(shlex.split(words))
    out, err = capsys.readouterr()
    return out + err


def too_wide(text: str, columns: int) -> list[str]:
    """Return the lines that are too wide, although they could be folded."""
    return [line for line in text.splitlines() if len(line) > columns and is_foldable(line)]


def is_foldable(line: str) -> bool:
    """Return whether a line has several words behind its label, and is no command to copy."""
    return COMMAND.match(line) is None and len(re.sub(r"^\s*([^\s:]+: +)*", "", line).split()) > 1


def broken_words(text: str, whole: str) -> list[str]:
    """Return the words of a text that are not in the text without folds."""
    unfolded = LEFT_OUT.sub("", text).replace(" \\\n", " ")
    return list((Counter(unfolded.split()) - Counter(whole.split())).elements())


@pytest.mark.parametrize("words", [*HELP, *LISTINGS, *MISTAKES])
def test_each_line_fits_and_no_word_is_broken(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = printed(words, WHOLE, monkeypatch, capsys)
    for columns in WIDTHS:
        text = printed(words, columns, monkeypatch, capsys)
        assert text
        assert broken_words(text, whole) == []
        assert too_wide(text, columns) == []


def test_no_help_ends_in_lines_that_80_columns_would_fold() -> None:
    epilogs = [(path, one.epilog) for path, one in commands() if one.epilog is not None and "\n" in one.epilog]
    assert [(path, line) for path, text in epilogs for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("folder_name", ["runs", "a-folder-with-the-long-name-of-a-mounted-disk"])
def test_the_list_of_runs_has_all_its_columns_on_a_terminal_of_80(
    folder_name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if folder_name != "runs":
        Path("runs").rename(folder_name)
    lines = printed(f"runs --runs {folder_name}", 80, monkeypatch, capsys).splitlines()
    assert lines[0].split()[:4] == ["outcome", "acked", "lost", "size"]
    assert max(map(len, lines)) <= 80
    row = next(at for at, line in enumerate(lines) if line.startswith("as-predicted  2,000  2,000"))
    name = f"{folder_name}/last-replica-standing-3.9.1"
    assert lines[row + (folder_name != "runs")].split()[-1] == name
    assert not any("no room" in line for line in lines)


@pytest.mark.parametrize("minor", quick_first(["4.3", "3.6"]))
def test_the_advice_about_a_cluster_fits(
    minor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = (topic("orders", 3, 2, partition={"isr": (1,)}), topic("logs", 1, 1))
    advice = advise(cluster(minor, *topics, features={ELR: 1} if minor >= "4.0" else None))

    def at(columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        with shown_output():
            print_advice(advice)
        return capsys.readouterr().out

    whole = at(WHOLE)
    for columns in WIDTHS:
        assert broken_words(at(columns), whole) == []
        assert too_wide(at(columns), columns) == []


def test_what_programs_read_is_never_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("scenarios --json", "scenarios show rack-power", "spec rules 4.3.1", "runs runs --json"):
        assert printed(words, 80, monkeypatch, capsys) == printed(words, WHOLE, monkeypatch, capsys)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_rules_fit_a_terminal_and_are_whole_lines_of_python_elsewhere(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    text = printed("spec rules elr-43", 80, monkeypatch, capsys)
    if is_terminal:
        assert max(map(len, text.splitlines())) <= 80
    else:
        ast.parse(text)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("  - a long element", ["  - a long", "    element"]),
        ("error: some words here", ["error: some", "    words here"]),
        ("see /a/very/long/path now", ["see", "  /a/very/long/path", "  now"]),
        ("  next:    ebbtide x    (to see)", ["  next:    ebbtide \\", "      x", "    (to see)"]),
    ],
)
def test_a_line_is_folded_below_its_text(line: str, lines: list[str]) -> None:
    assert fold_line(line, 14) == lines


COMMANDS = [
    "ebbtide advise --bootstrap broker1.example:9092,broker2.example:9092 --save cluster.json",
    f"ebbtide scenarios show 'a b {'c' * 30}' --x \"d e\" {'y' * 50}",
    f"ebbtide run {'don' * 20} --kafka 3.9.1 --runtime local --name {'n' * 50}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_long_command_is_folded_as_a_shell_continues_it(command: str) -> None:
    lines = fold_line(f"  next:    {command}", 80)
    assert max(map(len, lines)) <= 80
    continued = "\n".join(lines).removeprefix("  next:    ")
    assert shlex.split(continued.replace("\\\n", "")) == shlex.split(command)
    assert len(lines) == 1 + continued.count(" \\\n")


def test_a_command_behind_a_sentence_is_folded_in_the_same_way() -> None:
    lines = fold_line(f"not judged; next: ebbtide analyze runs/{'a' * 40} runs/{'b' * 40}", 80)
    assert lines == ["not judged; next:", f"  ebbtide analyze runs/{'a' * 40} \\", f"    runs/{'b' * 40}"]


def test_a_remark_that_does_not_fit_beside_its_command_begins_a_line() -> None:
    lines = fold_line(f"  next:    ebbtide explain runs/{'a' * 40}    (its first lost record)", 80)
    assert lines == [f"  next:    ebbtide explain runs/{'a' * 40}", "           (its first lost record)"]


def test_a_path_that_fits_in_no_line_stays_behind_its_command() -> None:
    line = f"  next:    ebbtide analyze {'/folder' * 12}"
    assert fold_line(line, 80) == [line]


def test_a_command_within_a_sentence_is_never_folded() -> None:
    command = f"`ebbtide analyze nights/runs/{'a' * 40}`"
    lines = fold_line(f"  - the clients of this run were interrupted, see {command}: reproduced", 80)
    assert lines == ["  - the clients of this run were interrupted, see", f"    {command}:", "    reproduced"]


def test_a_command_that_just_fits_has_no_break() -> None:
    command = f"ebbtide analyze runs/{'a' * 48}"
    assert fold_line(f"  next:    {command}    (judges it)", 80) == [f"  next:    {command}", "           (judges it)"]


def test_each_shipped_scenario_is_in_a_group_and_the_list_begins_with_where_to_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(catalogue.__file__).parents[1] / "scenarios"
    assert {path.parent.name for path in folder.rglob("*.toml")} == set(GROUPS)
    lines = printed("scenarios", 80, monkeypatch, capsys).splitlines()
    assert lines[0].startswith("start here: ebbtide run ")
    at = {heading: lines.index(heading) for heading in GROUPS.values()}
    assert list(at.values()) == sorted(at.values())
    for group, files in files_by_group().items():
        members = [line.split()[0] for line in lines[at[GROUPS[group]] + 1 :] if re.match(r"  \S", line)]
        assert members[: len(files)] == list(files)
