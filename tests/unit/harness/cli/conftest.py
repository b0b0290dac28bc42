"""Each verb that a test runs ends with an exit code that its help lists."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from harness.cli import main as main_module
from harness.cli.command import CommandBase, ParsedCommand


@pytest.fixture(autouse=True)
def ends_with_listed_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    run_verb = main_module._run_verb
    unlisted: list[str] = []

    def run_and_look(typed: ParsedCommand) -> int:
        code = run_verb(typed)
        command: click.Command = main_module.root_command()
        for word in typed.command_path.split()[1:]:
            assert isinstance(command, click.Group)
            below = command.get_command(click.Context(command), word)
            assert below is not None
            command = below
        assert isinstance(command, CommandBase)
        is_real = typed.module.run.__module__ == typed.module.__name__
        if is_real and code not in command.codes:
            unlisted.append(f"{typed.command_path}: {code}")
        return code

    monkeypatch.setattr(main_module, "_run_verb", run_and_look)
    yield
    assert unlisted == []
