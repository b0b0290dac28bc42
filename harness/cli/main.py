"""The frame of the `ebbtide` command.

It finds the verb, runs it, and returns the exit code.

A verb is a module `harness.cli.<verb>`, and so is a large subcommand, `harness.cli.<verb>_<subcommand>`. Its
`command()` declares the arguments (`harness.cli.command`), and its `run(args)` returns an `ExitCode`. A verb that needs
root's privileges also has `privileges(args)`, which returns a `PrivilegeRequest` (`cluster.privileges.choice`), or None
if these arguments need none. `args.argv` is what was typed, with the names of builds.

Only the module of the typed verb is imported, so `ebbtide --help` loads neither Spark nor docker nor pyarrow. The help
shows the other verbs from `VERBS`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Sequence

import click

from ebbtide.errors import COMMAND_LINE, RUN_CODES, EbbtideError, ExitCode, UsageError
from ebbtide.shown_text import without_middle
from ebbtide.signals import is_interrupt
from ebbtide.streams import ignore_closed_pipes, print_verbatim, shown_output
from harness.cli.command import Args, Group, ParsedCommand
from harness.cli.mistakes import error_of, with_whole_command
from harness.cli.parameters import value_type

VERBS: dict[str, str] = {
    "run": "run a scenario on one or more Kafka releases, and judge the runs",
    "nightly": "run all scenarios within a time budget, and keep a history and its site",
    "replay": "run a recorded schedule again, on the same or another release",
    "shrink": "find the smallest scenario that reproduces a finding",
    "cluster": "start, break and stop a cluster for experiments by hand",
    "watch": "record and judge what a cluster loses that Ebbtide did not start",
    "analyze": "judge recorded runs again, offline, and replace their verdicts",
    "explain": "explain what happened to one record of a run",
    "advise": "say what a cluster of yours could lose, read-only",
    "runs": "list the recorded runs, or compare some of them",
    "random": "draw a random schedule of faults, and run it",
    "scenarios": "list the shipped scenarios, print one, or check files of your own",
    "spec": "check, explore and print the protocol specification",
    "kafka": "fetch and list Kafka releases, and build Docker images of them",
    "clean": "undo what killed runs left on this host",
    "doctor": "check what this host can do, and say what to install",
}
"""Each verb and its line in the help; its module has the same name."""

_EPILOG = """start here:
  ebbtide doctor
  ebbtide run last-replica-standing --kafka 3.9.1,4.3.1

completion of the shell's words, in the file that the shell reads at its start:
  eval "$(ebbtide --completion bash)"        ~/.bashrc
  eval "$(ebbtide --completion zsh)"         ~/.zshrc, after compinit
  ebbtide --completion fish | source         ~/.config/fish/config.fish
"""

_REFUSALS = {
    **dict.fromkeys((errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR), ExitCode.USAGE),
    # A fault of a run may have made a volume read-only.
    **dict.fromkeys((errno.EPERM, errno.EROFS), ExitCode.HARNESS_FAILED),
}
"""The exit code of each error by which the host refuses a file."""
_WORD_MAX = 200

SHELLS = ("bash", "zsh", "fish")
COMPLETE = "_EBBTIDE_COMPLETE"
"""The environment variable with which a shell asks for completions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: this process's) and return its exit code.

    Never raises.
    """
    ignore_closed_pipes()
    with shown_output():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    # Debian's `su` keeps a user's PATH, which lacks mkfs, losetup and nft.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except EbbtideError as error:
        _print_error(f"error: {error.render()}")
        return ExitCode.HARNESS_FAILED if is_interrupt(error) else error.exit_code
    except (KeyboardInterrupt, SystemExit):
        _print_error("interrupted")
        return ExitCode.HARNESS_FAILED
    except Exception as error:
        if is_interrupt(error):
            _print_error("interrupted")
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            _print_error(
                f"error: no space left on the disk\n  where:   {error.filename or os.getcwd()}\n  next:    df -h"
            )
        elif isinstance(error, OSError) and error.errno in _REFUSALS and error.filename is not None:
            refused = UsageError(
                "the host does not let this user use a file or a folder",
                where=str(error.filename),
                got=error.strerror,
                next="ls -ld FOLDER    (of it and of those above), or name another one",
            )
            _print_error(f"error: {refused.render()}")
            return _REFUSALS[error.errno]
        elif isinstance(error, MemoryError):
            _print_error("error: the host has no memory left for this command\n  next:    free -h")
        else:
            from harness.cli.crash import write_crash_report

            _print_error(write_crash_report(error))
        return ExitCode.HARNESS_FAILED
    return code


def root_command() -> Group:
    """Declare the whole command."""
    group = Group(
        "Inject faults into real Apache Kafka, and say for every lost record whether the protocol allows the loss.",
        dest="verb",
        metavar="VERB",
        epilog=_EPILOG,
        codes=RUN_CODES,
    )
    for verb, line in VERBS.items():
        group.lazy_action(verb, f"harness.cli.{verb}", help=line)
    group.params.append(
        click.Option(
            ["--completion"],
            type=value_type(str, SHELLS),
            metavar="SHELL",
            is_eager=True,
            expose_value=False,
            callback=_print_completion,
            help="print the completion script of bash, zsh or fish, and exit",
        )
    )
    group.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="show the version and the git commit, and exit",
        )
    )
    return group


def _print_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    if shell is None or ctx.resilient_parsing:
        return
    from harness.cli.completing import completion_script

    print_verbatim(completion_script(root_command(), COMPLETE, shell))
    ctx.exit()


def _print_version(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    from ebbtide.version import version_text

    print(f"ebbtide {version_text()}")
    ctx.exit()


def _run(argv: Sequence[str]) -> int:
    _refuse_endless_numbers(argv)
    group = root_command()
    if not argv and (instruction := os.environ.get(COMPLETE)):
        from harness.cli.completing import answer_shell

        return answer_shell(group, COMPLETE, instruction)
    try:
        with group.make_context("ebbtide", list(argv)) as ctx:
            typed = group.invoke(ctx)
    except click.exceptions.Exit as end:  # --help and --version have printed
        return end.exit_code
    except click.UsageError as mistake:
        raise with_whole_command(error_of(mistake), argv) from None
    typed.args.argv = tuple(argv)
    try:
        return _run_verb(typed)
    except EbbtideError as error:
        if isinstance(error, UsageError):
            error.add_next(f"{typed.command_path} --help")
        with_whole_command(error, argv)
        raise


def _refuse_endless_numbers(argv: Sequence[str]) -> None:
    """Raise `UsageError` for a number that Python does not read; what follows `--` is another program's."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    if any(len(word) > _WORD_MAX for word in own):
        from ebbtide.untrusted.values import DIGITS_MAX, has_endless_number

        for word in own:
            if has_endless_number(word):
                raise UsageError(
                    "a number is too long",
                    where=COMMAND_LINE,
                    got=without_middle(word, _WORD_MAX),
                    allowed=f"up to {DIGITS_MAX:,} digits",
                )


def _run_verb(typed: ParsedCommand) -> int:
    module, args = typed.module, typed.args
    _name_builds(args)
    from harness.cli.archives import records_unpacked

    with records_unpacked(args, typed.records):
        request = module.privileges(args) if os.geteuid() != 0 and hasattr(module, "privileges") else None
    if request is not None:
        from cluster.privileges.choice import rerun_with_privileges

        code = rerun_with_privileges(request, args.argv)
        if code is not None:
            return code
    from harness.cli.rule_files import judged_with, specification_with_files_of

    rules = [*getattr(args, "rule", ()), *getattr(args, "properties", ())]
    judged = judged_with(rules, getattr(args, "judge_by", None))
    with records_unpacked(args, typed.records), specification_with_files_of(args), judged:
        return int(module.run(args))


def _name_builds(args: Args) -> None:
    """Write the name of a build for jars in --kafka, also in `args.argv`: a process that gets it reads no jars."""
    kafka = getattr(args, "kafka", None)
    if not isinstance(kafka, str) or re.fullmatch(r"[0-9., ]*", kafka):
        return
    from cluster.builds.naming import named_kafka

    named = named_kafka(kafka, lambda line: print(line, file=sys.stderr, flush=True))
    vars(args)["kafka"] = named
    words = [*args.argv]
    for at, word in enumerate(words):
        if word == f"--kafka={kafka}" or (word == kafka and words[at - 1] == "--kafka"):
            words[at] = word.removesuffix(kafka) + named
    args.argv = tuple(words)


def _print_error(text: str) -> None:
    """Print to stderr, which may be closed."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
