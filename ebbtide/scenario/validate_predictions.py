"""Validates predictions: unknown names, and runs that cannot exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ebbtide.errors import UsageError
from ebbtide.releases.known_releases import KNOWN, OLDEST, parse_version
from ebbtide.rules.table import CLAUSES, NO_COMMITTED_LOSS
from ebbtide.scenario.parts import Parts, TablePart
from ebbtide.scenario.references import limit, limit_field, validate_topic_exists
from ebbtide.scenario.validate_features import level_of_no_release, validate_feature_name
from ebbtide.suggestions import bracketed_suggestion


def validate_predictions(parts: Parts) -> Iterator[UsageError]:
    """Report unknown facts and features, and predictions that no run can meet.

    Some predictions cannot be compared with any run.
    """
    yield from _releases_without(parts)
    earlier: list[tuple[int, str, Mapping[str, int]]] = []
    for index, prediction in enumerate(parts.predictions or ()):
        if prediction is None:
            continue
        where = f"predictions[{index}]"
        for key in ("exercised", "never"):
            for at, fact in enumerate(prediction.elements(key)):
                if fact is not None:
                    yield from _fact_known(fact, f"{where}.{key}[{at}]")
        for key in ("holds", "violates"):
            for at, name in enumerate(prediction.elements(key)):
                if name is not None:
                    yield from _property_known(name, f"{where}.{key}[{at}]")
        yield from _contradictory_holds(prediction, f"{where}.holds")
        yield from prediction.check(_passed_over, f"{where}.passed_over")
        if (loss := prediction.get("loss")) is not None:
            for key in ("at_least", "cause"):
                yield from loss.check(_loss, loss.get(key), f"{where}.loss.{key}")
            yield from _acks(parts, loss, f"{where}.loss.acks")
            for at, topic in enumerate(loss.elements("none_on")):
                if topic is not None:
                    yield from validate_topic_exists(parts, topic, f"{where}.loss.none_on[{at}]")
        if (bounds := prediction.get("unavailable_s")) is not None:
            yield from _unavailable(parts, bounds, f"{where}.unavailable_s")
        yield from _features(parts, prediction, f"{where}.features")
        yield from prediction.check(_releases, f"{where}.kafka")
        yield from prediction.check(_place, earlier, where)
        if prediction.unread.isdisjoint({"kafka", "features"}):
            earlier.append((index, prediction.get("kafka"), prediction.get("features")))


def _releases_without(parts: Parts) -> Iterator[UsageError]:
    """Releases of the file that no prediction has in its range. A record may be of any release."""
    texts = [None if one is None else one.get("kafka") for one in parts.predictions or ()]
    ranges = [None if text is None else _range_of(text) for text in texts]
    if parts.predictions is None or None in ranges:
        return
    for index, text in enumerate(parts.kafka or ()):
        if not any(_holds_release(text, one) for one in ranges if one is not None):
            yield UsageError(
                "no prediction for this release",
                where=f"kafka[{index}]",
                got=repr(text),
                allowed="a [[predictions]] entry whose kafka range holds it",
            )


def _holds_release(text: str, versions: SpecifierSet) -> bool:
    """Whether the range holds the release; an invalid release passes, because it has an error of its own."""
    try:
        return versions.contains(parse_version(text), prereleases=True)
    except UsageError:
        return True


def _releases(where: str, *, kafka: str) -> Iterator[UsageError]:
    """A range without releases."""
    versions = _range_of(kafka)
    if versions is not None and not _matching_versions(versions, _breaks(kafka)):
        yield UsageError(
            "holds no Kafka release",
            where=where,
            got=repr(kafka),
            allowed=f"a range that holds one from {OLDEST} on, e.g. '>=3.7,<4.1'",
        )


def _place(
    earlier: Sequence[tuple[int, str, Mapping[str, int]]], where: str, *, kafka: str, features: Mapping[str, int]
) -> Iterator[UsageError]:
    """A prediction whose runs all fit an earlier one."""
    if not _has_range(kafka):
        return
    first = next(
        (
            at
            for at, text, levels in earlier
            if _has_range(text) and levels.items() <= features.items() and _is_within_range(kafka, text)
        ),
        None,
    )
    if first is not None:
        yield UsageError(
            f"never comes into play: predictions[{first}] fits every run that this one fits, and the first counts",
            where=where,
            got=_describe_target(kafka, features),
            allowed="the narrower prediction first",
        )


def _has_range(text: str) -> bool:
    """Whether a range holds any release."""
    versions = _range_of(text)
    return versions is not None and bool(_matching_versions(versions, _breaks(text)))


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


def _loss(got: object, where: str, *, committed: str, uncommitted: str) -> Iterator[UsageError]:
    """Report a key about lost records in a prediction that allows no loss."""
    if committed == uncommitted == "none" and got is not None:
        yield UsageError(
            "contradicts that no record is lost",
            where=where,
            got=repr(got),
            allowed="committed or uncommitted = 'some' or 'any' beside it",
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


def _contradictory_holds(prediction: TablePart, where: str) -> Iterator[UsageError]:
    """Report a property that the prediction wants to hold and to be violated."""
    for at, name in enumerate(prediction.elements("holds")):
        if name is not None and name in prediction.elements("violates"):
            yield UsageError(
                "contradicts violates",
                where=f"{where}[{at}]",
                got=repr(name),
                allowed="a property that the known bug does not violate",
            )


def _passed_over(where: str, *, passed_over: str | None, anomalies: str) -> Iterator[UsageError]:
    """Report an exception to a prediction that the file does not make."""
    if passed_over is not None and anomalies != "none":
        yield UsageError(
            "has no effect: the prediction allows anomalies of every kind",
            where=where,
            got=repr(passed_over),
            allowed='beside anomalies = "none"',
        )


def _acks(parts: Parts, loss: TablePart, where: str) -> Iterator[UsageError]:
    """Report losses by acks that no producer can show, and those that the prediction rules out."""
    producers = (None,) if parts.producers is None else parts.producers
    used = {None if one is None else one.get("acks") for one in producers}
    for acks, wanted in loss.elements("acks", {}).items():
        if None not in used and acks not in used:
            yield UsageError(
                "no producer sends with these acks",
                where=f"{where}.{acks}",
                got=repr(wanted),
                allowed=f"acks of a producer: {', '.join(sorted(map(str, used)))}",
            )
        elif wanted == "some" and acks != "0":
            yield from loss.check(_loss, wanted, f"{where}.{acks}")


def _unavailable(parts: Parts, bounds: TablePart, where: str) -> Iterator[UsageError]:
    """Report bounds that bound nothing, or that no run can meet."""
    names = ("no_leader", "no_ack")
    if not any(map(bounds.has_value, names)):
        yield UsageError("bounds nothing", where=where, allowed=" or ".join(names))
    for name in names:
        one: TablePart | None = bounds.get(name)
        if one is None:
            continue
        at = f"{where}.{name}"
        yield from limit_field(at, one, "min", 0)
        yield from limit_field(at, one, "max", 0)
        yield from one.check(_time_bounds, at)
    producers = (None,) if parts.producers is None else parts.producers
    if (
        bounds.has_value("no_ack")
        and producers
        and not any(one is None or one.may_be("acks", "all") for one in producers)
    ):
        yield UsageError(
            "nobody waits for an ack of acks=all", where=f"{where}.no_ack", allowed="a producer with acks = 'all'"
        )


def _time_bounds(where: str, *, min_: float | None, max_: float | None) -> Iterator[UsageError]:
    """Report bounds without a number, and those that no time meets."""
    if min_ is None and max_ is None:
        yield UsageError("bounds nothing", where=where, allowed="min or max, in seconds")
    if min_ is not None and max_ is not None and min_ > max_:
        yield UsageError("min is above max", where=where, got=f"{min_:g} and {max_:g}", allowed="min <= max")


def _features(parts: Parts, prediction: TablePart, where: str) -> Iterator[UsageError]:
    """Report unknown features, and levels that no release in the range has."""
    text = prediction.get("kafka")
    versions = None if text is None else _range_of(text)
    named = [*(one.version for one in KNOWN), *(parts.kafka or ())]
    known = [] if versions is None or parts.kafka is None else [one for one in named if versions.contains(one)]
    for name, level in prediction.elements("features", {}).items():
        at = f"{where}.{name}"
        unknown = list(validate_feature_name(name, at))
        yield from unknown
        yield from limit(at, level, 0)
        if not unknown and level >= 0 and known and parts.cluster is not None:
            problem = UsageError(
                "no known release in this range has this level",
                where=at,
                got=str(level),
                allowed=f"a level of {name} that one of {', '.join(known)} has",
            )
            yield from parts.cluster.check(level_of_no_release, known, name, level, problem)


def _is_within_range(later: str, earlier: str) -> bool:
    """Whether the earlier range holds every release of the later one."""
    points = _breaks(earlier, later)
    return _matching_versions(SpecifierSet(later), points) <= _matching_versions(SpecifierSet(earlier), points)


def _describe_target(kafka: str, features: Mapping[str, int]) -> str:
    levels = ", ".join(f"{name} = {level}" for name, level in sorted(features.items()))
    return repr(kafka) + (f" with {levels}" if levels else "")


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
