"""The types of options and arguments: what they read, and how a shell completes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ebbtide.errors import UsageError
from ebbtide.suggestions import allowed_words, did_you_mean
from ebbtide.untrusted.files import path_from
from harness.cli.mistakes import WrongValue, name_in_usage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Completer = Callable[[str], list[CompletionItem[str]]]
    """Returns the completions of a word."""


BUDGET_S_MAX = 1000 * 3600.0
"""Six weeks: a longer budget is a mistake, and its end may be a time that no clock has."""
_SHOWN_MAX = 40


class _WholeNumber(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            raise WrongValue(UsageError("not a whole number", where=name_in_usage(param), got=repr(value))) from None
        if self.min is not None and number < self.min:
            allowed = f"{self.min} or more"
            raise WrongValue(UsageError("out of range", where=name_in_usage(param), got=str(number), allowed=allowed))
        return number

    def _describe_range(self) -> str:
        # Click writes "x<=None" where there is no bound.
        return "" if self.min is None else super()._describe_range()


class TimeWithUnit(click.ParamType[str]):
    """A time with its unit; its value is the text that was typed."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        try:
            duration_s_of(name_in_usage(param), str(value))
        except UsageError as error:
            raise WrongValue(error) from None
        return str(value)


class _PathValue(click.ParamType[Path]):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            return path_from(str(value))
        except UsageError as error:
            error.add_where(name_in_usage(param))
            raise WrongValue(error) from None


class _WordFrom(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return str(value)
        named = str(param.metavar or param.name) if param is not None else "value"
        what = f"unknown {named.replace('_', '-').lower()}{did_you_mean(str(value), self.choices)}"
        raise WrongValue(UsageError(what, got=str(value), allowed=allowed_words(str(value), self.choices)))


def duration_s_of(flag: str, text: str) -> float:
    """Return a time (2h, 90m, 30s) in seconds. Raises `UsageError` that names the option."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hms])", text.strip())
    if match is None or float(match[1]) == 0:
        allowed = "a number with its unit: 2h, 90m, 30s"
        raise UsageError("not a time", where=flag, got=repr(text), allowed=allowed)
    duration_s = float(match[1]) * {"h": 3600.0, "m": 60.0, "s": 1.0}[match[2]]
    if duration_s > BUDGET_S_MAX:
        got, allowed = repr(text[:_SHOWN_MAX]), f"up to {BUDGET_S_MAX / 3600:.0f}h"
        raise UsageError("the time is too long", where=flag, got=got, allowed=allowed)
    return duration_s


def value_type(
    kind: type[Any] | click.ParamType[Any], choices: Sequence[str] = (), least: int | None = None
) -> click.ParamType[Any]:
    """Return the Click type that parses values of this kind, or one of the choices."""
    if choices:
        return _WordFrom(choices)
    if isinstance(kind, click.ParamType):
        return kind
    if kind is Path:
        return _PathValue()
    return click.STRING if kind is str else _WholeNumber(least)


def completer_for(
    completes: Completer | None, kind: type[Any] | click.ParamType[Any]
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem] | list[str]] | None:
    """Adapt `completes` to Click; the shell itself completes paths."""
    if completes is not None:
        return lambda ctx, param, incomplete: completes(incomplete)
    return _files if kind is Path else None


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
