"""All mistakes of one command line, gathered while Click reads it and reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError

_SURPLUS_SHOWN = 3
_NUMBER = re.compile(r"-\d+(\.\d*)?|-\.\d+")


class Mistakes:
    """What is wrong with a command line so far.

    `unknown`: the words that look like options and are none. `values`: values that do not fit. `missing`: what has to
    be named and is not, as the usage line names it. `positions`: how many words of the command read last go with no
    option.
    """

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.values: list[EbbtideError] = []
        self.missing: list[str] = []
        self._untold: set[str] = set()
        self.positions = 0
        self._before_unknown: int | None = None

    def words_to_read(self, ctx: click.Context, words: Sequence[str]) -> list[str]:
        """The words of a command without those at which Click would stop; these are noted.

        An unknown option goes, and so does a known one that another option follows in the place of its value.
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
                self._untold.add(str(option.name))
                self.values.append(UsageError("takes no value", where=name, got=repr(word)))
            elif option.is_flag or equals:
                kept.append(word)
            elif at == len(words) or _is_option_for_value(words[at]):
                self._untold.add(str(option.name))
                self.values.append(UsageError(f"argument {'/'.join(option.opts)}: expected one argument"))
            else:
                kept += [word, words[at]]
                at += 1
        return kept

    def lacks(self, param: click.Parameter, named: str) -> None:
        """Note that `param`, which the usage line calls `named`, is missing, unless its value is a mistake already."""
        if param.name not in self._untold:
            self.missing.append(named)

    def raise_all(self, ctx: click.Context, surplus: Sequence[str] = (), *, allowed: str | None = None) -> None:
        """Raise one error that says everything that is wrong, if anything is.

        `ctx` is that of the command that was meant, and `surplus` are the words that it has no place for. `allowed`
        says which subcommands there are, where one is missing.
        """
        errors: list[EbbtideError] = [*self._of_unknown(ctx, surplus), *self.values]
        if self.missing:
            what = f"the following arguments are required: {', '.join(self.missing)}"
            errors.append(UsageError(what, allowed=allowed))
        raise_together(errors, ctx)

    def _of_unknown(self, ctx: click.Context, surplus: Sequence[str]) -> list[UsageError]:
        """A word behind an unknown option may be its value, and is not reported."""
        options = list(_options(ctx))
        if self._before_unknown is not None:
            taken = self.positions - len(surplus)
            surplus = surplus[: max(0, self._before_unknown - taken)]
        meant = [word for word in surplus if did_you_mean(word, options)]
        rest = [word for word in surplus if word not in meant]
        return [
            *([_surplus(rest, ctx)] if rest else []),
            *(
                UsageError(f"unknown argument{did_you_mean(word, options)}", got=word)
                for word in [*meant, *self.unknown]
            ),
        ]


def raise_together(errors: list[EbbtideError], ctx: click.Context) -> None:
    """Raise what is wrong with a command line as one error, if anything is."""
    next_ = f"{ctx.command_path} --help"
    if len(errors) == 1:
        errors[0].goes_on_with(next_)
        raise errors[0]
    if errors:
        raise Problems(COMMAND_LINE, errors, next=next_)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence that names the one of `known` that `word` resembles, if any does."""
    from difflib import get_close_matches

    close = get_close_matches(word.split("=")[0], list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""


def _options(ctx: click.Context) -> dict[str, click.Option]:
    params = [param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option)]
    return {name: param for param in params for name in param.opts}


def _surplus(words: Sequence[str], ctx: click.Context) -> UsageError:
    """One error for words that no option goes with, such as the files that a shell found for a pattern."""
    kafka = _options(ctx).get("--kafka")
    single = [one for one in ctx.command.params if isinstance(one, click.Argument) and one.nargs == 1]
    what, allowed = "unknown argument", None
    if kafka is not None and all(re.match(r"\d+\.\d", word) for word in words):
        releases = ",".join(word.strip(",") for word in (ctx.params["kafka"], *words) if word)
        several = f"--kafka {releases}    (several are separated by commas)"
        allowed = "one release" if kafka.metavar == "RELEASE" else several
    elif single:
        what = f"{ctx.command_path} takes one {single[0].metavar or single[0].name} at a time"
    more = f" and {len(words) - _SURPLUS_SHOWN} more" if len(words) > _SURPLUS_SHOWN else ""
    return UsageError(what, got=", ".join(words[:_SURPLUS_SHOWN]) + more, allowed=allowed)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _is_option_for_value(word: str) -> bool:
    """Whether a word cannot be the value of the option before it; a negative number can."""
    return _is_option(word) and " " not in word and not _NUMBER.fullmatch(word)
