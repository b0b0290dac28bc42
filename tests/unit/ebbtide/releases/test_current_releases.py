"""A scenario names the current releases by one word, so a new release is one row."""

from __future__ import annotations

import pytest
from checkout import ROOT

from analysis.spec.variants import protocol_for
from ebbtide.releases import known_releases
from ebbtide.releases.known_releases import KNOWN, KnownRelease
from ebbtide.scenario.parse import load

SHIPPED = ROOT / "ebbtide" / "scenarios" / "elections-and-settings" / "healthy.toml"


def test_the_word_stands_for_the_releases_whose_rows_say_so() -> None:
    assert '"@current"' in SHIPPED.read_text()
    assert load(SHIPPED).kafka == ("3.9.1", *(known.version for known in KNOWN if known.is_current))


def test_a_new_row_reaches_every_scenario_and_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = KnownRelease("4.5.0", "elr_43", 34, KNOWN[-1].features, is_current=True)
    monkeypatch.setattr(known_releases, "KNOWN", (*KNOWN, planted))
    assert load(SHIPPED, strict=True).kafka[-1] == "4.5.0"
    assert protocol_for("4.5.0", {}).name == "elr_43"
    assert known_releases.minor_release_of(34) == "4.5"


def test_a_release_that_is_named_beside_the_word_runs_once() -> None:
    raw = known_releases.with_current_releases({"kafka": [KNOWN[-1].version, "@current"]})
    assert raw["kafka"] == [KNOWN[-1].version, *(one.version for one in KNOWN[:-1] if one.is_current)]
