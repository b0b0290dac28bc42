"""Options and arguments whose mistakes are gathered, where Click's would end the reading at the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ebbtide.errors import EbbtideError, UsageError
from harness.cli.mistakes import Mistakes, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Completer = Callable[[str], list[CompletionItem[str]]]
    """What a word that was begun may become."""


class _Refused(click.BadParameter):
    """A value that does not fit, and the error that says so."""

    def __init__(self, error: EbbtideError) -> None:
        super().__init__(error.what)
        self.error = error


class _Number(click.ParamType[Any]):
    def __init__(self, kind: type[int] | type[float]) -> None:
        self.name = "integer" if kind is int else "number"
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind(value)
        except ValueError:
            what = f"not {'a whole number' if self._kind is int else 'a number'}"
            raise _Refused(UsageError(what, where=name_in_usage(param), got=repr(value))) from None


class _PathValue(click.ParamType[Path]):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(value)


class _OneOf(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return str(value)
        named = str(param.metavar or param.name) if param is not None else "value"
        what = f"unknown {named.replace('_', '-').lower()}{did_you_mean(str(value), self.choices)}"
        raise _Refused(UsageError(what, got=str(value), allowed=", ".join(self.choices)))


class _Collecting(click.Parameter):
    """A parameter whose mistakes are noted; its value is then None.

    `needed` stands for Click's `required`, which ends the reading at the first that is missing.
    """

    needed = False

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        try:
            return super().type_cast_value(ctx, value)
        except _Refused as refused:
            mistakes_of(ctx).values.append(refused.error)
            return None


class Option(_Collecting, click.Option):
    """An option with a value, or a flag."""


class Argument(_Collecting, click.Argument):
    """A word that no option goes with."""

    def make_metavar(self, ctx: click.Context) -> str:
        name = self.metavar or str(self.name).upper()
        several = f"{name} [{name} ...]" if self.needed else f"[{name} ...]"
        return several if self.nargs == -1 else name if self.needed else f"[{name}]"


def mistakes_of(ctx: click.Context) -> Mistakes:
    """What is wrong with the command line that is being read, so far."""
    return ctx.ensure_object(Mistakes)


def name_in_usage(param: click.Parameter | None) -> str:
    """As the usage line names it."""
    if isinstance(param, click.Option):
        return "/".join(param.opts)
    return str(param.metavar or param.name) if param is not None else "the value"


def value_type(kind: type[Any], choices: Sequence[str]) -> click.ParamType[Any]:
    """What reads a value of this kind, or one of some choices."""
    if choices:
        return _OneOf(choices)
    if kind is Path:
        return _PathValue()
    return click.STRING if kind is str else _Number(kind)


def completer_for(
    completes: Completer | None, kind: type[Any]
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem] | list[str]] | None:
    """`completes` as Click calls it; a path is completed by the shell."""
    if completes is not None:
        return lambda ctx, param, incomplete: completes(incomplete)
    return _files if kind is Path else None


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
