"""`ebbtide completion bash|zsh|fish`: the script that lets a shell complete the command."""

from __future__ import annotations

from ebbtide.errors import ExitCode
from harness.cli.command import Args, Command
from harness.cli.completing import SHELLS

_EXAMPLES = """put one of these where your shell starts:
  eval "$(ebbtide completion bash)"        ~/.bashrc
  eval "$(ebbtide completion zsh)"         ~/.zshrc, after compinit
  ebbtide completion fish | source         ~/.config/fish/config.fish
"""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Print the script that lets a shell complete verbs, options, scenarios, Kafka releases, run records and the "
        "clusters that are up.",
        epilog=_EXAMPLES,
    )
    command.argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return command


def run(args: Args) -> ExitCode:
    """Print the script."""
    from click.shell_completion import get_completion_class

    from harness.cli.main import COMPLETE, root

    shell = get_completion_class(args.shell)
    assert shell is not None
    print(shell(root(), {}, "ebbtide", COMPLETE).source(), end="")
    return ExitCode.AS_PREDICTED
