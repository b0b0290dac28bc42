"""How verbs declare their arguments for Click.

A verb's module has `command() -> Command | Group`, which declares its arguments, and
`run(args) -> ExitCode`. Invoking a command does not run the verb. It returns a `ParsedCommand` command line, which
`harness.cli.main` runs.

Lays out the help: as wide as the terminal, up to 100 columns, and folded between words only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ebbtide.errors import CODES, UsageError
from ebbtide.folding import fold_line, fold_words, shown_width
from ebbtide.suggestions import allowed_words, did_you_mean
from harness.cli.mistakes import name_in_usage, surplus_error
from harness.cli.parameters import completer_for, value_type

_WIDTH_MAX = 100
"""Longer lines of prose are hard to read."""
_TERM_MAX = 30


class HelpLayout(click.HelpFormatter):
    """Click's own layout, without its breaks at hyphens and within words."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(width=min(shown_width(), _WIDTH_MAX))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line; its rest stands below the arguments."""
        head = f"{prefix or ''}{prog} "
        self.write("\n".join(fold_line(head + args, self.width, below=len(head))) + "\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs, which empty lines separate."""
        self.write("\n\n".join(self._folded(part, self.current_indent) for part in text.split("\n\n")) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = _TERM_MAX, col_spacing: int = 2) -> None:
        """Write terms with their texts beside them, or below a term that is too wide."""
        rows = list(rows)
        limit = min(col_max, self.width // 3)
        widths = [len(term) for term, _ in rows if len(term) <= limit]
        indent = self.current_indent + max(widths, default=0) + col_spacing
        for term, text in rows:
            head = " " * self.current_indent + term
            folded = self._folded(text, indent)
            self.write(f"{head:<{indent}}{folded.lstrip()}" if len(term) <= limit else f"{head}\n{folded}")
            self.write("\n")

    def _folded(self, text: str, indent: int) -> str:
        lines = fold_words(text, max(self.width - indent, 1), cuts=False)
        return "\n".join(f"{' ' * indent}{line}".rstrip() for line in lines)


class HelpContext(click.Context):
    """A context whose help has this layout."""

    formatter_class = HelpLayout


if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from harness.cli.parameters import Completer

_HELP = "help"


class Args:
    """The typed values by name; `argv` is the command line itself, with the names of builds."""

    argv: tuple[str, ...]

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class ParsedCommand(NamedTuple):
    """A valid command line.

    `command_path` is the part before its arguments, and `module` is where the command is declared and run. `records`
    are the names of the values that are run records, or folders of them.
    """

    args: Args
    command_path: str
    module: Any
    records: tuple[str, ...] = ()


class _Argument(click.Argument):
    """A positional argument, which the usage line shows as `RUN [RUN ...]` where it has several words."""

    def make_metavar(self, ctx: click.Context) -> str:
        name = self.metavar or str(self.name).upper()
        several = f"{name} [{name} ...]" if self.required else f"[{name} ...]"
        return several if self.nargs == -1 else name if self.required else f"[{name}]"


class CommandBase(click.Command):
    """How commands and groups declare parameters and print help.

    `module` is the module that declares the command if it was imported only for this command. `codes` are its exit
    codes, each with what it means; none for a group that only has subcommands.
    """

    context_class = HelpContext
    module: ModuleType | None = None

    def __init__(
        self, description: str = "", *, epilog: str | None = None, codes: Mapping[int, str] = CODES, **settings: Any
    ) -> None:
        context = {"help_option_names": ["-h", "--help"], **settings.pop("context_settings", {})}
        self.codes = dict(sorted({**CODES, **codes}.items())) if codes else {}
        super().__init__(None, help=description, epilog=epilog, context_settings=context, **settings)
        self.records: list[str] = []

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return click's own option, with a text like those of the others."""
        if option := super().get_help_option(ctx):
            option.help = "show this message and exit"
        return option

    def option(
        self,
        flag: str,
        *,
        help: str,
        dest: str | None = None,
        type: type[str] | type[int] | type[Path] | click.ParamType[Any] = str,
        choices: Sequence[str] = (),
        default: Any = None,
        metavar: str | None = None,
        needed: bool = False,
        repeated: bool = False,
        least: int | None = None,
        hidden: bool = False,
        completes: Completer | None = None,
    ) -> None:
        """Declare an option with a value; a `hidden` one as `flag` does.

        A `repeated` option has a tuple of all its values. `least` is the least that a number may be.
        """
        name = dest or flag.removeprefix("--").replace("-", "_")
        option = click.Option(
            [name, flag],
            required=needed,
            type=value_type(type, choices, least),
            # A default of None would stand for a value that is missing.
            **({} if needed else {"default": default}),
            metavar=metavar or (None if choices else flag.removeprefix("--").upper()),
            help=help,
            multiple=repeated,
            hidden=hidden,
            shell_complete=completer_for(completes, type),
        )
        self.params.append(option)

    def flag(
        self, flag: str, *, help: str, dest: str | None = None, default: bool | None = False, hidden: bool = False
    ) -> None:
        """Declare an option without a value: True if it is typed, else `default`.

        A `hidden` option is one that only other programs pass; neither the help nor completion has it.
        """
        name = dest or flag.removeprefix("--").replace("-", "_")
        self.params.append(
            click.Option([name, flag], is_flag=True, flag_value=True, default=default, help=help, hidden=hidden)
        )

    def argument(
        self,
        name: str,
        *,
        help: str = "",
        type: type[str] | type[Path] = str,
        metavar: str | None = None,
        needed: bool = True,
        many: bool = False,
        is_record: bool = False,
        completes: Completer | None = None,
    ) -> None:
        """Declare a positional argument; with `many` it has a tuple of all its words.

        `is_record`: it names run records, or folders of them, which may be packed.
        """
        if is_record:
            self.records.append(name)
        argument = _Argument(
            [name],
            required=needed,
            type=value_type(type),
            **({} if needed or many else {"default": None}),
            nargs=-1 if many else 1,
            metavar=metavar,
            help=help,
            shell_complete=completer_for(completes, type),
        )
        self.params.append(argument)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. A mistake in an option names the command, which Click itself leaves out."""
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as mistake:
            mistake.ctx = ctx
            raise

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix="usage: ")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the exit codes; then an epilog of several lines as it is, or one of a single line folded."""
        if self.codes:
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(code), meaning) for code, meaning in self.codes.items()])
        if self.epilog:
            formatter.write_paragraph()
            if "\n" in self.epilog:
                formatter.write(self.epilog)
            else:
                formatter.write_text(self.epilog)


class Command(CommandBase):
    """A verb or an action without subcommands.

    With `verbatim` the first positional word begins another command.
    """

    def __init__(self, description: str = "", *, verbatim: bool = False, **settings: Any) -> None:
        context = {"allow_extra_args": True, "allow_interspersed_args": not verbatim}
        super().__init__(description, context_settings=context, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises `UsageError` for those that it does not take."""
        surplus = super().parse_args(ctx, args)
        if surplus and not ctx.resilient_parsing:
            raise surplus_error(surplus, ctx)
        return surplus

    def invoke(self, ctx: click.Context) -> ParsedCommand:
        """Return the typed values of this command and of its groups."""
        return parsed_command(ctx)


def parsed_command(ctx: click.Context) -> ParsedCommand:
    """Return what was typed for a command and its groups; a name that both have is the command's."""
    values: dict[str, object] = {}
    module: ModuleType | None = None
    subcommand: str | None = None
    records: tuple[str, ...] = ()
    above: click.Context | None = ctx
    while above is not None:
        command = above.command
        assert isinstance(command, CommandBase)
        values = {**above.params, **values}
        if isinstance(command, Group):
            values.setdefault(command.dest, subcommand)
        module = module or command.module
        records += tuple(command.records)
        subcommand, above = above.info_name, above.parent
    return ParsedCommand(Args(**values), ctx.command_path, module, records)


class Group(CommandBase, click.Group):
    """A command with subcommands.

    `dest` gets the subcommand's name, `metavar` is for the usage line. `hint` returns what follows `unknown KIND` for a
    word that is none of the subcommands. With `runs_bare` the group also runs without a subcommand: its own options are
    for that call, and `dest` is then None.
    """

    def __init__(
        self,
        description: str,
        *,
        dest: str,
        metavar: str,
        hint: Callable[[str, Sequence[str]], str] = did_you_mean,
        runs_bare: bool = False,
        **settings: Any,
    ) -> None:
        settings.setdefault("codes", CODES if runs_bare else {})
        super().__init__(description, no_args_is_help=False, invoke_without_command=runs_bare, **settings)
        self._hint = hint
        self.dest = dest
        self.subcommand_metavar = metavar
        self.lines: dict[str, str] = {}
        """The subcommands and their lines in the help, in the order of their declaration."""
        self._modules: dict[str, str] = {}

    def action(self, name: str, *, help: str, **settings: Any) -> Command:
        """Declare a subcommand; `help` is its line in this group's help, and by default all that its own help says."""
        command = Command(settings.pop("description", f"{help[:1].upper()}{help[1:]}."), **settings)
        self.lines[name] = help
        self.add_command(command, name)
        return command

    def lazy_action(self, name: str, module: str, *, help: str) -> None:
        """Declare a subcommand that has a module of its own, which is imported only when the subcommand is typed."""
        self.lines[name] = help
        self._modules[name] = module

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order of their declaration."""
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, for which its module may have to be imported."""
        if cmd_name in self._modules and cmd_name not in self.commands:
            module = importlib.import_module(self._modules[cmd_name])
            command = module.command()
            command.module = module
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help lines, without importing a module."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names and options, without importing a module."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, line in self.lines.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        words = f"{self.subcommand_metavar} ..."
        return [*click.Command.collect_usage_pieces(self, ctx), f"[{words}]" if self.invoke_without_command else words]

    def invoke(self, ctx: click.Context) -> ParsedCommand:
        """Return the typed values of the subcommand, or of a call without one."""
        if not ctx._protected_args and not self.invoke_without_command:
            raise UsageError(
                f"missing: {self.subcommand_metavar}",
                allowed=", ".join(self.list_commands(ctx)),
                next=f"{ctx.command_path} --help",
            )
        parsed: ParsedCommand | None = click.Group.invoke(self, ctx)
        return parsed if parsed is not None else parsed_command(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. `help` and `help COMMAND` stand for `--help` and `COMMAND --help`.

        Raises `UsageError` for an unknown one, before the words after it are read.
        """
        known = self.list_commands(ctx)
        if ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if args[0] in known:
            self._refuse_options_before(ctx, args[0])
            return super().resolve_command(ctx, args)
        if args[0] == _HELP:
            if words := [one for one in args[1:] if one != _HELP and not one.startswith("-")]:
                return self.resolve_command(ctx, [*words, "--help"])
            click.echo(ctx.get_help())
            ctx.exit()
        hint = self._hint(args[0], known)
        # The options that follow may be right.
        words = [*takewhile(lambda word: not word.startswith("-"), args)]
        if self.invoke_without_command and not hint and (surplus := surplus_error(words, ctx)).allowed:
            raise surplus
        what, allowed = f"unknown {self.subcommand_metavar.lower()}{hint}", allowed_words(args[0], known)
        raise UsageError(what, got=args[0], allowed=allowed, next=f"{ctx.command_path} --help")

    def _refuse_options_before(self, ctx: click.Context, subcommand: str) -> None:
        """Raise `UsageError` for options of the call without a subcommand before a subcommand."""
        if not self.invoke_without_command:
            return
        typed = [
            name_in_usage(param)
            for param in self.params
            if ctx.get_parameter_source(str(param.name)) is click.core.ParameterSource.COMMANDLINE
        ]
        if typed:
            raise UsageError(
                f"{subcommand} does not take the options of `{ctx.command_path}`",
                where=", ".join(typed),
                next=f"{ctx.command_path} {subcommand} --help",
            )
