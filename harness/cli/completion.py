"""`ebbtide completion bash|zsh|fish`: prints the shell's completion script."""

from __future__ import annotations

from ebbtide.errors import ExitCode
from ebbtide.streams import print_verbatim
from harness.cli.command import Args, Command
from harness.cli.completing import SHELLS

_EXAMPLES = """add one of these lines to the file that your shell reads at its start:
  eval "$(ebbtide completion bash)"        ~/.bashrc
  eval "$(ebbtide completion zsh)"         ~/.zshrc, after compinit
  ebbtide completion fish | source         ~/.config/fish/config.fish
"""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Print the completion script of a shell. It completes verbs, options, scenarios, Kafka releases, run records "
        "and running clusters.",
        epilog=_EXAMPLES,
    )
    command.argument("shell", metavar="SHELL", choices=SHELLS, help="one of " + ", ".join(SHELLS))
    return command


def run(args: Args) -> ExitCode:
    """Print the completion script."""
    from click.shell_completion import get_completion_class

    from harness.cli.main import COMPLETE, root_command

    shell = get_completion_class(args.shell)
    assert shell is not None
    print_verbatim(shell(root_command(), {}, "ebbtide", COMPLETE).source().rstrip("\n"))
    return ExitCode.AS_PREDICTED
