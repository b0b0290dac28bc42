"""Files with a protocol variant or a property of the user, which --variant and --property name.

They run as the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ebbtide.untrusted.files import path_from
from harness.cli.command import Args


@contextmanager
def specification_with_files_of(args: Args) -> Iterator[None]:
    """Have what the options of a command name in the specification. Raises `UsageError` for a wrong file."""
    with ExitStack() as used:
        if (variant := _file_of(args, "variant") or _file_of(args, "judge_by")) is not None:
            from analysis.spec.own import own_variant

            used.enter_context(own_variant(variant))
        if (asked := _file_of(args, "property")) is not None:
            from analysis.spec.own import own_property

            used.enter_context(own_property(asked))
        yield


def _file_of(args: Args, name: str) -> Path | None:
    value = getattr(args, name, None)
    return path_from(value).absolute() if value is not None and value.endswith(".py") else None
