"""Runs a command as root of namespaces of its own: user, mount and pid.

As a program: `python -m ebbtide.command cluster.privileges.user_namespace COMMAND...`. Three processes take part. The
started process stays outside the namespaces and forwards signals. It forks the first process of the pid namespace,
which prepares the mounts and then waits. The first process forks the command. When the first or the second process
dies, however that happens, the kernel ends everything in the pid namespace; mounts and network namespaces go with it.

The namespaces have a session of their own: Ctrl-C reaches only the process outside, so that the command gets one
signal and not two.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ebbtide.command import module_command
from ebbtide.errors import ExitCode, HarnessError
from ebbtide.parent_death import die_with_parent
from ebbtide.privileges import PRIVILEGES_VARIABLE, home_dir
from ebbtide.signals import deliver_awaited, exit_code_of

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AWAITED = {*_FORWARDED, signal.SIGCHLD}

_libc = ctypes.CDLL(None, use_errno=True)


class KernelRefusal(Exception):
    """The kernel refused a request; the message says which request, and why."""


def why_unavailable() -> str | None:
    """Return why this user cannot run ebbtide in user namespaces; None when they can.

    Found by trying it.
    """
    # Not `true`: read permissions that this user has through root's groups end where the user namespace begins.
    trial = _command([sys.executable, "-P", "-c", "import ebbtide"])
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1].removeprefix("error: ") if said else f"exit code {done.returncode}"


def remedy(sysctls: Path = Path("/proc/sys")) -> str:
    """Return what an administrator types so that users may have namespaces.

    Found from the kernel's settings below `sysctls`; general advice when none of them forbids it.
    """
    for name, forbids, allows in (
        ("user/max_user_namespaces", "0", "15000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ):
        setting = sysctls / name
        if setting.is_file() and setting.read_text().strip() == forbids:
            return f"sudo sysctl -w {name.replace('/', '.')}={allows}"
    return "run ebbtide outside of chroots and containers, installed where this user may read it"


def rerun(command: Sequence[str]) -> NoReturn:
    """Replace this process by `command`, run as root of namespaces of its own.

    The environment of the command then has `PRIVILEGES_VARIABLE`.
    """
    sys.stdout.flush()
    deliver_awaited()
    # A signal that comes before `main` awaits it would end this process with its own code.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    environment = {**os.environ, PRIVILEGES_VARIABLE: "user namespace"}
    with contextlib.suppress(HarnessError):  # without HOME, the home of root in there would be that of the host's root
        environment.setdefault("HOME", str(home_dir()))
    os.execve(sys.executable, _command(command), environment)


def _command(command: Sequence[str]) -> list[str]:
    return [*module_command("cluster.privileges.user_namespace"), *command]


def main(command: Sequence[str]) -> int:
    """Make the namespaces, run `command` in them, and return its exit code.

    The exit code is 128 + n when signal n ended the command.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED) - set(_AWAITED)
    try:
        _make_namespaces()
        # Never written to: the pipe closes when this process dies, however that happens.
        alive, _held_open = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(_held_open)
            _exit_with_result_of(lambda: _first_process(command, alive, mask))
        os.close(alive)
        return _forward_signals_until_exit(first)
    except (KernelRefusal, OSError) as error:
        return _print_error(error)


def _make_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID), "making a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)


def _first_process(command: Sequence[str], alive: int, mask: set[int | signal.Signals]) -> int:
    """Run as process 1 of the pid namespace, whose end is the end of all the others.

    It also adopts orphans.
    """
    os.setsid()
    die_with_parent()
    if select.select([alive], [], [], 0)[0]:  # the parent died before the death signal was set
        return ExitCode.HARNESS_FAILED
    _mount_private_folders()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _exit_with_result_of(lambda: _exec_or_raise(command))
    return _forward_signals_until_exit(child)


def _mount_private_folders() -> None:
    """Mount a /proc of this pid namespace, and a writable /run with the old entries."""
    # What the host unmounts is unmounted here too: a copy that stays would pin the host's volumes.
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    run = Path("/run")
    old = {path.name: os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for path in run.iterdir()}
    links = {name: os.readlink(run / name) for name in old if (run / name).is_symlink()}
    # Network namespaces and ledgers of other users stay hidden.
    private = ("netns", "ebbtide")
    folders = {name for name in old if (run / name).is_dir() and name not in links}
    _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV)
    for name, handle in old.items():
        if name in links:
            (run / name).symlink_to(links[name])
        elif name not in private:
            (run / name).mkdir() if name in folders else (run / name).touch()
            _mount(f"/proc/self/fd/{handle}", str(run / name), None, _MS_BIND | _MS_REC)
        os.close(handle)


def _exec_or_raise(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        raise KernelRefusal(f"starting {command[0]} in a user namespace: {error.strerror}") from None


def _forward_signals_until_exit(child: int) -> int:
    """Forward signals to `child` and reap what ends; returns the child's exit code."""
    while True:
        number = signal.sigwait(_AWAITED)
        if number in _FORWARDED:
            os.kill(child, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if ended[0] == child:
                return exit_code_of(os.waitstatus_to_exitcode(ended[1]), ExitCode.HARNESS_FAILED)


def _exit_with_result_of(body: Callable[[], int]) -> NoReturn:
    """End a forked process with what `body` returns, and run no code of the parent's."""
    code: int = ExitCode.HARNESS_FAILED
    try:
        code = body()
    except (KernelRefusal, OSError) as error:
        code = _print_error(error)
    finally:
        os._exit(code)


def _print_error(error: Exception) -> int:
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()
    return ExitCode.HARNESS_FAILED


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    result = _libc.mount(os.fsencode(source), os.fsencode(target), kind and kind.encode(), flags, None)
    _check(result, f"mounting {target} in a user namespace")


def _check(result: int, doing: str) -> None:
    if result != 0:
        raise KernelRefusal(f"{doing}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
