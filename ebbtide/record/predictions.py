"""Finds a run's prediction in its scenario, and what that prediction rules out."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from ebbtide.errors import EbbtideError
from ebbtide.record.files import RecordFolder
from ebbtide.record.manifest import Manifest
from ebbtide.releases.known_releases import version_of
from ebbtide.rules.table import ANOMALIES
from ebbtide.scenario.model import Prediction, Scenario
from ebbtide.scenario.parse import load
from ebbtide.scenario.write import SCENARIO

FROM_ELR = "elections-from-elr"
OWN_PREDICTION = frozenset(kind for kind, row in ANOMALIES.items() if row.has_own_prediction)
"""Kinds that a scenario predicts by keys of their own; `anomalies = "none"` covers none of them."""
EXPECTED_BY = {row.key_of(committed=committed): kind for kind, row in ANOMALIES.items() for committed in (True, False)}
"""The kind that each key of a prediction expects; the key is as in a scenario: `loss.commits`."""


def fitting_prediction(scenario: Scenario, manifest: Manifest) -> Prediction | None:
    """Return the first prediction whose versions and feature levels fit, or None.

    A level that is not listed is 0. A run that ended before it knew its levels fits no prediction that asks for a
    level, and no later prediction.
    """
    for one in scenario.predictions:
        in_range = _has_in_range(one, manifest.kafka)
        if in_range and one.features and not manifest.features:
            return None
        if in_range and all(manifest.features.get(name, 0) == level for name, level in one.features.items()):
            return one
    return None


def predicts(scenario: Scenario, kafka: str) -> bool:
    """Whether a prediction of the scenario has the release in its range; it may still ask for other feature levels."""
    return any(_has_in_range(one, kafka) for one in scenario.predictions)


def _has_in_range(prediction: Prediction, kafka: str) -> bool:
    try:
        return SpecifierSet(prediction.kafka).contains(version_of(kafka), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def prediction_of(record: RecordFolder, manifest: Manifest) -> Prediction | None:
    """Return the scenario's prediction of a recorded run, or None.

    None also for a scenario that cannot be read; the verdict says so.
    """
    try:
        return fitting_prediction(load(record / SCENARIO, of_record=True), manifest)
    except EbbtideError:
        return None


def is_ruled_out(prediction: Prediction, kind: str) -> bool:
    """Return whether the prediction says by `anomalies` that there is no anomaly of a kind."""
    if prediction.anomalies != "none" or kind in OWN_PREDICTION:
        return False
    key = ANOMALIES[kind].allowed_by if kind in ANOMALIES else None
    return key is None or getattr(prediction, key) != "any"


def findings_ruled_out(prediction: Prediction, *, facts: Mapping[str, int], kinds: Mapping[str, int]) -> dict[str, str]:
    """Return the facts and anomalies that occurred against the prediction.

    Each has a sentence. Losses and falls of the HW are left out: these have causes.
    """
    elected = facts.get(FROM_ELR)
    found = {}
    if prediction.elected_from_elr is False and elected:
        found[FROM_ELR] = f"predicted no election from the ELR, but the metadata log has {elected}"
    found |= {fact: f"predicted no {fact}, seen {facts[fact]:,}" for fact in prediction.never if facts.get(fact)}
    return found | {
        kind: f"predicted no anomaly, seen {in_words(kind, count)}{_allowing(kind)}"
        for kind, count in sorted(kinds.items())
        if count and is_ruled_out(prediction, kind)
    }


def in_words(kind: str, count: int) -> str:
    """Return how many anomalies of a kind were found; a kind of a newer Ebbtide goes by its name."""
    return ANOMALIES[kind].count(count) if kind in ANOMALIES else f"{count:,} {kind}"


def _allowing(kind: str) -> str:
    """Return which key of the prediction allows a kind, if a key does."""
    key = ANOMALIES[kind].allowed_by if kind in ANOMALIES else None
    return "" if key is None else f' ({key} = "any" allows that)'
