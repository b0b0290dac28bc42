"""A scenario of what files describe: their gravest event, on as many nodes as this machine can take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from analysis.advise.advice import Advice
from analysis.advise.advised import AdvisedGroup, AdvisedLine
from analysis.advise.groups import hosting_brokers
from analysis.advise.scenarios import scenarios_of
from ebbtide.errors import Problems, UsageError
from ebbtide.scenario.model import MAX_BROKERS, ClusterSpec, Scenario
from ebbtide.scenario.parse import parse
from ebbtide.scenario.write import brief_text_of
from ebbtide.shown_text import plural, some_of
from ebbtide.snapshot.described import BROKER_DEFAULTS, FileFacts
from ebbtide.snapshot.planned import NEXT_TOPIC, NEXT_TOPIC_MEANS

CONTROLLERS_MAX = 3
_TOPIC = "t"
_ROUNDS_MAX = 10
_NAMED_MAX = 4


class FilesScenario(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a scenario, and what of the files is not in it, in sentences."""

    text: str
    dropped: tuple[str, ...]


def scenario_from(advice: Advice, facts: FileFacts, *, name: str) -> FilesScenario:
    """Return the scenario of the gravest event that one can show. Raises `UsageError` if there is none."""
    shown = next(_shown(advice, name), None)
    if shown is None:
        raise UsageError(
            "no event of these files can be shown by a scenario", next="ebbtide advise FILE --scenario DIR"
        )
    group, line, text = shown
    scenario = parse(text, file=name)
    brokers = len({one.id for one in advice.snapshot.brokers} | hosting_brokers(advice.snapshot))
    controllers = advice.snapshot.controllers or (1,)
    of_broker, of_controller = (some[0].properties if some else {} for some in (facts.brokers, facts.controllers))
    cluster = msgspec.structs.replace(
        scenario.cluster,
        brokers=max(scenario.cluster.brokers, min(brokers, MAX_BROKERS)),
        controllers=1 if len(controllers) == 1 else CONTROLLERS_MAX,
        broker_properties={**of_broker, **facts.broker_configs.get(None, {})},
        controller_properties=of_controller,
    )
    topics = some_of(group.group.topics, _NAMED_MAX)
    if NEXT_TOPIC in group.group.topics:
        topics = f"{topics}. {NEXT_TOPIC_MEANS}"
    scenario = msgspec.structs.replace(
        scenario,
        name=name,
        description=f"{scenario.description} Topic {_TOPIC} stands for {topics}.",
        cluster=cluster,
    )
    scenario, refused = _without_refused(scenario)
    dropped = [*_nodes(brokers, len(controllers), cluster, facts), *refused]
    if others := [one.group for one in advice.groups if one is not group]:
        dropped += [f"{one.settings.in_words()}: {some_of(one.topics, _NAMED_MAX)}" for one in others]
    if left := sum(one.today.acks_all.says == "loses" for one in group.lines) - (line.today.acks_all.says == "loses"):
        verb = "loses" if left == 1 else "lose"
        dropped.append(f"{plural(left, 'more event')} that {verb} records: `ebbtide advise --scenario` writes them all")
    return FilesScenario(text=brief_text_of(scenario), dropped=tuple(dropped))


def _shown(advice: Advice, name: str) -> Iterator[tuple[AdvisedGroup, AdvisedLine, str]]:
    """Yield what scenarios can show: losses first, and those of people's own topics before those of Kafka's."""
    own = [one for one in advice.groups if not all(topic.startswith("__") for topic in one.group.topics)]
    groups = [*own, *(one for one in advice.groups if one not in own)]
    for wanted in ("loses", "survives"):
        for group, line in chain.from_iterable(([(one, line) for line in one.lines]) for one in groups):
            if line.today.acks_all.says == wanted:
                made = next(scenarios_of(group.group, [line.today], advice.release, prefix=name, verb="scenarios from"))
                if made.text is not None:
                    yield group, line, made.text


def _without_refused(scenario: Scenario) -> tuple[Scenario, list[str]]:
    """Return the scenario without the properties that a run refuses or that have no effect there, and why.

    A property that brokers obey and controllers do not, or the other way round, is dropped only if neither has it.
    """
    why: dict[str, dict[str, str]] = {}
    for _ in range(_ROUNDS_MAX):
        try:
            parse(brief_text_of(scenario), file=scenario.name, strict=True)
            break
        except Problems as found:
            paths = {one.where: one.what for one in found.problems if one.where and "_properties." in one.where}
            if not paths:
                raise
            for path, reason in paths.items():
                half, _, name = path.partition("_properties.")
                why.setdefault(name, {})[f"{half.rpartition('.')[2]}s"] = reason.partition(" (")[0]
            scenario = msgspec.structs.replace(scenario, cluster=scenario.cluster.without_properties(set(paths)))
    kept = {*scenario.cluster.broker_properties, *scenario.cluster.controller_properties}
    dropped: dict[tuple[str, str], list[str]] = {}
    for name, halves in why.items():
        if name not in kept:
            # Its own half says more than that the other one does not obey it.
            reason = min(halves.values(), key=lambda one: "obey it" in one)
            dropped.setdefault((" and ".join(sorted(halves)), reason), []).append(name)
    return scenario, [f"of {halves}: {', '.join(names)}: {reason}" for (halves, reason), names in dropped.items()]


def _nodes(brokers: int, controllers: int, cluster: ClusterSpec, facts: FileFacts) -> Iterator[str]:
    if brokers > cluster.brokers:
        yield f"{brokers - cluster.brokers} of {brokers} brokers: at most {MAX_BROKERS} run on one machine"
    if controllers != cluster.controllers:
        yield f"{controllers} controllers are {cluster.controllers} here"
    if any(one in facts.controllers for one in facts.brokers):
        yield "nodes that are broker and controller are two nodes each: one fault hits one of them"
    if any("broker.rack" in one.properties for one in facts.brokers):
        yield "racks: a scenario has brokers only"
    values = [{key: value for key, value in one.properties.items() if key != "node.id"} for one in facts.brokers]
    differing = {key for one in values for key in one if one[key] != values[0].get(key)} - _OF_ONE_NODE
    read = differing & {*BROKER_DEFAULTS}
    for names, counts in ((read, "the weakest value"), (differing - read, "the first one's value")):
        if names:
            yield f"brokers differ in {', '.join(sorted(names)[:_NAMED_MAX])}: here all have {counts}"


_OF_ONE_NODE = frozenset({"listeners", "advertised.listeners", "log.dirs", "log.dir", "broker.id", "broker.rack"})
