"""The frame of the `ebbtide` command: finds the verb, runs it, turns every end into an exit code.

A verb is a module `harness.cli.<verb>` with `add(parser)`, which declares its arguments, and
`run(args) -> ExitCode`; one that takes root's powers also has `powers(args) -> Wish` (`cluster.powers.choice`), or
None where these arguments take none. `args.argv` is what was typed.
Only the module of the verb that was typed is imported, so that `ebbtide --help` loads neither Spark nor docker
nor pyarrow; the others stand in the help by the line in `VERBS`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from ebbtide import __version__
from ebbtide.errors import COMMAND_LINE, EbbtideError, ExitCode, Problems, UsageError
from ebbtide.signals import is_interrupt
from ebbtide.streams import outlive_readers

VERBS: dict[str, str] = {
    "run": "run a scenario on one or more Kafka releases and judge it",
    "nightly": "run the catalogue until a budget of time ends, and keep a history",
    "replay": "run a recorded schedule again, also on another release",
    "shrink": "find the smallest scenario that shows what a record shows",
    "cluster": "bring a cluster up for experiments by hand, reach it, take it down",
    "fault": "carry one step out on a cluster that is up",
    "analyze": "judge recorded runs again, offline",
    "runs": "list the recorded runs",
    "random": "draw a schedule of faults by chance, and run it",
    "scenarios": "list the scenarios that come with ebbtide, or show one",
    "validate": "check scenario files without running them",
    "spec": "compare and explore the protocol specification",
    "kafka": "fetch Kafka releases, and list those that are here",
    "image": "build, list or remove Docker images with Kafka",
    "clean": "remove what a killed run left on this host",
    "doctor": "say what this host can do, and what to install",
}
"""Each verb and its line in the help; its module has the same name."""

_EPILOG = """exit codes:
  0  as predicted            3  the harness or its host failed
  1  contradicted            4  wrong usage or an invalid file
  2  inconclusive

start here:
  ebbtide doctor
  ebbtide run last-replica-standing --kafka 3.9.1,4.3.1
"""

_SURPLUS_SHOWN = 3


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `UsageError`s that suggest what was meant.

    `mistakes`: values that do not fit, kept so that all of them can be told at once; the namespace has None there.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.mistakes: list[EbbtideError] = []

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting with argparse's own code."""
        under = next((one for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)
        lacks_verb = under is not None and message.endswith(f" {under.metavar}")
        allowed = ", ".join(under.choices) if under is not None and lacks_verb else None
        raise UsageError(message, allowed=allowed, next=f"{self.prog} --help")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            next_ = f"{self.prog} --help"
            if action.type in (int, float):
                kind = "a whole number" if action.type is int else "a number"
                mistake = UsageError(f"not {kind}", where=error.argument_name, got=repr(arg_string), next=next_)
            else:
                mistake = UsageError(str(error), next=next_)
            self.mistakes.append(mistake)
            return None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value is not None and value not in action.choices:
            name = action.metavar if isinstance(action.metavar, str) else action.dest.replace("_", "-")
            choices = [str(choice) for choice in action.choices]
            error = UsageError(
                f"unknown {name.lower()}{_did_you_mean(str(value), choices)}",
                got=str(value),
                allowed=", ".join(choices),
                next=f"{self.prog} --help",
            )
            # Without its verb nothing that follows can be read.
            if isinstance(action, argparse._SubParsersAction):
                raise error
            self.mistakes.append(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: this process's) and return its exit code; never raises."""
    # Debian's `su` keeps a user's PATH, which lacks mkfs, losetup and nft.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    outlive_readers()
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except EbbtideError as error:
        _complain(f"error: {error.render()}")
        return error.exit_code
    except (KeyboardInterrupt, SystemExit):
        _complain("interrupted")
        return ExitCode.HARNESS_FAILED
    except Exception as error:
        if is_interrupt(error):
            _complain("interrupted")
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _complain(f"error: no space left on the disk\n  where:   {error.filename or os.getcwd()}\n  next:    df -h")
        else:
            from harness.cli.crash import report

            _complain(report(error))
        return ExitCode.HARNESS_FAILED
    return code


def _run(argv: Sequence[str]) -> int:
    verb = next((word for word in argv if not word.startswith("-")), None)
    parser = _parser(verb)
    try:
        args = _parsed(parser, argv)
    except SystemExit as end:  # --help and --version have printed
        return int(end.code or 0)
    args.argv = tuple(argv)
    try:
        return _carry_out(args, argv)
    except UsageError as error:
        # What is wrong of an option is told as by the parser.
        if error.where is not None and (error.where.startswith("--") or error.where == COMMAND_LINE):
            error.goes_on_with(f"{_chosen(parser, args).prog} --help")
        raise


def _carry_out(args: argparse.Namespace, argv: Sequence[str]) -> int:
    module = _module(args.verb)
    wish = module.powers(args) if os.geteuid() != 0 and hasattr(module, "powers") else None
    if wish is not None:
        from cluster.powers.choice import take

        code = take(wish, argv)
        if code is not None:
            return code
    return int(module.run(args))


def _parsed(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """The arguments, as `parser` reads them. Raises `UsageError`, or `Problems` that name every mistake."""
    missing: list[EbbtideError] = []
    try:
        args, unknown = parser.parse_known_args(argv)
    except UsageError as error:
        # argparse ends at what is missing, before it has told what is unknown.
        _forget(parser)
        missing.append(error)
        try:
            args, unknown = parser.parse_known_args(argv)
        except UsageError:  # what follows cannot be read
            raise _all([*_mistakes(parser), error], next_=error.next) from None
    meant = _chosen(parser, args)
    mistakes = [*_unknown(unknown, meant, args), *_mistakes(parser), *missing]
    if mistakes:
        raise _all(mistakes, next_=f"{meant.prog} --help")
    return args


def _all(mistakes: list[EbbtideError], next_: str | None) -> EbbtideError:
    """One error that says all of `mistakes`."""
    if len(mistakes) == 1:
        return mistakes[0]
    for mistake in mistakes:
        mistake.next = None
    return Problems(COMMAND_LINE, mistakes, next=next_)


def _unknown(words: Sequence[str], meant: argparse.ArgumentParser, args: argparse.Namespace) -> list[UsageError]:
    """What is wrong with words that `meant` does not know; a word behind an unknown option may be its value."""
    at = next((at for at, word in enumerate(words) if _is_option(word)), len(words))
    options = _options(meant)
    surplus = [word for word in words[:at] if not _did_you_mean(word, options)]
    told = [word for word in words[:at] if word not in surplus] + [word for word in words[at:] if _is_option(word)]
    return [
        *([_surplus(surplus, meant, args)] if surplus else []),
        *(
            UsageError(f"unknown argument{_did_you_mean(word, options)}", got=word, next=f"{meant.prog} --help")
            for word in told
        ),
    ]


def _surplus(words: Sequence[str], meant: argparse.ArgumentParser, args: argparse.Namespace) -> UsageError:
    """One error for words that no option of `meant` goes with, such as the files that a shell found for a pattern."""
    kafka = next((action for action in meant._actions if "--kafka" in action.option_strings), None)
    single = [one for one in meant._actions if not one.option_strings and one.nargs in (None, "?")]
    what, allowed = "unknown argument", None
    if kafka is not None and all(re.match(r"\d+\.\d", word) for word in words):
        releases = ",".join(word.strip(",") for word in (args.kafka, *words) if word)
        several = f"--kafka {releases}    (several are separated by commas)"
        allowed = "one release" if kafka.metavar == "RELEASE" else several
    elif single:
        what = f"{meant.prog} takes one {single[0].metavar or single[0].dest} at a time"
    more = f" and {len(words) - _SURPLUS_SHOWN} more" if len(words) > _SURPLUS_SHOWN else ""
    got = ", ".join(words[:_SURPLUS_SHOWN]) + more
    return UsageError(what, got=got, allowed=allowed, next=f"{meant.prog} --help")


def _is_option(word: str) -> bool:
    return word.startswith("-")


def _forget(parser: Parser) -> None:
    """Let nothing under `parser` be required, and no mistake be known."""
    for one in _with_those_under(parser):
        for action in one._actions:
            action.required = False
        for group in one._mutually_exclusive_groups:
            group.required = False
        one.mistakes.clear()


def _mistakes(parser: Parser) -> list[EbbtideError]:
    """The values that do not fit, of `parser` and of those under it."""
    return [mistake for one in _with_those_under(parser) for mistake in one.mistakes]


def _with_those_under(parser: Parser) -> Iterator[Parser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _with_those_under(child)


def _parser(verb: str | None) -> Parser:
    """The whole command's parser, with the arguments of `verb` only."""
    parser = Parser(
        prog="ebbtide",
        description="Break real Apache Kafka on purpose, and say for every lost record whether the protocol allows it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ebbtide {__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, line in VERBS.items():
        child = subparsers.add_parser(name, help=line)
        if name == verb:
            _module(name).add(child)
    return parser


def _module(verb: str) -> Any:
    return importlib.import_module(f"harness.cli.{verb}")


def _chosen(parser: argparse.ArgumentParser, args: argparse.Namespace) -> argparse.ArgumentParser:
    """The parser under `parser` that parsed the last of `args`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and (chosen := getattr(args, action.dest)) is not None:
            return _chosen(action.choices[chosen], args)
    return parser


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.split("=")[0], list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""


def _complain(text: str) -> None:
    """Write to stderr, which may be gone."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
