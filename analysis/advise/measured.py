"""What recorded runs of the catalogue lost, for the events of advice."""

from __future__ import annotations

from packaging.version import Version

from analysis.advise.events import AdvisedEvent
from analysis.advise.groups import GroupSettings
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.first_with import ELR_BY_DEFAULT
from ebbtide.releases.known_releases import ELR_VERSION
from ebbtide.scenario import catalogue
from ebbtide.scenario.shipped import measured_rows

_SHOWN_MAX = 2
_UNCOMMITTED = "uncommitted-at-failover"
"""The cause of records that never were committed, which acks=all would not have acked."""
_CAUSE_TEXTS = {"unexplained": "against the protocol"}
"""What a cause means where the reader has no page of causes beside him."""
_RF, _MIN_ISR = 3, 2
"""The catalogue measures this configuration, but for scenarios that name another one."""


def measured_of(event: AdvisedEvent, settings: GroupSettings, release: ReleaseFacts) -> tuple[str, ...]:
    """Return what runs near this event lost, on releases of the same minor with the ELR alike.

    A run counts only where the settings are those of the catalogue: RF 3, min ISR 2, nothing flushed. The runtimes of
    the runs, docker and local, stand behind the release.
    """
    if (settings.rf, settings.effective_min_isr) != (_RF, _MIN_ISR) or settings.unclean:
        return ()
    minor = Version(release.kafka).release[:2]
    found = []
    is_flushed = settings.flushes_each_record and "power_losses" in event.budget
    for scenario in ("rack-power-flushed",) if is_flushed else event.shown_by:
        by_target: dict[str, set[str]] = {}
        runtimes: dict[str, set[str]] = {}
        for row in measured_rows():
            if row.scenario == scenario and _target(row.target) == (minor, release.is_elr_on):
                kafka = row.target.partition(":")[0]
                by_target.setdefault(kafka, set()).update(row.lost)
                runtimes.setdefault(kafka, set()).add(row.runtime)
        acks = frozenset(one.acks for one in catalogue.find(scenario).producers)
        found += [
            f"{scenario} on {target} ({' and '.join(sorted(runtimes[target]))}): lost {range_of_losses(lost, acks)}"
            for target, lost in sorted(by_target.items())
        ]
    return tuple(found[:_SHOWN_MAX])


def range_of_losses(lost: set[str], acks: frozenset[str]) -> str:
    """Return the losses of runs as one range a cause, with the acks of the lost records.

    Such as `0 to 3 with acks=1 (uncommitted-at-failover), none with acks=all`. `acks` are those of the producers.
    The judge counts no loss with acks=0, because no broker acks such a record.
    """
    if acks == {"0"}:
        return "none that is counted (acks=0 only)"
    acks -= {"0"}
    runs = [_by_cause(run) for run in lost]
    causes = sorted({cause for run in runs for cause in run})
    counts = {cause: sorted({run.get(cause, 0) for run in runs}) for cause in causes}
    ranges = [
        (f"{of[0]:,} to {of[-1]:,}" if len(of) > 1 else f"{of[0]:,}")
        + f" {_acks_of_cause(cause, acks)} ({_CAUSE_TEXTS.get(cause, cause)})"
        for cause, of in counts.items()
    ]
    if not ranges:
        return f"none {_acks_in_words(acks)}"
    if "all" in acks and len(acks) > 1 and causes == [_UNCOMMITTED]:
        ranges.append("none with acks=all")
    return ", ".join(ranges)


def _by_cause(run: str) -> dict[str, int]:
    """Return what one run lost by cause, from a text such as `1,781 unclean-election, 4 unexplained`."""
    if run == "none":
        return {}
    losses = (loss.split(" ", 1) for loss in run.split(", "))
    return {cause: int(count.replace(",", "")) for count, cause in losses}


def _acks_of_cause(cause: str, acks: frozenset[str]) -> str:
    """Return the acks of the records that this cause lost; a committed record may have been sent with any."""
    if cause == _UNCOMMITTED:
        return _acks_in_words(acks - {"all"} or acks)
    return _acks_in_words(acks) if len(acks) == 1 else "committed"


def _acks_in_words(acks: frozenset[str]) -> str:
    return f"with acks={' or '.join(sorted(acks))}"


def _target(text: str) -> tuple[tuple[int, ...], bool]:
    """Return the minor release of a target such as `4.3.1:eligible.leader.replicas.version=0`, and if the ELR is on."""
    kafka, _, features = text.partition(":")
    version = Version(kafka)
    levels = dict(one.partition("=")[::2] for one in features.split(",") if one)
    return version.release[:2], int(levels.get(ELR_VERSION, int(version >= ELR_BY_DEFAULT))) >= 1
