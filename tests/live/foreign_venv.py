"""A virtual environment that has Ebbtide's wheel and what the wheel asks for, and nothing else of this one's.

What it asks for is linked from this environment, and checked by pip: no index is asked, which a test must not need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def make_venv(where: Path, *also: str) -> Path:
    """Its interpreter. `where` is an empty folder or none yet; `also`: more distributions, with what they ask for."""
    environment = where / "venv"
    # This interpreter is in an environment itself: its base is what the new one is made of.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    _pip(python, "install", "--no-deps", "--no-index", _wheel(where))
    (site,) = environment.glob("lib/python*/site-packages")
    (ebbtide,) = site.glob("ebbtide-*.dist-info")
    wanted = [_asked_for(one) for one in (Distribution.at(ebbtide), *map(distribution, also))]
    linked = {name: found for asked in wanted for name, found in asked.items()}
    for found in (linked | {name: distribution(name) for name in also}).values():
        _link(found, site)
    _pip(python, "check")
    return python


def _wheel(where: Path) -> Path:
    """Built from a copy of what git knows: a build leaves its folders in the source."""
    source = where / "source"
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in os.fsdecode(listing.stdout).split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    words = ["wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", where / "dist", source]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (built,) = (where / "dist").glob("ebbtide-*.whl")
    return built


def _pip(python: Path, *words: str | Path) -> None:
    """This environment's pip, in the other one. What it complains of fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _asked_for(wheel: Distribution) -> dict[str, Distribution]:
    """By their names, all distributions that the wheel asks for, and those that these ask for, with their extras."""
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(wheel, "")]
    while waiting:
        asking, extra = waiting.pop()
        for line in asking.requires or ():
            wanted = Requirement(line)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            found.setdefault(wanted.name, distribution(wanted.name))
            for more in ("", *wanted.extras):
                if (wanted.name, more) not in done:
                    done.add((wanted.name, more))
                    waiting.append((found[wanted.name], more))
    return found


def _link(found: Distribution, site: Path) -> None:
    """Its modules, packages and metadata; its scripts are not needed."""
    files = found.files
    assert files, f"{found.name} does not say what it installed"
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(found.locate_file(top))).resolve())
