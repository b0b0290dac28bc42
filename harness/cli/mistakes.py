"""Collects all mistakes of one command line, and reports them together."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError
from ebbtide.suggestions import did_you_mean, is_short_list

_SURPLUS_SHOWN = 3
_A_RUN = "RUN"
"""How usage lines name a run record; `RUN...` are several."""
_NUMBER = re.compile(r"-\d+(\.\d*)?|-\.\d+")


class Mistakes:
    """The mistakes that were found so far in a command line.

    `unknown` are words that look like options, `values` are errors of wrong values. `missing` are the required
    parameters that are missing, as the usage line names them. `positions` is the number of positional words of the
    command that was read last.
    """

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.values: list[EbbtideError] = []
        self.missing: list[str] = []
        self._with_wrong_value: set[str] = set()
        self.positions = 0
        self._before_unknown: int | None = None

    def readable_words(self, ctx: click.Context, words: Sequence[str]) -> list[str]:
        """Return the words of a command without the mistakes at which Click would stop.

        Notes these mistakes.

        Removes unknown options, and options that another option follows instead of a value.
        """
        options = _options(ctx)
        kept: list[str] = []
        self.positions = at = 0
        while at < len(words):
            word = words[at]
            at += 1
            name, equals, _ = word.partition("=")
            if word == "--":
                self.positions += len(words) - at
                return [*kept, *words[at - 1 :]]
            if not _is_option(word):
                kept.append(word)
                self.positions += 1
                if not ctx.allow_interspersed_args:
                    return [*kept, *words[at:]]
            elif (option := options.get(name)) is None:
                if self._before_unknown is None:
                    self._before_unknown = self.positions
                self.unknown.append(word)
            elif option.is_flag and equals:
                self._with_wrong_value.add(str(option.name))
                self.values.append(UsageError("this option takes no value", where=name, got=repr(word)))
            elif option.is_flag or equals:
                kept.append(word)
            elif at == len(words) or _is_not_a_value(words[at]):
                self._with_wrong_value.add(str(option.name))
                self.values.append(UsageError("this option needs a value", where="/".join(option.opts)))
            else:
                kept += [word, words[at]]
                at += 1
        return kept

    def note_missing(self, param: click.Parameter, named: str) -> None:
        """Note that `param` is missing, unless its value is already a mistake."""
        if param.name not in self._with_wrong_value:
            self.missing.append(named)

    def raise_all(self, ctx: click.Context, surplus: Sequence[str] = (), *, allowed: str | None = None) -> None:
        """Raise one error with all mistakes, if there are any.

        `ctx` belongs to the command that was typed, and `surplus` are words that it does not take. `allowed` lists the
        subcommands if one is missing.
        """
        errors: list[EbbtideError] = [*self._unknown_words(ctx, surplus), *self.values]
        if self.missing:
            what = f"missing: {', '.join(self.missing)}"
            no_run = not errors and any(one.startswith(_A_RUN) for one in self.missing)
            errors.append(
                UsageError(what, allowed=allowed, next="ebbtide runs    (lists the runs)" if no_run else None)
            )
        raise_together(errors, ctx)

    def _unknown_words(self, ctx: click.Context, surplus: Sequence[str]) -> list[UsageError]:
        """Return errors for unknown words.

        The word after an unknown option gets none, because it may be the option's value.
        """
        options = list(_options(ctx))
        if self._before_unknown is not None:
            taken = self.positions - len(surplus)
            surplus = surplus[: max(0, self._before_unknown - taken)]
        meant = [word for word in surplus if did_you_mean(word.partition("=")[0], options)]
        rest = [word for word in surplus if word not in meant]
        return [
            *([surplus_error(rest, ctx)] if rest else []),
            *(
                _unknown_word_error(word, options, is_group=_needs_subcommand(ctx.command))
                for word in [*meant, *self.unknown]
            ),
        ]


def _unknown_word_error(word: str, options: Sequence[str], *, is_group: bool) -> UsageError:
    """Return the error for an unknown option.

    It names the options of the command if they are few. The options of a group are not those of its commands.
    """
    name = word.partition("=")[0]
    long = [one for one in options if one.startswith("--")]
    allowed = ", ".join(long) if is_short_list(long) and len(long) > 1 and not is_group else None
    return UsageError(f"unknown argument{did_you_mean(name, options)}", got=word, allowed=allowed)


def raise_together(errors: list[EbbtideError], ctx: click.Context) -> None:
    """Raise the mistakes of a command line as one error, if there are any."""
    next_ = f"{ctx.command_path} --help"
    if len(errors) == 1:
        errors[0].add_next(next_)
        raise errors[0]
    if errors:
        raise Problems(COMMAND_LINE, errors, next=next_)


def _options(ctx: click.Context) -> dict[str, click.Option]:
    params = [param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option)]
    return {name: param for param in params for name in param.opts}


def surplus_error(words: Sequence[str], ctx: click.Context) -> UsageError:
    """Return one error for all surplus words of a command line.

    A shell produces surplus words when it expands a pattern to several files, for example `runs/*`.
    """
    kafka = _options(ctx).get("--kafka")
    what, allowed, next_ = "unknown argument", None, None
    if kafka is not None and all(map(is_release, words)):
        allowed = "one release" if kafka.metavar == "RELEASE" else releases_together(ctx.params["kafka"], words)
    elif positionals := [one for one in ctx.command.params if isinstance(one, click.Argument) and one.nargs == 1]:
        what, next_ = _one_at_a_time(words, ctx, positionals)
    elif "--scenarios" in _options(ctx):
        allowed, next_ = _scenarios_or_file(words, ctx)
    more = f" and {len(words) - _SURPLUS_SHOWN} more" if len(words) > _SURPLUS_SHOWN else ""
    return UsageError(what, got=", ".join(words[:_SURPLUS_SHOWN]) + more, allowed=allowed, next=next_)


def _one_at_a_time(
    words: Sequence[str], ctx: click.Context, positionals: Sequence[click.Argument]
) -> tuple[str, str | None]:
    """Return what a command with single arguments takes, and the command to type next.

    If a surplus word is a run record, several records were typed, and the next command takes the first of them.
    """
    from ebbtide.record.manifest import is_record

    taken = [str(value) for one in positionals if (value := ctx.params.get(str(one.name))) is not None]
    records = [word for word in (*taken, *words) if is_record(Path(word))]
    has_records = any(word in records for word in words)
    surplus = positionals[0 if has_records else -1]
    what = f"{ctx.command_path} takes one {surplus.metavar or surplus.name} at a time"
    if surplus.metavar == "TARGET" and (meant := _meant_role([*taken, *words])) is not None:
        return f"{what}, did you mean '{meant}'?", f"{ctx.command_path} {shlex.quote(meant)}"
    typed = records[:1] if has_records else taken
    next_ = f"{ctx.command_path} {shlex.join(typed)}    (one after the other)" if typed else None
    return what, next_


def _meant_role(words: Sequence[str]) -> str | None:
    """Return the role that was typed as two words: `broker 1` is `broker(1)`."""
    from ebbtide.scenario.roles import Role

    if len(words) != 2:
        return None
    with contextlib.suppress(UsageError):
        return str(Role(f"{words[0]}({words[1]})"))
    return None


def _scenarios_or_file(words: Sequence[str], ctx: click.Context) -> tuple[str | None, str | None]:
    """Return how a command with --scenarios takes these words, or else the command that runs a file among them."""
    from ebbtide.scenario import catalogue
    from ebbtide.untrusted.files import is_file

    if all(word in catalogue.names() for word in _separate(words)):
        return f"--scenarios {_comma_separated(ctx.params['scenarios'], words)}", None
    file = next((word for word in words if word.endswith(".toml") or is_file(Path(word))), None)
    if file is None:
        return "--scenarios NAMES    (names that `ebbtide scenarios` lists)", None
    return None, f"ebbtide run {shlex.quote(file)}    (runs the file)"


def is_release(word: str) -> bool:
    """Whether a word of a command line is meant as a Kafka release."""
    return re.match(r"\d+\.\d", word) is not None


def releases_together(value: str | None, surplus: Sequence[str]) -> str:
    """Return --kafka with the releases that follow it as words of their own."""
    return f"--kafka {_comma_separated(value, surplus)}    (several are separated by commas)"


def _comma_separated(value: str | None, surplus: Sequence[str]) -> str:
    """Return the value of an option with the words that follow it, where blanks stand after its commas."""
    return shlex.quote(",".join(_separate([value or "", *surplus])))


def _separate(words: Sequence[str]) -> list[str]:
    return [one for word in words for one in word.split(",") if one]


def _needs_subcommand(command: click.Command) -> bool:
    return isinstance(command, click.Group) and not command.invoke_without_command


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _is_not_a_value(word: str) -> bool:
    """Whether a word is an option and not a value, such as -1, of the option before."""
    return _is_option(word) and " " not in word and not _NUMBER.fullmatch(word)
