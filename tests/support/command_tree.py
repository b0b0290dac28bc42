"""Every command below `ebbtide`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from harness.cli.main import root_command


def commands(command: click.Command | None = None, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command and group, with the words that name it; the root has none."""
    command = command or root_command()
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from commands(below, *path, name)
