"""The picture of the README is the comparison of two recorded runs, light and dark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

from tools.pages import picture

pytestmark = pytest.mark.browser

PNG = b"\x89PNG\r\n\x1a\n"
MAX_BYTES = 200_000


_MAKE = """
import sys
from pathlib import Path
from tools.pages import picture

picture.ASSETS = picture.ROOT = Path(sys.argv[1])
sys.exit(picture.main())
"""


def test_the_program_makes_a_light_and_a_dark_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process of its own: Playwright allows one browser driver a process, and other tests have theirs.
    words = [sys.executable, "-c", _MAKE, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(picture, "ASSETS", tmp_path)
    light, dark = (picture.picture_of(scheme).read_bytes() for scheme in picture.SCHEMES)
    assert light.startswith(PNG)
    assert dark.startswith(PNG)
    assert light != dark


@pytest.mark.parametrize("scheme", picture.SCHEMES)
def test_the_readme_shows_the_pictures_and_they_are_small(scheme: str) -> None:
    shown = picture.picture_of("dark" if scheme == "dark" else "light")
    assert shown.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text()
    assert shown.stat().st_size < MAX_BYTES
