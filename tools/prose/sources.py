"""Lists the prose that users read.

It is in Markdown pages, the help of every verb, and the scenarios' texts.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from harness.cli.main import root_command
from tools.prose.passages import Passage, markdown_passages

ROOT = Path(__file__).resolve().parents[2]
HELP_MODULES = ("harness/cli", "ebbtide/scenario/steps", "ebbtide/scenario", "cluster/privileges", "analysis/spec")
"""Where help texts are written; the first that has a text is named."""
MADE_OF_SCENARIOS = "docs/scenarios/"
"""Pages made of the scenario files, which are checked themselves, and of measurements."""


def passages() -> Iterator[Passage]:
    """All prose that is checked."""
    yield from page_passages()
    yield from scenario_passages()
    yield from help_passages()


def page_passages() -> Iterator[Passage]:
    """README, CHANGELOG, changes/ and docs/."""
    pages = [*sorted((ROOT / "changes").glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *pages):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(MADE_OF_SCENARIOS):
            yield from markdown_passages(name, path.read_text())


def scenario_passages() -> Iterator[Passage]:
    """Return the title and description of every scenario, and its clauses.

    The scenarios are those that come with Ebbtide; the clauses are those of predictions.
    """
    for path in sorted((ROOT / "ebbtide" / "scenarios").glob("*/*.toml")):
        text = path.read_text()
        scenario = tomllib.loads(text)
        written = [(key, scenario[key].strip()) for key in ("title", "description")]
        written += [("clause", prediction["clause"]) for prediction in scenario["predictions"]]
        for key, prose in written:
            before = text[: max(text.find(prose), 0)]
            for passage in markdown_passages("", prose):
                line = before.count("\n") + passage.line
                yield Passage(path.relative_to(ROOT).as_posix(), line, passage.text, place=key)


def help_passages() -> Iterator[Passage]:
    """The help texts of the command and all its subcommands, each once."""
    seen: set[str] = set()
    for command_path, text in _help_texts(click.Context(root_command(), info_name="ebbtide")):
        if text not in seen:
            seen.add(text)
            path, line = _source_of(text)
            yield Passage(path, line, " ".join(text.split()), place=command_path)


def _help_texts(ctx: click.Context) -> Iterator[tuple[str, str]]:
    """Each help text, with the command and the option that shows it."""
    command = ctx.command
    yield from ((ctx.command_path, text) for text in (command.help, _prose(command.epilog)) if text)
    for param in command.params:
        if text := getattr(param, "help", None):
            yield f"{ctx.command_path} {param.opts[0]}", text
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            line = getattr(command, "_lines", {}).get(name) or child.short_help
            if line:
                yield f"{ctx.command_path} {name}", line
            yield from _help_texts(click.Context(child, info_name=name, parent=ctx))


def _prose(epilog: str | None) -> str:
    """An epilog without its examples and tables, which are lines of their own."""
    return "" if epilog is None or "\n" in epilog or epilog.startswith("example") else epilog


def _source_of(text: str) -> tuple[str, int]:
    """The file and line of a help text's first literal part."""
    best = (0, "harness/cli/main.py", 1)
    for literal, path, line in _literals():
        if literal == text:
            return path, line
        if len(literal) > best[0] and literal in text:
            best = (len(literal), path, line)
    return best[1], best[2]


@cache
def _literals() -> tuple[tuple[str, str, int], ...]:
    """The string literals of the modules with help texts: text, file, line."""
    return tuple(
        (node.value, path.relative_to(ROOT).as_posix(), node.lineno)
        for folder in HELP_MODULES
        for path in sorted((ROOT / folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 8
    )
