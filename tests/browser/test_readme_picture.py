"""The picture of the README is the comparison of two recorded runs, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout import ROOT

from tools.pages import picture

pytestmark = pytest.mark.browser

PNG = b"\x89PNG\r\n\x1a\n"
MAX_BYTES = 200_000


def test_the_program_makes_a_light_and_a_dark_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "ASSETS", tmp_path)
    monkeypatch.setattr(picture, "ROOT", tmp_path)
    assert picture.main() == 0
    light, dark = (picture.picture_of(scheme).read_bytes() for scheme in picture.SCHEMES)
    assert light.startswith(PNG)
    assert dark.startswith(PNG)
    assert light != dark


@pytest.mark.parametrize("scheme", picture.SCHEMES)
def test_the_readme_shows_the_pictures_and_they_are_small(scheme: str) -> None:
    shown = picture.picture_of("dark" if scheme == "dark" else "light")
    assert shown.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text()
    assert shown.stat().st_size < MAX_BYTES
