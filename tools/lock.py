"""Locks what `make setup` installs: writes requirements/*.txt with the hashes of every package. `make lock` runs it.

uv resolves once for all supported Pythons; what one of them alone needs has a marker. Each line of pip's files names
one version and the hashes of its files, so that pip installs these files or nothing. The package index is the one
that uv is set to (`UV_DEFAULT_INDEX`), and the files do not name it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = "requirements"

UV = "uv==0.13.9"

OTHER_BUILDERS = ("setuptools",)
"""What builds the packages that come as source alone: PySpark."""

_ABOUT = {
    "build": "What builds Ebbtide, and the packages that come as source alone. Installed first.",
    "run": "What Ebbtide needs to run.",
    "dev": "What its tests, checks and documentation need in addition.",
}


def main() -> int:
    """Write the files anew, with the newest versions that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        install = [sys.executable, "-m", "venv", "uv"], ["uv/bin/python", "-m", "pip", "install", "--quiet", UV]
        for command in install:
            subprocess.run(command, cwd=work, check=True)
        needed = work / "build.in"
        needed.write_text("\n".join([*project["build-system"]["requires"], *OTHER_BUILDERS]))
        everything = _resolve(work, "dev", [str(ROOT / "pyproject.toml"), "--extra=dev", str(needed)])
        (work / "constraints").write_text("".join(everything.values()))
        to_run = _resolve(work, "run", [str(ROOT / "pyproject.toml"), "--constraint=constraints"])
        to_build = _resolve(work, "build", [str(needed), "--constraint=constraints"])
    # All lines are those of the one resolution for everything: a smaller one may give a package a narrower marker.
    lists: dict[str, list[str]] = {file: [] for file in _ABOUT}
    for name, lines in everything.items():
        lists["build" if name in to_build else "run" if name in to_run else "dev"].append(lines)
    (ROOT / FOLDER).mkdir(exist_ok=True)
    for file, packages in lists.items():
        header = f"# {_ABOUT[file]}\n# Made by `make lock`; docs/decisions/dependencies.md says why.\n"
        (ROOT / FOLDER / f"{file}.txt").write_text(header + "".join(packages))
    return 0


def _resolve(work: Path, name: str, arguments: list[str]) -> dict[str, str]:
    """Return the lines of each package that the arguments need, by its name."""
    out = work / f"{name}.txt"
    command = ["uv/bin/uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header"]
    command += ["--no-annotate", "--no-emit-index-url", f"--output-file={out}", *arguments]
    subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
    packages: dict[str, str] = {}
    for block in re.findall(r"^\S.*\n(?: .*\n)*", out.read_text(), re.MULTILINE):
        package = re.split(r"[=\[ ;]", block, maxsplit=1)[0]
        packages[package] = packages.get(package, "") + block
    return packages


if __name__ == "__main__":
    sys.exit(main())
