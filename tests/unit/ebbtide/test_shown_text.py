"""Texts of somebody else's record and scenario do nothing to the terminal, the page or the file that shows them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from analysis.report.pages import page_templates
from ebbtide.errors import Problems
from ebbtide.scenario import catalogue
from ebbtide.scenario.parse import parse
from ebbtide.shown_console import PlainTextConsole
from ebbtide.shown_text import escape_controls, has_controls
from ebbtide.streams import shown_output
from harness.cli.main import main

HOSTILE = "a\x1b[2J\x9b[/red]\u202e\udcffb"
SHOWN = "a\\u001b[2J\\u009b[/red]\\u202e\\udcffb"


def test_control_characters_become_visible_and_other_texts_stay() -> None:
    assert escape_controls(HOSTILE) == SHOWN
    for text in ("plain", "größer → 1\n\ttwo", "\N{GRINNING FACE}"):
        assert escape_controls(text) == text
        assert not has_controls(text, lines=True)
    assert has_controls("two\nlines")


def test_json_keeps_its_values() -> None:
    text = json.dumps({"a": "\x7f\x85\u2028"}, ensure_ascii=False)
    assert json.loads(escape_controls(text)) == json.loads(text)
    assert escape_controls(text).isprintable()


@pytest.mark.parametrize("color", [None, "truecolor"])
def test_a_console_shows_markup_and_control_characters_as_they_are(color: str | None) -> None:
    shown = io.StringIO()
    console = PlainTextConsole(file=shown, force_terminal=color is not None, color_system=color, width=200)
    table = Table()
    table.add_column("[/red]", style="bold")
    table.add_row("[bold]x\x1b[2J")
    table.add_row(Text("[/]\x9bJ", style="red"))
    console.print(table)
    console.print("[/red]\x1b]0;title\x07 :smile:")
    told = shown.getvalue()
    assert "\x1b[2J" not in told
    assert "\x9b" not in told
    assert "\x07" not in told
    assert "[bold]x\\u001b[2J" in told
    assert told.count("[/red]") == 2
    assert ":smile:" in told
    assert ("\x1b[" in told) == (color is not None)


def test_what_a_command_prints_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_output():
        print(HOSTILE)  # noqa: T201
        print(HOSTILE, file=sys.stderr)  # noqa: T201
    assert capsys.readouterr() == (f"{SHOWN}\n", f"{SHOWN}\n")


def test_every_verb_prints_through_the_escape(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = tmp_path / "run\x1b[2J"
    record.mkdir()
    (record / "manifest.json").write_text('{"record_version": 1, "run_id": "x\\u001b", "kafka": "[/red]\\u009b"}')
    for arguments in (
        ["runs", "--runs", str(tmp_path)],
        ["runs", "--runs", str(tmp_path), "--json"],
        ["analyze", f"{record}/gone"],
    ):
        main(arguments)
        out, err = capsys.readouterr()
        assert "\\u001b" in out + err
        assert "\x1b" not in out + err
        assert "\x9b" not in out + err


def test_a_page_shows_control_characters_and_markup_as_text() -> None:
    template = page_templates("analysis.report").from_string("{{ text }}{{ number }}{{ safe|safe }}")
    page = template.render(text="<b>\x1b\u202e", number=1, safe="<i>")
    assert page == "&lt;b&gt;\\u001b\\u202e1<i>"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('title = "a\\u001b[2J"', "title"),
        ('title = "two\\nlines"', "title"),
        ('"x\\u001b" = 1', "x\\u001b"),
        ('kafka = ["4.4.0\\u202e"]', "kafka[0]"),
    ],
)
def test_a_scenario_with_control_characters_is_refused_at_its_place(line: str, where: str) -> None:
    key = line.partition(" ")[0]
    lines = [one for one in catalogue.text_of("healthy").splitlines() if not one.startswith(f"{key} = ")]
    with pytest.raises(Problems) as refused:
        parse("\n".join([line, *lines]), file="x.toml")
    assert f"where:   {where} (line 1)\n" in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_a_description_may_have_lines_but_no_other_controls() -> None:
    text = catalogue.text_of("healthy")
    parse(text.replace('description = """', 'description = """\\tone\n'), file="x.toml")
    with pytest.raises(Problems, match="control characters"):
        parse(text.replace('description = """', 'description = """\\u0085'), file="x.toml")


@pytest.mark.parametrize("name", [".", "..", "a/b", "a\\u0000"])
def test_a_topic_that_would_be_another_path_is_refused(name: str) -> None:
    text = catalogue.text_of("healthy").replace("[topics.t]", f'[topics."{name}"]')
    assert name in text
    with pytest.raises(Problems, match="not a topic name"):
        parse(text, file="x.toml")
