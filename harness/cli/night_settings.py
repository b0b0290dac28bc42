"""The settings of a night from its command line: budget, releases, scenarios and shard."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ebbtide.errors import COMMAND_LINE, EbbtideError, Problems, UsageError
from ebbtide.releases.known_releases import version_of
from harness.cli.command import Args
from harness.cli.option_values import split_list
from harness.cli.parameters import duration_s_of

if TYPE_CHECKING:
    from ebbtide.scenario.model import Scenario
    from harness.nightly.job import ReleaseTarget
    from harness.nightly.shards import Shard

Parsed = TypeVar("Parsed")

NightSettings: TypeAlias = "tuple[float, list[ReleaseTarget] | None, list[Scenario], Shard | None]"
"""The budget in seconds, the targets, the scenarios and the shard; no targets: those that each scenario names."""


def settings_of(args: Args) -> NightSettings:
    """Return the budget in seconds, the targets, the scenarios and the shard.

    Raises `UsageError` with every mistake in them.
    """
    from harness.nightly.shards import parse_shard
    from harness.runner.host import refuse_record

    wrong: list[EbbtideError] = []
    targets = None if args.kafka is None else _parse_or_note(wrong, "--kafka", lambda: _targets(args.kafka))
    scenarios = _parse_or_note(wrong, "--scenarios", lambda: scenarios_of(args.scenarios))
    place = "a store of earlier nights, or a new folder"
    _parse_or_note(wrong, "--store", lambda: refuse_record(args.store, allowed=place))
    shard = None if args.shard is None else _parse_or_note(wrong, "--shard", lambda: parse_shard(args.shard))
    if scenarios is None or wrong:
        raise wrong[0] if len(wrong) == 1 else Problems(COMMAND_LINE, wrong)
    if args.no_random:
        _check_has_jobs(args, targets, scenarios, shard)
    return duration_s_of("--budget", args.budget), targets, scenarios, shard


def _check_has_jobs(
    args: Args, targets: list[ReleaseTarget] | None, scenarios: Sequence[Scenario], shard: Shard | None
) -> None:
    """Raise `UsageError` if the catalogue has no run for this night: such a night would say nothing."""

    from harness.nightly.job import catalogue_jobs
    from harness.nightly.shards import jobs_of_shard

    jobs = list(catalogue_jobs(scenarios, targets, args.runtime, args.times))
    if shard is not None and jobs and not jobs_of_shard(jobs, shard):
        raise UsageError(
            "this shard has no run", where="--shard", got=str(shard), allowed=f"at most {len(jobs)} shards, a run each"
        )
    if jobs:
        return
    named = sorted({kafka for scenario in scenarios for kafka in scenario.kafka}, key=version_of)
    raise UsageError(
        "no scenario of this night runs on these releases",
        where="--kafka",
        got=args.kafka,
        allowed=f"releases that a scenario names: {', '.join(named)}",
        next="ebbtide run SCENARIO --kafka RELEASE    (any release)",
    )


def _parse_or_note(wrong: list[EbbtideError], where: str, parse: Callable[[], Parsed]) -> Parsed | None:
    """Return what `parse` returns.

    Returns None if it raises `UsageError`, which is added to `wrong`.
    """
    try:
        return parse()
    except UsageError as error:
        error.add_where(where)
        wrong.append(error)
        return None


def _targets(text: str) -> list[ReleaseTarget]:
    from ebbtide.scenario.model import ClusterSpec
    from ebbtide.scenario.validate_upgrades import validate_feature_name, validate_features
    from harness.nightly.job import parse_target

    targets = [parse_target(word) for word in _required_list(text, "--kafka")]
    for target in targets:
        for error in (one for name in target.features for one in validate_feature_name(name, "--kafka")):
            raise error
        validate_features(target.kafka, ClusterSpec(features=target.features), where="--kafka")
    return targets


def scenarios_of(text: str | None) -> list[Scenario]:
    """Return the scenarios of --scenarios, by default the whole catalogue. Raises `UsageError`.

    The store knows scenarios by their names.
    """
    from ebbtide.scenario import catalogue

    words = catalogue.names() if text is None else _required_list(text, "--scenarios")
    places: dict[str, str] = {}
    found = catalogue.find_all(list(dict.fromkeys(words)))
    for word, scenario in found:
        if (other := places.setdefault(scenario.name, word)) != word:
            raise UsageError(
                f"two scenarios of a night have the name {scenario.name}",
                got=f"{other}, {word}",
                allowed="another name in each file",
                next=f"ebbtide run {shlex.join([other, word])}    (names may repeat)",
            )
    return [scenario for _, scenario in found]


def _required_list(text: str, where: str) -> list[str]:
    words = split_list(text, where)
    if not words:
        raise UsageError("the list is empty", where=where, got=repr(text))
    return words
