"""Which prediction of its scenario a run has, and what that prediction rules out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ebbtide.errors import EbbtideError
from ebbtide.record.manifest import Manifest
from ebbtide.scenario.model import Prediction, Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO

FROM_ELR = "elections-from-elr"
APART = ("lost", "hw-regression")
"""Kinds that have an expectation of their own; `anomalies = "none"` speaks of the others."""


def fitting(scenario: Scenario, manifest: Manifest) -> Prediction | None:
    """The first prediction whose version range and feature levels fit the run; a level not listed is 0.

    A run that ended before it knew its levels fits none that asks for one, nor any after it.
    """
    for one in scenario.predictions:
        try:
            in_range = SpecifierSet(one.kafka).contains(Version(manifest.kafka), prereleases=True)
        except (InvalidSpecifier, InvalidVersion):
            in_range = False
        if in_range and one.features and not manifest.features:
            return None
        if in_range and all(manifest.features.get(name, 0) == level for name, level in one.features.items()):
            return one
    return None


def prediction_of(record: Path, manifest: Manifest) -> Prediction | None:
    """What the scenario of a record predicts of its run; None: nothing that can be read, as the verdict says."""
    try:
        return fitting(load(record / SCENARIO), manifest)
    except EbbtideError:
        return None


def ruled_out(prediction: Prediction, *, facts: Mapping[str, int], kinds: Mapping[str, int]) -> dict[str, str]:
    """Facts and kinds of anomaly that came about though the prediction says that they do not, each with a sentence.

    Losses and falls of the HW are not among them: these have causes.
    """
    elected = facts.get(FROM_ELR)
    found = {}
    if prediction.elected_from_elr is False and elected:
        found[FROM_ELR] = f"predicted no election from the ELR, but the metadata log has {elected}"
    found |= {fact: f"predicted no {fact}, seen {facts[fact]:,}" for fact in prediction.never if facts.get(fact)}
    if prediction.anomalies == "none":
        found |= {
            kind: f"predicted no anomaly, seen {count} {kind}"
            for kind, count in sorted(kinds.items())
            if count and kind not in APART
        }
    return found
