"""The frame of the command: what it imports, what it suggests, and the exit code of every end."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from command_tree import commands

from ebbtide.errors import EbbtideError, ExitCode, HarnessError, UsageError
from harness.cli.command import Command, CommandBase
from harness.cli.main import VERBS, main

HEAVY = ("pyspark", "docker", "pyarrow", "pyroute2", "kafka", "rich", "jinja2", "pytest")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], ExitCode]], None]:
    """Makes `ebbtide clean` do what the test says."""

    def install(body: Callable[[], ExitCode]) -> None:
        module = types.ModuleType("harness.cli.clean")
        module.command = Command  # type: ignore[attr-defined]
        module.run = lambda args: body()  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "harness.cli.clean", module)

    return install


def _verb_that_raises(error: BaseException) -> Callable[[], ExitCode]:
    def body() -> ExitCode:
        raise error

    return body


def test_help_loads_no_heavy_library_and_no_verb() -> None:
    script = (
        "import sys\nfrom harness.cli.main import main\nassert main(['--help']) == 0\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert [name for name in loaded if name.split(".")[0] in HEAVY] == []
    assert [verb for verb in VERBS if f"harness.cli.{verb}" in loaded] == []
    assert all(verb in done.stdout for verb in VERBS)


def test_no_verb_loads_spark_or_docker_to_declare_itself() -> None:
    script = (
        f"import sys\nfrom harness.cli.main import main\nfor verb in {tuple(VERBS)}:\n"
        "    assert main([verb, '--help']) == 0\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert all(f"usage: ebbtide {verb}" in done.stdout for verb in VERBS)
    assert {"pyspark", "docker"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("help", "--help"),
        ("help --help", "--help"),
        ("help help", "--help"),
        ("help runs", "runs --help"),
        ("help cluster up", "cluster up --help"),
    ],
)
def test_help_is_a_word_too(words: str, same: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(same.split()) == ExitCode.AS_PREDICTED
    shown = capsys.readouterr().out
    assert main(words.split()) == ExitCode.AS_PREDICTED
    assert capsys.readouterr().out == shown
    assert shown.startswith("usage: ebbtide")


def test_a_command_line_is_read_as_it_was_typed() -> None:
    command = Command()
    command.argument("files", type=Path, many=True)
    command.option("--kafka", help="")
    command.option("--seed", type=int, help="")
    command.option("--feature", repeated=True, help="")
    command.flag("--json", help="")
    words = ["a", "--json", "--kafka=4.3.1", "--feature", "x=1", "b", "--seed", "-5", "--feature", "y=2", "--", "--c"]
    with command.make_context("p", words) as context:
        assert vars(command.invoke(context).args) == {
            "files": (Path("a"), Path("b"), Path("--c")),
            "kafka": "4.3.1",
            "seed": -5,
            "feature": ("x=1", "y=2"),
            "json": True,
        }


def test_what_follows_the_name_of_another_command_is_that_commands() -> None:
    command = Command(verbatim=True)
    command.argument("command", many=True, needed=False)
    command.option("--cluster", help="")
    for words, typed in (
        (["--cluster", "c", "--", "sh", "--", "-x"], ("sh", "--", "-x")),
        (["sh", "-c", "x", "--cluster"], ("sh", "-c", "x", "--cluster")),
    ):
        with command.make_context("p", words) as context:
            assert command.invoke(context).args.command == typed


@pytest.mark.parametrize("code", ExitCode)
def test_the_exit_code_of_a_verb_is_the_commands(verb: Callable[..., None], code: ExitCode) -> None:
    verb(lambda: code)
    assert main(["clean"]) == code


@pytest.mark.parametrize(
    ("error", "code"),
    [(HarnessError("no"), ExitCode.HARNESS_FAILED), (UsageError("no"), ExitCode.USAGE)],
)
def test_an_error_for_people_ends_as_its_message_and_its_exit_code(
    capsys: pytest.CaptureFixture[str], verb: Callable[..., None], error: EbbtideError, code: ExitCode
) -> None:
    verb(_verb_that_raises(error))
    assert main(["clean"]) == code
    next_ = "  next:    ebbtide clean --help\n" if code == ExitCode.USAGE else ""
    assert capsys.readouterr().err == f"error: no\n{next_}"


def test_a_bug_ends_as_one_line_that_names_the_file_with_the_traceback(
    capsys: pytest.CaptureFixture[str], verb: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    verb(_verb_that_raises(KeyError("epoch")))
    assert main(["clean"]) == ExitCode.HARNESS_FAILED
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: internal error, a bug in ebbtide: KeyError: 'epoch'"
    path = Path(second.removeprefix("  where:").strip())
    assert path.is_relative_to(tmp_path)
    assert "Traceback" in path.read_text()


def test_a_bug_with_nowhere_to_write_shows_its_traceback(
    capsys: pytest.CaptureFixture[str], verb: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    verb(_verb_that_raises(KeyError("epoch")))
    assert main(["clean"]) == ExitCode.HARNESS_FAILED
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_reported_in_a_word(capsys: pytest.CaptureFixture[str], verb: Callable[..., None]) -> None:
    verb(_verb_that_raises(KeyboardInterrupt()))
    assert main(["clean"]) == ExitCode.HARNESS_FAILED
    assert capsys.readouterr().err == "interrupted\n"


def test_a_full_disk_is_no_bug(capsys: pytest.CaptureFixture[str], verb: Callable[..., None]) -> None:
    verb(_verb_that_raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/1/sends")))
    assert main(["clean"]) == ExitCode.HARNESS_FAILED
    assert "no space left on the disk\n  where:   runs/1/sends" in capsys.readouterr().err


@pytest.mark.parametrize("errors", [subprocess.PIPE, subprocess.STDOUT])
def test_a_reader_that_goes_away_changes_neither_what_a_command_does_nor_its_exit_code(errors: int) -> None:
    script = (
        "import sys, types\nfrom harness.cli import main as frame\n"
        "module = types.ModuleType('m')\n"
        "from harness.cli.command import Command\nmodule.command = Command\n"
        "def run(args):\n"
        "    for _ in range(100):\n"
        "        print('x' * 100000)\n"
        "        print('y', file=sys.stderr)\n"
        "    return 1\n"
        "module.run = run\n"
        "sys.modules['harness.cli.clean'] = module\nsys.exit(frame.main(['clean']))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=errors) as command:
        assert command.stdout is not None
        command.stdout.read(10)
        command.stdout.close()
        if command.stderr is not None:
            assert command.stderr.read() == b"y\n" * 100
        assert command.wait(timeout=30) == ExitCode.CONTRADICTED


def test_closed_streams_change_no_exit_code() -> None:
    command = (
        f"exec {shlex.quote(sys.executable)} -c 'import sys; from harness.cli.main import main; sys.exit(main({{}}))'"
    )
    for words, code in ((["scenarios"], ExitCode.AS_PREDICTED), (["scenarios", "show", "none"], ExitCode.USAGE)):
        told = command.replace("{}", str(words).replace("'", '"'))
        assert subprocess.run(["sh", "-c", f"{told} >&- 2>&-"], check=False).returncode == code


def test_the_help_says_every_exit_code() -> None:
    codes = {path: set(command.codes) for path, command in commands() if isinstance(command, CommandBase)}
    assert codes[()] == set(ExitCode)
    assert codes["cluster", "fault"] == codes["cluster", "fault", "kill"] == {0, 2, 3, 4}
    assert {path for path, listed in codes.items() if not listed >= {0, 3, 4}} == {
        ("cluster",),
        ("kafka",),
        ("kafka", "image"),
        ("spec",),
    }
