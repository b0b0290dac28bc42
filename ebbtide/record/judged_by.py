"""By which rules of the protocol a run was judged: the part `protocol` of verdict.json."""

from __future__ import annotations

import msgspec
from packaging.version import Version

from ebbtide.releases.known_releases import KNOWN, judged_as, version_of


class RulesOf(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of the protocol by which what one Kafka did is judged.

    - `variant`: the variant's name, such as `elr-43`.
    - `nearest`: the known release that the Kafka is taken for. Its rules count unless `--variant` named others.
    - `known`: the Kafka is that release, or a build of exactly its jars.
    """

    variant: str
    nearest: str
    known: bool

    @property
    def usual(self) -> str:
        """The variant that the nearest release is judged by without `--variant`."""
        return judged_as(self.nearest).variant.replace("_", "-")


class RulesOfRelease(RulesOf, frozen=True, kw_only=True):
    """The rules that judge what nodes did while they ran one of the releases of an upgrade."""

    kafka: str

    @property
    def reason(self) -> str:
        """Why `kafka` is judged by the rules of the nearest release; empty if it is that release."""
        if self.known:
            return ""
        if version_of(self.kafka) > Version(KNOWN[-1].version):
            return f"{self.kafka} is newer than every release that Ebbtide knows"
        return f"{self.kafka} is taken for {self.nearest}, the nearest release that Ebbtide knows"


class JudgedBy(RulesOf, frozen=True, kw_only=True):
    """The rules of the protocol that a run was judged by: those of the manifest's `kafka`.

    - `file`, `sha256`: the variant is one of the user's, in this file; left out if it is not.
    - `releases`: what each node did is judged by the rules of the release that it ran then. These are the rules of
      each release, the first one first; left out if all nodes ran one release.
    """

    file: str | msgspec.UnsetType = msgspec.UNSET
    sha256: str | msgspec.UnsetType = msgspec.UNSET
    releases: list[RulesOfRelease] | msgspec.UnsetType = msgspec.UNSET

    def in_words(self, kafka: str) -> str:
        """Return the variant that `kafka` was judged by, and why; empty if a known release has it by itself."""
        several = [RulesOfRelease(kafka=kafka, variant=self.variant, nearest=self.nearest, known=self.known)]
        if self.releases is not msgspec.UNSET:
            several = self.releases
        if any(one.variant != one.usual for one in several):
            usual = ", ".join(f"{one.kafka} would be judged by {one.usual}" for one in several)
            return f"{self.variant}, as --variant says; {usual}"
        reasons = [reason for one in several if (reason := one.reason)]
        if len(several) > 1:
            each = ", ".join(f"{one.kafka} by {one.variant}" for one in several)
            return "; ".join((f"each node by the rules of its release: {each}", *reasons))
        return "; ".join((self.variant, *reasons)) if reasons else ""
