"""Known bugs and findings of Kafka: the one list, from which `advise` and docs/findings/README.md take theirs."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import msgspec
from packaging.version import Version

from analysis.advise.prices import NO_WAY_BACK, RESTART
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.feature_levels import METADATA_VERSIONS
from ebbtide.releases.known_releases import METADATA_VERSION

_BUGS = "findings/README.md#known-bugs"


class KnownDefect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A defect, the releases that have it, and what to do about it.

    - `affected`: the first release that has it, and the first that has not; an empty text: no release has the fix.
    - `fixed_by`: what a release with the fix needs, too: without it, newer releases have the defect.
    - `needs_elr`: only where the ELR is on. `needs_level`: newer releases have it below this metadata.version, too.
    - `change`, `price`: what to change, and the price of that, besides the prices of a newer release and of its level.
      `advise` does not name a defect without a change.
    - `scenario`: a scenario of the catalogue that shows it.
    """

    name: str
    what: str
    affected: tuple[tuple[str, str], ...]
    needs_elr: bool = False
    needs_level: str = ""
    fixed_by: str = ""
    change: str = ""
    price: str = ""
    page: str = _BUGS
    scenario: str = ""

    @property
    def see(self) -> tuple[str, ...]:
        """Where a reader without this repository can see it: addresses, and commands."""
        return tuple(_place_of(name) for name in self.name.split(", "))

    def applies(self, release: ReleaseFacts) -> bool:
        """Whether a release may have it with its feature levels."""
        if self.needs_elr and not release.is_elr_on:
            return False
        level = METADATA_VERSIONS.get(self.needs_level, 0)
        if self.fixed_by or release.features.get(METADATA_VERSION, level) < level:
            return True
        version = Version(release.kafka)
        return any(Version(first) <= version and not (end and version >= Version(end)) for first, end in self.affected)


_SHOWN_BY = {"raise-min-isr": "dynamic-min-isr-raise"}
"""The scenario that shows a finding, where its name is another one."""


def _place_of(name: str) -> str:
    if name.startswith("KAFKA-"):
        return f"https://issues.apache.org/jira/browse/{name}"
    repository, hash_, number = name.partition("#")
    if hash_:
        return f"https://github.com/{repository}/pull/{number}"
    return f"ebbtide scenarios show {_SHOWN_BY.get(name, name)}"


def _with_whole_price(defect: KnownDefect) -> KnownDefect:
    release = RESTART if defect.change.startswith("Kafka ") else ""
    level = NO_WAY_BACK if defect.needs_level else ""
    return msgspec.structs.replace(defect, price="; ".join(filter(None, (release, level, defect.price))))


_TABLE = tomllib.loads((files("analysis.advise") / "known_defects.toml").read_text("utf-8"))
DEFECTS = tuple(map(_with_whole_price, msgspec.convert(_TABLE["defects"], tuple[KnownDefect, ...])))
_BY_NAME = {defect.name: defect for defect in DEFECTS}


def new_disk_empties_elr(release: ReleaseFacts) -> bool:
    """Whether apache/kafka#20716 is open, which the model does not have: it knows no directories."""
    return _BY_NAME["apache/kafka#20716"].applies(release)


def elects_fenced_leaders(release: ReleaseFacts) -> bool:
    """Whether KAFKA-19522 is open: the last known leader is elected before its registration, still in the ISR."""
    return _BY_NAME["KAFKA-19522"].applies(release)


def defects_of(release: ReleaseFacts) -> tuple[KnownDefect, ...]:
    """Return the defects of a release that a change avoids; where its patch is unknown, those of any patch."""
    patches = [msgspec.structs.replace(release, kafka=patch) for patch in release.possible or (release.kafka,)]
    return tuple(defect for defect in DEFECTS if defect.change and any(map(defect.applies, patches)))
