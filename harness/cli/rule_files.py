"""The values of --rule, --property and --variant: by which rules a command judges records and searches.

The files run as the user.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ebbtide.record.files import RecordFolder
from ebbtide.untrusted.files import path_from
from harness.cli.command import Args

_paths: tuple[Path, ...] = ()
_variant: str | None = None


@contextmanager
def judged_with(files: Sequence[str], variant: str | None = None) -> Iterator[None]:
    """Judge all records of the block with the rules in some files, too, and by this variant of the protocol.

    Raises `UsageError` for a wrong file, and for an unknown variant.
    """
    global _paths, _variant
    with ExitStack() as block:
        before = _paths, _variant
        paths = tuple(path_from(file).absolute() for file in files)
        if files:
            from analysis.judge.rules.own import own_rules

            block.enter_context(own_rules(paths))
        if variant is not None:
            from analysis.record.protocol import judged_by_variant
            from analysis.spec.explore.question import protocol_named

            block.enter_context(judged_by_variant(protocol_named(variant)))
            if variant.endswith(".py"):
                variant = str(path_from(variant).absolute())
        _paths, _variant = paths, variant
        try:
            yield
        finally:
            _paths, _variant = before


def judging_options() -> list[str]:
    """Return the options of `ebbtide analyze` with which it judges as this command does."""
    rules = [word for path in _paths for word in ("--rule", str(path))]
    return rules if _variant is None else [*rules, "--variant", _variant]


def note_missing_rules(records: Sequence[Path]) -> None:
    """Print a note for each record that was judged before with rules or a variant which are not given now."""
    from ebbtide.record.judged_by import JudgedBy
    from ebbtide.record.verdict import read_verdict

    given = {path.stem.replace("_", "-") for path in _paths}
    for record in records:
        verdict = read_verdict(RecordFolder(record))
        if verdict is None:
            continue
        if missing := [one.file for one in verdict.own_rules if one.name not in given]:
            files = " ".join(f"--rule {shlex.quote(file)}" for file in missing)
            print(
                f"note: {record} was judged with {', '.join(missing)} before; without {files} it is judged by the "
                "other rules alone",
                file=sys.stderr,
            )
        rules = verdict.protocol
        if _variant is None and isinstance(rules, JudgedBy) and rules.variant != rules.usual:
            print(
                f"note: {record} was judged by {rules.variant} before; without --variant "
                f"{rules.file or rules.variant} it is judged by {rules.usual}",
                file=sys.stderr,
            )


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
