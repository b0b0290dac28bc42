"""Tables fit into the terminal: columns are folded between words, and then left out."""

from __future__ import annotations

import pytest
from rich.text import Text

from harness.cli.output import print_table

HEADERS = ["event", "likely", "acks=0", "acks=all"]
ROWS = [
    ["the ELR is turned off, and min.insync.replicas lowered", "very rare", "loses", "loses"],
    ["a broker process is killed", "common", "unknown", "survives"],
]


def shown(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """Print to a terminal of so many columns; returns what it shows, and the columns left out."""
    for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    left_out = print_table(HEADERS, ROWS, least={0: 20}, optional=(1, 2))
    return Text.from_ansi(capsys.readouterr().out).plain, left_out


@pytest.mark.parametrize(
    ("columns", "left_out"), [(120, []), (60, []), (50, []), (49, ["likely"]), (35, ["likely", "acks=0"])]
)
def test_no_line_is_wider_than_the_terminal(
    columns: int,
    left_out: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, missing = shown(columns, monkeypatch, capsys)
    assert max(map(len, out.splitlines())) <= columns
    assert missing == left_out
    assert "survives" in out


def test_every_word_is_there_where_columns_are_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = shown(60, monkeypatch, capsys)
    for word in " ".join(ROWS[0]).split():
        assert word in out


CHECKS = [
    ["java", "ok", "/usr/lib/jvm/java-21-openjdk-amd64/bin/java, which is version 21 of some vendor or other"],
    ["cache folder", "ok", "it can be written"],
]


@pytest.mark.parametrize(("columns", "drawn"), [(120, True), (80, True), (60, True), (40, False)])
def test_a_path_is_never_cut_and_a_word_is_never_broken(
    columns: int, drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("COLUMNS", str(columns)), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(["check", "state", "seen"], CHECKS)
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert ("───" in out) is drawn
    assert set(" ".join(word for row in CHECKS for word in row).split()) <= set(out.split())
    assert all(len(line) <= columns for line in out.splitlines() if "/usr/lib" not in line)


def test_elsewhere_there_is_no_rule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert print_table(HEADERS, ROWS, least={0: 20}, optional=(1,)) == []
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
