"""Builds a release, and installs it in a fresh environment of each Python that this host has: `make release`.

`python -m tools.release` makes a wheel and a source archive of the commit in dist/. For each supported Python it makes
an environment with the locked libraries, and installs the wheel there, then the source archive. In both, the command
must say its version and its commit, and list the scenarios. Last it prints the line that makes the tag.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ebbtide import __version__

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CHANGES = ROOT / "changes"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class ReleaseError(Exception):
    """Why this checkout cannot be released now."""


def unfit(root: Path = ROOT, version: str = __version__) -> str | None:
    """Return why the checkout cannot be released as it is, or None."""
    if list((root / "changes").glob("*.*.md")):
        return "changes/ has files: make changelog, and commit"
    if f"## [{version}]" not in (root / "CHANGELOG.md").read_text():
        return f"CHANGELOG.md has no heading of {version}, the version in ebbtide/__init__.py"
    if _said("git", "-C", str(root), "status", "--porcelain"):
        return "the checkout has changes that are not committed"
    if _said("git", "-C", str(root), "tag", "--list", f"v{version}"):
        return f"the tag v{version} is there already: raise the version in ebbtide/__init__.py"
    return None


def pythons() -> Iterator[tuple[str, str | None]]:
    """Yield each supported Python, and where this host has it: on its PATH, or by pyenv."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in PYTHONS:
        found = [*sorted(map(str, kept.glob(f"{name}.*/bin/python")), reverse=True), shutil.which(f"python{name}")]
        yield name, next((path for path in found if path is not None and _is_python(path, name)), None)


def _is_python(path: str, name: str) -> bool:
    asked = [path, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == name


def build() -> tuple[Path, Path]:
    """Return the wheel and the source archive, made anew."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", DIST], cwd=ROOT, check=True)
    [wheel], [archive] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, archive


def try_installing(python: str, files: tuple[Path, Path]) -> None:
    """Install both files in a fresh environment, one after the other. Raises `ReleaseError`."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-release-") as folder:
        place = Path(folder)
        _run(python, "-m", "venv", str(place / "env"))
        pip = [str(place / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        locked = [str(ROOT / "requirements" / f"{name}.txt") for name in ("build", "run")]
        _run(*pip, "--require-hashes", "-r", locked[0])
        _run(*pip, "--require-hashes", "--use-pep517", "--no-build-isolation", "-r", locked[1])
        for file in files:
            _run(*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", str(file))
            command = str(place / "env" / "bin" / "ebbtide")
            # From elsewhere: in the checkout, Python would import the checkout.
            said = _said(command, "--version", cwd=place)
            commit = _said("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
            if said != f"ebbtide {__version__} ({commit})":
                raise ReleaseError(f"{file.name} says {said!r}, and not its version and commit")
            if "last-replica-standing" not in _said(command, "scenarios", cwd=place):
                raise ReleaseError(f"{file.name} lists no scenarios")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _said(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()


def main() -> int:
    """Build and try the release."""
    try:
        if why := unfit():
            raise ReleaseError(why)
        files = build()
        for name, python in pythons():
            if python is None:
                print(f"Python {name}: not on this host, not tried")
                continue
            try_installing(python, files)
            print(f"Python {name}: the wheel and the source archive install, and say {__version__}", flush=True)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"\nto release it:  git tag --annotate v{__version__} --message 'Ebbtide {__version__}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
