"""Runs a command as root of namespaces of its own: user, mount and pid.

As a program: `python -m ebbtide.command cluster.powers.user_namespace COMMAND...`. Three processes: the one that was
started
stays outside and passes signals on; it forks the first process of the pid namespace, which prepares the mounts
and then waits; that one forks the command. However the first or second dies, the kernel ends everything in the
pid namespace, and mounts and network namespaces go with it.

The namespaces have a session of their own: a Ctrl-C reaches only the process outside, and the command hears it once.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ebbtide.command import program
from ebbtide.errors import ExitCode
from ebbtide.powers import MARKER

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_PR_SET_PDEATHSIG = 1

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AWAITED = {*_PASSED_ON, signal.SIGCHLD}

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The kernel refused something; the message says what and why."""


def why_not() -> str | None:
    """Why this user cannot run ebbtide in namespaces of their own, found by trying it; None when they can."""
    # Not `true`: rights to read that root lent to this user end where the user namespace begins.
    trial = _command([sys.executable, "-P", "-c", "import ebbtide"])
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1].removeprefix("error: ") if said else f"exit code {done.returncode}"


def remedy(sysctls: Path = Path("/proc/sys")) -> str:
    """What an administrator types so that users may have namespaces, as far as the kernel's settings tell."""
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
    """Become `command`, run as root of namespaces of its own, with the marker in its environment."""
    sys.stdout.flush()
    environment: Mapping[str, str] = {**os.environ, MARKER: "user namespace"}
    os.execve(sys.executable, _command(command), environment)


def _command(command: Sequence[str]) -> list[str]:
    return [*program("cluster.powers.user_namespace"), *command]


def main(command: Sequence[str]) -> int:
    """Make the namespaces, run `command` in them, and return its exit code (128 + n when signal n ended it)."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        _make_namespaces()
        # Never written: it closes when this process dies, however that happens.
        alive, _held_open = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(_held_open)
            _end(lambda: _first_process(command, alive, mask))
        os.close(alive)
        return _pass_on_until_ended(first)
    except (Refused, OSError) as error:
        return _complain(error)


def _make_namespaces() -> None:
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID), "making a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)


def _first_process(command: Sequence[str], alive: int, mask: set[int | signal.Signals]) -> int:
    """Process 1 of the pid namespace: it takes in orphans, and its end is the end of all others."""
    os.setsid()
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "asking to die with the parent")
    if select.select([alive], [], [], 0)[0]:  # it died before it could be asked
        return ExitCode.HARNESS_FAILED
    _mount_private_folders()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _end(lambda: _become(command))
    return _pass_on_until_ended(child)


def _mount_private_folders() -> None:
    """A /proc of this pid namespace, and a /run that takes new entries and shows all the old ones."""
    # What the host unmounts goes here too: a copy that stays would pin its volumes.
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    run = Path("/run")
    old = {path.name: os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for path in run.iterdir()}
    links = {name: os.readlink(run / name) for name in old if (run / name).is_symlink()}
    # Another user's network namespaces and ledgers are none of this one's business.
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


def _become(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        raise Refused(f"starting {command[0]} in a user namespace: {error.strerror}") from None


def _pass_on_until_ended(child: int) -> int:
    """Pass signals on to `child` and reap whatever ends; returns the child's exit code."""
    while True:
        number = signal.sigwait(_AWAITED)
        if number in _PASSED_ON:
            os.kill(child, number)
            continue
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code


def _end(body: Callable[[], int]) -> NoReturn:
    """End a forked process with what `body` returns, running nothing of the parent's."""
    code: int = ExitCode.HARNESS_FAILED
    try:
        code = body()
    except (Refused, OSError) as error:
        code = _complain(error)
    finally:
        os._exit(code)


def _complain(error: Exception) -> int:
    sys.stderr.write(f"error: {error}\n")
    sys.stderr.flush()
    return ExitCode.HARNESS_FAILED


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    result = _libc.mount(os.fsencode(source), os.fsencode(target), kind and kind.encode(), flags, None)
    _check(result, f"mounting {target} in a user namespace")


def _check(result: int, doing: str) -> None:
    if result != 0:
        raise Refused(f"{doing}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
