"""Validates predictions: unknown names, and runs that cannot exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import KNOWN, OLDEST
from ebbtide.scenario.model import Prediction
from ebbtide.scenario.parts import Parts, as_far_as_read
from ebbtide.scenario.property_names import PROPERTY_NAMES, WITNESS_AGREES
from ebbtide.scenario.references import limit, limit_field
from ebbtide.scenario.validate_features import has_level, validate_feature_name
from ebbtide.suggestions import bracketed_suggestion


def validate_predictions(parts: Parts) -> Iterator[UsageError]:
    """Report unknown facts and features, and predictions that no run can meet.

    Some predictions cannot be compared with any run.
    """
    earlier: list[tuple[int, Prediction]] = []
    for index, prediction in enumerate(parts.predictions or ()):
        if prediction is not None:
            where = f"predictions[{index}]"
            for key in ("exercised", "never"):
                for at, fact in enumerate(getattr(prediction, key, ())):
                    yield from _fact_known(fact, f"{where}.{key}[{at}]")
            for at, name in enumerate(getattr(prediction, "holds", ())):
                yield from _property_known(name, f"{where}.holds[{at}]")
            yield from as_far_as_read(_contradictory_holds(prediction, f"{where}.holds"))
            yield from as_far_as_read(_loss(prediction, f"{where}.loss"))
            yield from as_far_as_read(_acks(parts, prediction, f"{where}.loss.acks"))
            yield from as_far_as_read(_unavailable(parts, prediction, f"{where}.unavailable_s"))
            yield from as_far_as_read(_features(parts, prediction, f"{where}.features"))
            yield from as_far_as_read(_place(prediction, earlier, where))
            earlier.append((index, prediction))


def _place(prediction: Prediction, earlier: Iterable[tuple[int, Prediction]], where: str) -> Iterator[UsageError]:
    """A range without releases, and one whose runs all fit an earlier prediction."""
    versions = _range_of(prediction.kafka)
    if versions is None:
        return
    if not _matching_versions(versions, _breaks(prediction.kafka)):
        yield UsageError(
            "holds no Kafka release",
            where=f"{where}.kafka",
            got=repr(prediction.kafka),
            allowed=f"a range that holds one from {OLDEST} on, e.g. '>=3.7,<4.1'",
        )
        return
    first = next((at for at, one in earlier if _has_range(one) and _always_before(one, prediction)), None)
    if first is not None:
        yield UsageError(
            f"never comes into play: predictions[{first}] fits every run that this one fits, and the first counts",
            where=where,
            got=_describe_target(prediction),
            allowed="the narrower prediction first",
        )


def _has_range(prediction: Prediction) -> bool:
    """Whether it says releases, and all levels that it asks for were read."""
    text = getattr(prediction, "kafka", None)
    versions = None if text is None else _range_of(text)
    return (
        versions is not None
        and bool(_matching_versions(versions, _breaks(str(text))))
        and hasattr(prediction, "features")
    )


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


def _loss(prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report keys about lost records in a prediction that allows no loss."""
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


def _property_known(name: str, where: str) -> Iterator[UsageError]:
    """A property that no verdict has."""
    # Imported here: few files name properties, and the verdict needs its libraries.
    known = (*PROPERTY_NAMES, WITNESS_AGREES)
    if name not in known:
        yield UsageError(
            "unknown property",
            where=where,
            got=repr(name),
            allowed=f"a property of docs/clauses.md, e.g. {PROPERTY_NAMES[0]}" + bracketed_suggestion(name, known),
        )


def _contradictory_holds(prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report a property that the prediction wants to hold and to be violated."""
    for at, name in enumerate(prediction.holds):
        if name in prediction.violates:
            yield UsageError(
                "contradicts violates",
                where=f"{where}[{at}]",
                got=repr(name),
                allowed="a property that the known bug does not violate",
            )


def _acks(parts: Parts, prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report losses by acks that no producer can show, and those that the prediction rules out."""
    loss = prediction.loss
    producers = parts.producers
    used = None if producers is None or None in producers else {one.acks for one in producers if one is not None}
    for acks, wanted in loss.acks.items():
        if used is not None and acks not in used:
            yield UsageError(
                "no producer sends with these acks",
                where=f"{where}.{acks}",
                got=repr(wanted),
                allowed=f"acks of a producer: {', '.join(sorted(used))}",
            )
        elif wanted == "some" and acks != "0" and loss.committed == loss.uncommitted == "none":
            yield UsageError(
                "contradicts that no record is lost",
                where=f"{where}.{acks}",
                got=repr(wanted),
                allowed="committed or uncommitted = 'some' or 'any' beside it",
            )


def _unavailable(parts: Parts, prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report bounds that bound nothing, or that no run can meet."""
    bounds = prediction.unavailable_s
    if bounds is None:
        return
    named = {"no_leader": bounds.no_leader, "no_ack": bounds.no_ack}
    if not any(named.values()):
        yield UsageError("bounds nothing", where=where, allowed=" or ".join(named))
    for name, one in named.items():
        if one is None:
            continue
        at = f"{where}.{name}"
        yield from limit_field(at, one, "min", 0)
        yield from limit_field(at, one, "max", 0)
        if one.min is None and one.max is None:
            yield UsageError("bounds nothing", where=at, allowed="min or max, in seconds")
        if one.min is not None and one.max is not None and one.min > one.max:
            yield UsageError("min is above max", where=at, got=f"{one.min:g} and {one.max:g}", allowed="min <= max")
    producers = parts.producers
    if bounds.no_ack is not None and producers and all(getattr(one, "acks", "all") != "all" for one in producers):
        yield UsageError(
            "nobody waits for an ack of acks=all", where=f"{where}.no_ack", allowed="a producer with acks = 'all'"
        )


def _features(parts: Parts, prediction: Prediction, where: str) -> Iterator[UsageError]:
    """Report unknown features, and levels that no release in the range has."""
    text = getattr(prediction, "kafka", None)
    versions = None if text is None else _range_of(text)
    named = [*(one.version for one in KNOWN), *(parts.kafka or ())]
    known = [] if versions is None or parts.kafka is None else [one for one in named if versions.contains(one)]
    for name, level in prediction.features.items():
        at = f"{where}.{name}"
        unknown = list(validate_feature_name(name, at))
        yield from unknown
        yield from limit(at, level, 0)
        if unknown or level < 0 or not known or parts.cluster is None:
            continue
        if not any(has_level(release, name, level, parts.cluster) for release in known):
            yield UsageError(
                "no known release in this range has this level",
                where=at,
                got=str(level),
                allowed=f"a level of {name} that one of {', '.join(known)} has",
            )


def _always_before(earlier: Prediction, later: Prediction) -> bool:
    """Whether the earlier prediction fits every run that the later one fits.

    Both predictions have ranges.
    """
    if not earlier.features.items() <= later.features.items():
        return False
    points = _breaks(earlier.kafka, later.kafka)
    return _matching_versions(SpecifierSet(later.kafka), points) <= _matching_versions(
        SpecifierSet(earlier.kafka), points
    )


def _describe_target(prediction: Prediction) -> str:
    levels = ", ".join(f"{name} = {level}" for name, level in sorted(prediction.features.items()))
    return repr(prediction.kafka) + (f" with {levels}" if levels else "")


def _range_of(text: str) -> SpecifierSet | None:
    """Return the range of `text`; None if it is invalid, which another check reports."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


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
