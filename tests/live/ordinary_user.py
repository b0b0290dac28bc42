"""An ordinary user with a home, and the releases in it; and a command run as that user.

As a program (root, in a mount namespace of its own): `ordinary_user.py GROUPS -- CMD...` becomes the user.
Closed folders on the way to the checkout and the interpreter are covered by open ones that show just these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from live.commands import EBBTIDE, WatchedCommand, run_to_end

from ebbtide.places import cache_dir

USER = 65534
_ROOT = Path(__file__).resolve().parents[2]
_MS_BIND, _MS_REC = 0x1000, 0x4000
_MS_SLAVE, _MS_SHARED = 0x80000, 0x100000


class WatchedAs(WatchedCommand):
    """A command in another folder and environment than the tests' own."""

    def __init__(self, output: Path, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=folder)


class OrdinaryUser(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the command in `home`; `groups` are supplementary. Whoever is no root runs it as themselves."""

    home: Path
    groups: tuple[int, ...] = ()

    @classmethod
    def at(cls, home: Path, *releases: str, groups: tuple[int, ...] = ()) -> OrdinaryUser:
        """Make the home, and a cache of the user's own with `releases`."""
        for release in releases:
            shutil.copytree(cache_dir() / "kafka" / release, home / "cache" / "kafka" / release)
        (home / "cache" / "spark").mkdir(parents=True, exist_ok=True)
        # Without an archive the user's first Spark session takes three times the CPU time, and writes one.
        archives = sorted((cache_dir() / "spark").glob("*.jsa"), key=lambda path: path.stat().st_mtime)
        for archive in archives[-1:]:
            shutil.copy(archive, home / "cache" / "spark")
        if os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, USER, USER)
        return cls(home=home, groups=groups)

    def run(self, *arguments: str, timeout_s: float = 600.0) -> subprocess.CompletedProcess[str]:
        """Run `ebbtide ARGUMENTS` to its end; never raises for its exit code."""
        words = [*self._command(), *arguments]
        return run_to_end(words, timeout_s=timeout_s, env=self._environment(), folder=self.home)

    def watch(self, *arguments: str) -> WatchedCommand:
        """Start `ebbtide ARGUMENTS`; the pid is that of the user's own process."""
        output = self.home.with_name(self.home.name + "-output")
        return WatchedAs(output, [*self._command(), *arguments], self._environment(), self.home)

    def _command(self) -> list[str]:
        if os.geteuid() != 0:
            return list(EBBTIDE)
        groups = ",".join(map(str, self.groups))
        become = [sys.executable, "-m", "live.ordinary_user", groups, "--"]
        return ["unshare", "--mount", "--propagation=unchanged", "--", *become, *EBBTIDE]

    def _environment(self) -> dict[str, str]:
        # The cache stays where it was: a class archive counts only for jars of the same path.
        tests = os.pathsep.join((str(_ROOT / "tests"), str(_ROOT / "tests" / "support")))
        own = {"HOME": str(self.home), "EBBTIDE_CACHE": str(cache_dir()), "PYTHONPATH": tests}
        return {**os.environ, **own}


@contextlib.contextmanager
def shown_to_the_host(home: Path) -> Iterator[None]:
    """While inside, what a user mounts below `home` is mounted for the host too, as without a namespace between."""
    if os.geteuid() != 0:
        yield
        return
    _mount(str(home), home, None, _MS_BIND, None)
    _mount("none", home, None, _MS_SHARED, None)
    try:
        yield
    finally:
        subprocess.run(["umount", str(home)], check=True)


def _become_ordinary(groups: Sequence[int]) -> None:
    home = Path(os.environ["HOME"])
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if (point := Path(line.split()[4])) != home:
            with contextlib.suppress(OSError):  # hidden below another one
                _mount("none", point, None, _MS_SLAVE, None)
    _open_up([_ROOT, Path(sys.prefix), Path(sys.base_prefix), home, cache_dir()])
    _mount(str(home / "cache"), cache_dir(), None, _MS_BIND, None)
    os.setgroups(groups)
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)


def _open_up(needed: Sequence[Path]) -> None:
    """Make the folders `needed` reachable for everybody, in this mount namespace."""
    closed: dict[Path, list[Path]] = {}
    for path in dict.fromkeys(needed):
        for parent in reversed(path.parents):
            if not stat.S_IMODE(parent.stat().st_mode) & stat.S_IXOTH:
                closed.setdefault(parent, []).append(path)
                break
    for parent, paths in closed.items():
        handles = {path: os.open(path, os.O_PATH) for path in paths}
        _mount("tmpfs", parent, b"tmpfs", 0, b"mode=755")
        for path, handle in handles.items():
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, None, _MS_BIND | _MS_REC, None)


def _mount(source: str, target: Path, kind: bytes | None, flags: int, data: bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), os.fsencode(target), kind, flags, data) != 0:
        raise OSError(ctypes.get_errno(), f"mounting {target}")


if __name__ == "__main__":
    _become_ordinary([int(group) for group in sys.argv[1].split(",") if group])
    os.chdir(os.environ["HOME"])
    os.execvp(sys.argv[3], sys.argv[3:])
