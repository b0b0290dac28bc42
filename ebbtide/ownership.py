"""Folders and files that no other user of the host may write, so that their content can be believed.

Ledgers, locks and shared state are such files: what they say is undone as root, or waited for. A file is trusted if
it and every folder above it belong to this user or to root, and nobody else may write them.
"""

from __future__ import annotations

import contextlib
import functools
import grp
import os
import pwd
import stat
from collections.abc import Set
from pathlib import Path

from ebbtide.errors import HarnessError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_ALL_USERS = 1 << 32


class Untrusted(HarnessError):
    """Another user could have written a file or folder that must be Ebbtide's own."""


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, which only this user can enter, whatever the umask.

    Raises `Untrusted` for a folder that exists and that others may write, and `OSError`.
    """
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            one.mkdir(FOLDER_MODE)
            os.chmod(one, FOLDER_MODE)  # the umask may have taken away more
    check_trusted(folder)
    status = folder.stat()
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != FOLDER_MODE:
        os.chmod(folder, FOLDER_MODE)  # an earlier release let others look inside


def open_private(path: Path, flags: int) -> int:
    """Open or make a file that nobody else can open, whatever the umask; follows no symbolic link.

    Raises `Untrusted` for what is not a file, and `OSError`.
    """
    opened = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise Untrusted("this is not a file", where=str(path), next=_look_at(path))
        if flags & os.O_CREAT and status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != FILE_MODE:
            os.fchmod(opened, FILE_MODE)
    except BaseException:
        os.close(opened)
        raise
    return opened


def read_private(path: Path) -> bytes:
    """Return the content of a file that only this user or root could write.

    Raises `Untrusted`, and `OSError`.
    """
    with os.fdopen(open_private(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        _check(path, os.fstat(file.fileno()))
        return file.read()


def check_trusted(folder: Path, *, may_be_link: bool = False, users: Set[int] = frozenset()) -> None:
    """Raise `Untrusted` if another user may write a folder or a folder above it, or it is a symbolic link.

    Links above it are followed only where all folders are trusted, and so is the folder itself with `may_be_link`.
    `users` are trusted, too.
    """
    folder = folder.absolute()
    for path in (*reversed(folder.parents), folder):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if path == folder and not may_be_link:
                raise Untrusted("this folder must not be a symbolic link", where=str(path), next=_look_at(path))
            if status.st_uid not in _trusted_users() | users:
                raise _untrusted(path, status)
            check_trusted(path.resolve(), users=users)
        else:
            _check(path, status, users)


def sudo_users() -> frozenset[int]:
    """Return the user who called this command by sudo, whom Ebbtide trusts as it trusts root; empty without sudo."""
    user = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return frozenset({int(user)}) if user.isdecimal() and user.isascii() else frozenset()


def _check(path: Path, status: os.stat_result, users: Set[int] = frozenset()) -> None:
    others_write = bool(status.st_mode & stat.S_IWOTH) or (
        bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)
    )
    # In a sticky folder such as /tmp, nobody can replace what belongs to someone else.
    if status.st_uid not in _trusted_users() | users or (others_write and not status.st_mode & stat.S_ISVTX):
        raise _untrusted(path, status)


def _untrusted(path: Path, status: os.stat_result) -> Untrusted:
    return Untrusted(
        "another user of this host may write here, and replace what is here",
        where=str(path),
        got=f"owned by user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}",
        allowed=f"owned by user {os.geteuid()} or root, and writable by nobody else",
        next=_look_at(path),
    )


def _look_at(path: Path) -> str:
    return f"look at it (ls -ld {path}), remove what is not yours, then: chmod go-w {path}"


@functools.cache
def _is_private_group(group: int) -> bool:
    """Whether nobody but root and this user is in a group.

    Some distributions give each user a group of the same name, and let it write the user's folders.
    """
    if group == 0:
        return True
    try:
        user, named = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return named.gr_name == user.pw_name and set(named.gr_mem) <= {user.pw_name}


@functools.cache
def _trusted_users() -> frozenset[int]:
    """Return this user, root, and in a user namespace whoever it does not map, as the host's root."""
    trusted = {os.geteuid(), 0}
    with contextlib.suppress(OSError, ValueError, IndexError):
        maps = [line.split() for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if sum(int(one[2]) for one in maps) < _ALL_USERS - 1:
            trusted.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(trusted)
