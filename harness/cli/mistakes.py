"""Says what is wrong with a command line in Ebbtide's words: Click's errors as `UsageError`s."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import click

from ebbtide.errors import EbbtideError, UsageError
from ebbtide.suggestions import did_you_mean, is_short_list

_A_RUN = "RUN"
"""How usage lines name a run record."""


class WrongValue(click.BadParameter):
    """A wrong value of a parameter, with its error."""

    def __init__(self, error: EbbtideError) -> None:
        super().__init__(error.what)
        self.error = error


def error_of(mistake: click.UsageError) -> EbbtideError:
    """Return the error of a mistake that Click found, with the help of the command as what to type next."""
    error = _error_of(mistake)
    if mistake.ctx is not None:
        error.add_next(f"{mistake.ctx.command_path} --help")
    return error


def _error_of(mistake: click.UsageError) -> EbbtideError:
    match mistake:
        case WrongValue():
            return mistake.error
        case click.NoSuchOption():
            options = _options(mistake.ctx)
            allowed = ", ".join(options) if is_short_list(options) and len(options) > 1 else None
            name = mistake.option_name
            return UsageError(f"unknown argument{did_you_mean(name, options)}", got=name, allowed=allowed)
        case click.BadOptionUsage() if "requires" in mistake.message:
            return UsageError("this option needs a value", where=mistake.option_name)
        case click.BadOptionUsage():
            return UsageError("this option takes no value", where=mistake.option_name)
        case click.MissingParameter():
            named = name_in_usage(mistake.param)
            next_ = "ebbtide runs    (lists the runs)" if named == _A_RUN else None
            return UsageError(f"missing: {named}", next=next_)
    return UsageError(mistake.format_message().removesuffix("."))


def surplus_error(words: Sequence[str], ctx: click.Context) -> UsageError:
    """Return one error for all words that a command does not take.

    A shell makes several words of a pattern, such as `runs/*`.
    """
    params = ctx.command.params
    kafka = next((param for param in params if param.name == "kafka"), None)
    allowed = None
    if kafka is not None and all(map(is_release, words)):
        allowed = "one release" if kafka.metavar == "RELEASE" else releases_together(ctx.params["kafka"], words)
    elif arguments := [param for param in params if isinstance(param, click.Argument)]:
        command, typed = ctx.command_path, [*(str(ctx.params[str(param.name)]) for param in arguments), *words]
        if len(arguments) > 1 and not any(map(os.path.exists, typed[1:])):
            command, typed, arguments = f"{command} {shlex.quote(typed[0])}", typed[1:], arguments[1:]
        return one_at_a_time(command, name_in_usage(arguments[0]), typed)
    elif "scenarios" in ctx.params:
        allowed = "--scenarios NAMES    (names that `ebbtide scenarios` lists)"
    return UsageError("unknown argument", got=" ".join(words), allowed=allowed, next=f"{ctx.command_path} --help")


def one_at_a_time(command: str, metavar: str, words: Sequence[str]) -> UsageError:
    """Return the error of several words for a command that takes one; the first run record of them is typed next."""
    from ebbtide.record.manifest import is_record, list_records
    from ebbtide.untrusted.archives import is_archive

    chosen = next((word for word in words if is_record(Path(word)) or is_archive(Path(word))), None)
    if metavar == _A_RUN and chosen is None:
        return UsageError("none of these is a run record", got=" ".join(words), next=list_records(Path(words[0])))
    first = chosen or words[0]
    next_ = f"{command} {shlex.quote(first)}    (one after the other)"
    got = " ".join(word for word in words if word != first)
    return UsageError(f"{command} takes one {metavar} at a time", got=got, next=next_)


def name_in_usage(param: click.Parameter | None) -> str:
    """Return the name of a parameter in the usage line."""
    if isinstance(param, click.Option):
        return "/".join(param.opts)
    return str(param.metavar or param.name) if param is not None else "the value"


def with_whole_command(error: EbbtideError, argv: Sequence[str]) -> EbbtideError:
    """Return the error; where it says which options to type next, it then says the whole command with them."""
    if error.next is None or not error.next.startswith("--"):
        return error
    options, gap, remark = error.next.partition("    ")
    words = [*shlex.split(options), "--"]
    has_value = {one: not after.startswith("--") for one, after in pairwise(words) if one.startswith("--")}
    kept, rest = ["ebbtide"], iter(argv)
    for word in rest:
        if has_value.get(word):
            next(rest, None)
        elif word.partition("=")[0] not in has_value:
            kept.append(word)
    at = kept.index("--") if "--" in kept else len(kept)
    error.next = " ".join([shlex.join(kept[:at]), options, shlex.join(kept[at:])]).rstrip() + gap + remark
    return error


def is_release(word: str) -> bool:
    """Whether a word of a command line is meant as a Kafka release."""
    return re.match(r"\d+\.\d", word) is not None


def releases_together(value: str | None, surplus: Sequence[str]) -> str:
    """Return --kafka with the releases that follow it as words of their own."""
    words = [one for word in (value or "", *surplus) for one in word.split(",") if one]
    return f"--kafka {shlex.quote(','.join(words))}    (several are separated by commas)"


def _options(ctx: click.Context | None) -> list[str]:
    params = [] if ctx is None else ctx.command.get_params(ctx)
    return [name for param in params for name in param.opts if name.startswith("--")]
