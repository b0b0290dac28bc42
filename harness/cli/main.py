"""The frame of the `ebbtide` command: finds the verb, runs it, turns every end into an exit code.

A verb is a module `harness.cli.<verb>` with `command()`, which declares its arguments (`harness.cli.command`), and
`run(args) -> ExitCode`. A verb that needs root's privileges also has `powers(args)`, which returns a `PrivilegeRequest`
(`cluster.privileges.choice`), or None where these arguments need none. `args.argv` is what was typed.
Only the module of the verb that was typed is imported, so that `ebbtide --help` loads neither Spark nor docker
nor pyarrow; the others stand in the help by the line in `VERBS`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import click

from ebbtide.errors import COMMAND_LINE, EbbtideError, ExitCode, UsageError
from ebbtide.signals import is_interrupt
from ebbtide.streams import outlive_readers
from harness.cli.command import Args, LazyGroup
from harness.cli.mistakes import Mistakes

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
    "completion": "print the completion script of bash, zsh or fish",
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

COMPLETE = "_EBBTIDE_COMPLETE"
"""The environment variable by which a shell asks what a word may become."""


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


def root() -> LazyGroup:
    """The whole command."""
    group = LazyGroup(
        "Break real Apache Kafka on purpose, and say for every lost record whether the protocol allows it.",
        VERBS,
        "harness.cli.",
        dest="verb",
        metavar="VERB",
        epilog=_EPILOG,
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


def _print_version(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    from ebbtide.version import version_text

    print(f"ebbtide {version_text()}")
    ctx.exit()


def _run(argv: Sequence[str]) -> int:
    group = root()
    if not argv and (instruction := os.environ.get(COMPLETE)):
        from harness.cli.completing import complete

        return complete(group, COMPLETE, instruction)
    try:
        with group.make_context("ebbtide", list(argv), obj=Mistakes()) as ctx:
            typed = group.invoke(ctx)
    except click.exceptions.Exit as end:  # --help and --version have printed
        return end.exit_code
    typed.args.argv = tuple(argv)
    try:
        return _carry_out(group, typed.args, argv)
    except UsageError as error:
        # What is wrong of an option is told as by the parser.
        if error.where is not None and (error.where.startswith("--") or error.where == COMMAND_LINE):
            error.goes_on_with(f"{typed.command_path} --help")
        raise


def _carry_out(group: LazyGroup, args: Args, argv: Sequence[str]) -> int:
    module = group.module(args.verb)
    request = module.powers(args) if os.geteuid() != 0 and hasattr(module, "powers") else None
    if request is not None:
        from cluster.privileges.choice import rerun_with_privileges

        code = rerun_with_privileges(request, argv)
        if code is not None:
            return code
    return int(module.run(args))


def _complain(text: str) -> None:
    """Write to stderr, which may be gone."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
