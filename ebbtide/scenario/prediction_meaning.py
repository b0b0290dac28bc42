"""What the types of a scenario file cannot say of predictions: names that there are not, runs that there cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ebbtide.errors import UsageError
from ebbtide.releases.known import KNOWN, OLDEST
from ebbtide.scenario.admin_meaning import feature_known, has_level
from ebbtide.scenario.check import suggestion
from ebbtide.scenario.model import Prediction, Scenario
from ebbtide.scenario.references import Wrong, limit


def prediction_meaning(scenario: Scenario, wrong: Wrong) -> Iterator[UsageError]:
    """Facts and features that there are not, and predictions that no run can be held against, or can meet."""
    earlier: list[tuple[int, Prediction]] = []
    for index, prediction in enumerate(scenario.predictions):
        where = f"predictions[{index}]"
        for key, facts in (("exercised", prediction.exercised), ("never", prediction.never)):
            for at, fact in enumerate(facts):
                yield from _fact_known(fact, f"{where}.{key}[{at}]")
        yield from _loss(prediction, f"{where}.loss")
        versions = None if wrong(f"{where}.kafka") else _range_of(prediction.kafka)
        yield from _features(scenario, prediction, versions, f"{where}.features", wrong)
        if versions is None:
            continue
        if not _held(versions, _breaks(prediction.kafka)):
            yield UsageError(
                "holds no Kafka release",
                where=f"{where}.kafka",
                got=repr(prediction.kafka),
                allowed=f"a range that holds one from {OLDEST} on, e.g. '>=3.7,<4.1'",
            )
            continue
        if any(wrong(f"{where}.{key}") for key in ("features", *(f"features.{name}" for name in prediction.features))):
            continue
        first = next((at for at, one in earlier if _always_before(one, prediction)), None)
        if first is not None:
            yield UsageError(
                f"never comes into play: predictions[{first}] fits every run that this one fits, and the first counts",
                where=where,
                got=_fits_what(prediction),
                allowed="the narrower prediction first",
            )
        earlier.append((index, prediction))


def _fact_known(name: str, where: str) -> Iterator[UsageError]:
    """A coverage fact that no verdict has."""
    # Imported here: the judge's table needs its libraries, and few files are checked for facts.
    from ebbtide.scenario.facts import FACTS

    if name not in FACTS:
        yield UsageError(
            "unknown coverage fact",
            where=where,
            got=repr(name),
            allowed="a coverage fact of docs/coverage-facts.md, e.g. elections" + suggestion(name, list(FACTS)),
        )


def _loss(prediction: Prediction, where: str) -> Iterator[UsageError]:
    """What is said of lost records where none may be lost."""
    loss = prediction.loss
    if loss.committed == loss.uncommitted == "none":
        for key, got in (("at_least", loss.at_least), ("cause", loss.cause)):
            if got is not None:
                yield UsageError(
                    "contradicts that no record is lost",
                    where=f"{where}.{key}",
                    got=repr(got),
                    allowed="committed or uncommitted = 'some' or 'any' beside it",
                )


def _features(
    scenario: Scenario, prediction: Prediction, versions: SpecifierSet | None, where: str, wrong: Wrong
) -> Iterator[UsageError]:
    """Features that there are not, and levels that no release has which is in the range and known."""
    named = [*(one.version for one in KNOWN), *scenario.kafka]
    known = [] if versions is None or wrong("kafka") else [one for one in named if versions.contains(one)]
    for name, level in prediction.features.items():
        at = f"{where}.{name}"
        unknown = list(feature_known(name, at))
        yield from unknown
        yield from limit(at, level, 0)
        if unknown or level < 0 or not known or wrong("cluster"):
            continue
        if not any(has_level(release, name, level, scenario.cluster) for release in known):
            yield UsageError(
                "no known release in this range has this level",
                where=at,
                got=str(level),
                allowed=f"a level of {name} that one of {', '.join(known)} has",
            )


def _always_before(earlier: Prediction, later: Prediction) -> bool:
    """Whether the earlier one fits every run that the later one fits; both have ranges."""
    if not earlier.features.items() <= later.features.items():
        return False
    points = _breaks(earlier.kafka, later.kafka)
    return _held(SpecifierSet(later.kafka), points) <= _held(SpecifierSet(earlier.kafka), points)


def _fits_what(prediction: Prediction) -> str:
    levels = ", ".join(f"{name} = {level}" for name, level in sorted(prediction.features.items()))
    return repr(prediction.kafka) + (f" with {levels}" if levels else "")


def _range_of(text: str) -> SpecifierSet | None:
    """None: it is none, which is another check's to say."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def _held(versions: SpecifierSet, points: set[Version]) -> set[Version]:
    return {one for one in points if versions.contains(one)}


def _breaks(*ranges: str) -> set[Version]:
    """Releases from the oldest on, one of each stretch within which every one of the ranges holds all or none.

    What a range holds changes only at a version that it names, or at the next patch, minor or major release.
    """
    points = {Version(OLDEST)}
    for specifier in (one for text in ranges for one in SpecifierSet(text)):
        try:
            major, minor, patch = (*Version(specifier.version.removesuffix(".*")).release, 0, 0)[:3]
        except InvalidVersion:
            continue
        for release in (
            (major, minor, patch),
            (major, minor, patch + 1),
            (major, minor + 1, 0),
            (major + 1, 0, 0),
        ):
            points.add(Version(".".join(map(str, release))))
    return {one for one in points if one >= Version(OLDEST)}
