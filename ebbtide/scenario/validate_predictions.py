"""Validates predictions: unknown names, and runs that cannot exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ebbtide.errors import UsageError
from ebbtide.releases.builds import number_of
from ebbtide.releases.known_releases import KNOWN, OLDEST
from ebbtide.rules.table import CLAUSES, NO_COMMITTED_LOSS
from ebbtide.scenario.model import LossExpectation, Prediction, Scenario, TimeBounds, UnavailabilityExpectation
from ebbtide.scenario.references import limit, limit_field, validate_topic_exists
from ebbtide.scenario.validate_upgrades import has_level, validate_feature_name
from ebbtide.suggestions import bracketed_suggestion


def validate_predictions(scenario: Scenario) -> Iterator[UsageError]:
    """Report unknown facts and features, and predictions that no run can meet.

    Some predictions cannot be compared with any run.
    """
    yield from _releases_without(scenario)
    for index, prediction in enumerate(scenario.predictions):
        where = f"predictions[{index}]"
        for key in ("exercised", "never"):
            for at, fact in enumerate(getattr(prediction, key)):
                yield from _fact_known(fact, f"{where}.{key}[{at}]")
        for key in ("holds", "violates"):
            for at, name in enumerate(getattr(prediction, key)):
                yield from _property_known(name, f"{where}.{key}[{at}]")
        yield from _contradictions(prediction, where)
        yield from _acks(scenario, prediction.loss, f"{where}.loss.acks")
        for at, topic in enumerate(prediction.loss.none_on):
            yield from validate_topic_exists(scenario, topic, f"{where}.loss.none_on[{at}]")
        if prediction.unavailable_s is not None:
            yield from _unavailable(scenario, prediction.unavailable_s, f"{where}.unavailable_s")
        yield from _features(scenario, prediction, f"{where}.features")
        yield from _releases(f"{where}.kafka", prediction.kafka)
        yield from _place(prediction, scenario.predictions[:index], where)


def _releases_without(scenario: Scenario) -> Iterator[UsageError]:
    """Releases of the file that no prediction has in its range. A record may be of any release."""
    ranges = [SpecifierSet(one.kafka) for one in scenario.predictions]
    for index, text in enumerate(scenario.kafka):
        if not any(one.contains(number_of(text), prereleases=True) for one in ranges):
            yield UsageError(
                "no prediction for this release",
                where=f"kafka[{index}]",
                got=repr(text),
                allowed="a [[predictions]] entry whose kafka range holds it",
            )


def _releases(where: str, kafka: str) -> Iterator[UsageError]:
    """A range without releases."""
    if not _has_range(kafka):
        yield UsageError(
            "holds no Kafka release",
            where=where,
            got=repr(kafka),
            allowed=f"a range that holds one from {OLDEST} on, e.g. '>=3.7,<4.1'",
        )


def _place(prediction: Prediction, earlier: Sequence[Prediction], where: str) -> Iterator[UsageError]:
    """A prediction whose runs all fit an earlier one."""
    if not _has_range(prediction.kafka):
        return
    for at, one in enumerate(earlier):
        if (
            _has_range(one.kafka)
            and one.features.items() <= prediction.features.items()
            and _is_within_range(prediction.kafka, one.kafka)
        ):
            yield UsageError(
                f"never comes into play: predictions[{at}] fits every run that this one fits, and the first counts",
                where=where,
                got=_describe_target(prediction.kafka, prediction.features),
                allowed="the narrower prediction first",
            )
            return


def _has_range(text: str) -> bool:
    """Whether a range holds any release."""
    return bool(_matching_versions(SpecifierSet(text), _breaks(text)))


def _fact_known(name: str, where: str) -> Iterator[UsageError]:
    """A coverage fact that no verdict has."""
    # Imported here: the judge's table needs its libraries, and few files are checked for facts.
    from ebbtide.scenario.facts import FACTS

    if name not in FACTS:
        yield UsageError(
            "unknown coverage fact",
            where=where,
            got=repr(name),
            allowed="a coverage fact of docs/coverage-facts.md, e.g. elections" + bracketed_suggestion(name, FACTS),
        )


def _property_known(name: str, where: str) -> Iterator[UsageError]:
    """A property that no verdict has."""
    if name not in CLAUSES:
        yield UsageError(
            "unknown property",
            where=where,
            got=repr(name),
            allowed=f"a property of docs/clauses.md, e.g. {NO_COMMITTED_LOSS}" + bracketed_suggestion(name, CLAUSES),
        )


def _contradictions(prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report keys of a prediction that contradict each other, or that have no effect."""
    for at, name in enumerate(prediction.holds):
        if name in prediction.violates:
            yield UsageError(
                "contradicts violates",
                where=f"{where}.holds[{at}]",
                got=repr(name),
                allowed="a property that the known bug does not violate",
            )
    if prediction.passed_over is not None and prediction.anomalies != "none":
        yield UsageError(
            "has no effect: the prediction allows anomalies of every kind",
            where=f"{where}.passed_over",
            got=repr(prediction.passed_over),
            allowed='beside anomalies = "none"',
        )
    for key in ("at_least", "cause"):
        yield from _loss(prediction.loss, getattr(prediction.loss, key), f"{where}.loss.{key}")


def _loss(loss: LossExpectation, got: object, where: str) -> Iterator[UsageError]:
    """Report a key about lost records in a prediction that allows no loss."""
    if loss.committed == loss.uncommitted == "none" and got is not None:
        yield UsageError(
            "contradicts that no record is lost",
            where=where,
            got=repr(got),
            allowed="committed or uncommitted = 'some' or 'any' beside it",
        )


def _acks(scenario: Scenario, loss: LossExpectation, where: str) -> Iterator[UsageError]:
    """Report losses by acks that no producer can show, and those that the prediction rules out."""
    used: set[str] = {one.acks for one in scenario.producers}
    for acks, wanted in loss.acks.items():
        if acks not in used:
            yield UsageError(
                "no producer sends with these acks",
                where=f"{where}.{acks}",
                got=repr(wanted),
                allowed=f"acks of a producer: {', '.join(sorted(used))}",
            )
        elif wanted == "some" and acks != "0":
            yield from _loss(loss, wanted, f"{where}.{acks}")


def _unavailable(scenario: Scenario, bounds: UnavailabilityExpectation, where: str) -> Iterator[UsageError]:
    """Report bounds that bound nothing, or that no run can meet."""
    both = {"no_leader": bounds.no_leader, "no_ack": bounds.no_ack}
    if not any(both.values()):
        yield UsageError("bounds nothing", where=where, allowed=" or ".join(both))
    for name, one in both.items():
        if one is not None:
            yield from _time_bounds(one, f"{where}.{name}")
    if bounds.no_ack is not None and scenario.producers and all(one.acks != "all" for one in scenario.producers):
        yield UsageError(
            "nobody waits for an ack of acks=all", where=f"{where}.no_ack", allowed="a producer with acks = 'all'"
        )


def _time_bounds(bounds: TimeBounds, where: str) -> Iterator[UsageError]:
    """Report bounds without a number, and those that no time meets."""
    yield from limit_field(where, bounds, "min", 0)
    yield from limit_field(where, bounds, "max", 0)
    if bounds.min is None and bounds.max is None:
        yield UsageError("bounds nothing", where=where, allowed="min or max, in seconds")
    if bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        yield UsageError(
            "min is above max", where=where, got=f"{bounds.min:g} and {bounds.max:g}", allowed="min <= max"
        )


def _features(scenario: Scenario, prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report unknown features, and levels that no release in the range has."""
    versions = SpecifierSet(prediction.kafka)
    named = [*(one.version for one in KNOWN), *scenario.kafka]
    known = [one for one in named if versions.contains(number_of(one))]
    for name, level in prediction.features.items():
        at = f"{where}.{name}"
        unknown = list(validate_feature_name(name, at))
        yield from unknown
        yield from limit(at, level, 0)
        is_possible = any(has_level(one, name, level, scenario.cluster) for one in known)
        if not unknown and level >= 0 and known and not is_possible:
            yield UsageError(
                "no known release in this range has this level",
                where=at,
                got=str(level),
                allowed=f"a level of {name} that one of {', '.join(known)} has",
            )


def _is_within_range(later: str, earlier: str) -> bool:
    """Whether the earlier range holds every release of the later one."""
    points = _breaks(earlier, later)
    return _matching_versions(SpecifierSet(later), points) <= _matching_versions(SpecifierSet(earlier), points)


def _describe_target(kafka: str, features: Mapping[str, int]) -> str:
    levels = ", ".join(f"{name} = {level}" for name, level in sorted(features.items()))
    return repr(kafka) + (f" with {levels}" if levels else "")


def _matching_versions(versions: SpecifierSet, points: set[Version]) -> set[Version]:
    return {one for one in points if versions.contains(one)}


def _breaks(*ranges: str) -> set[Version]:
    """Return the versions at which a range can begin or end, from the oldest on.

    Between two of them, every range holds all releases or none. What a range holds changes only at a version
    that it names, or at the next patch, minor or major release.
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
