"""Notes on settings without effect: Kafka ignores a name that it does not know, so its default counts.

Plugins have settings of their own, so an unknown name is noted only where it resembles one that the advice reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Literal

from ebbtide.scenario.kafka_settings import settings_at
from ebbtide.snapshot.described import BROKER_DEFAULTS, FACTOR
from ebbtide.snapshot.model import BROKER_NAMES, MIN_ISR
from ebbtide.suggestions import nearest_words

_OF_NODES = ("node.id", "broker.id", "process.roles", "broker.rack", "log.dirs", "log.dir")
_OF_QUORUM = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
_READ = {"node": (*BROKER_DEFAULTS, *_OF_NODES, *_OF_QUORUM), "topic": tuple(BROKER_NAMES)}
"""The settings that the advice reads, by place."""
_ELSEWHERE = {
    "node": {**BROKER_NAMES, "replication.factor": FACTOR, "min.isr": MIN_ISR},
    "topic": {other: name for name, other in BROKER_NAMES.items()},
}
"""What settings of other places are called here."""
_KEY_ALIKE_MIN = 0.8
_NAMES_MAX = 1_000
"""A node or topic has fewer settings; comparing names takes long."""


@lru_cache(4096)
def meant_setting(name: str, place: Literal["node", "topic"]) -> str | None:
    """Return the setting that the advice reads and that an unknown `name` resembles; None if there is none."""
    known = settings_at(place)
    if name in known:
        return None
    if (other := _ELSEWHERE[place].get(name)) is not None:
        return other
    if nearest_words(name, _READ[place], most=1):
        nearest = nearest_words(name, known, most=1)[0]
        return nearest if nearest in _READ[place] else None
    return next((one for one in _READ[place] if "." in name and one.endswith(f".{name}")), None)


def misspelled_names(names: Iterable[str], place: Literal["node", "topic"], owner: str) -> Iterator[tuple[str, str]]:
    """Yield a sentence on each name that is probably a misspelled setting, with the owner."""
    kind = "broker" if place == "node" else "topic"
    for name in islice(names, _NAMES_MAX):
        if (meant := meant_setting(name, place)) is not None:
            yield f"Kafka has no {kind} setting {name}, did you mean {meant}?", owner


def zookeeper_notes(properties: Mapping[str, str], owner: str) -> Iterator[str]:
    """Yield a note on a node in KRaft mode whose properties still name ZooKeeper."""
    if properties.get("zookeeper.metadata.migration.enable", "").lower() == "true":
        yield f"{owner} takes part in a migration from ZooKeeper: the advice is for the cluster after it"
    elif properties.get("zookeeper.connect"):
        yield f"{owner} has zookeeper.connect and process.roles: a node in KRaft mode ignores the first"


def misspelled_keys(keys: Iterable[str], known: Iterable[str], owner: str) -> Iterator[tuple[str, str]]:
    """Yield a sentence on each key of YAML that is probably a misspelled one of `known`, with the owner."""
    by_lower = {one.lower(): one for one in known}
    for key in keys:
        near = get_close_matches(key.lower(), by_lower, n=1, cutoff=_KEY_ALIKE_MIN)
        if near and by_lower[near[0]] != key:
            yield f"the key {key} was not read, did you mean {by_lower[near[0]]}?", owner
